"""Spark itself: sessions, the data source, the Connect server, settings."""
