"""The queues: one room each, over shared building blocks. Renders nothing."""
