"""Entries and requests from files and into files."""
