"""Reading queues: tables, and the readers of their rows."""
