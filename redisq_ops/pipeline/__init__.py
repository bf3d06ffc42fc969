"""The data pipeline on Spark: split, export, report, replay. Nothing else imports this."""
