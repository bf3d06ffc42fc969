"""Writing entries and requests from Spark's tasks."""
