"""The data pipeline on Spark: submit, export, report, replay. Only the command line imports it."""
