"""Queues that other programs keep, a folder for each program."""
