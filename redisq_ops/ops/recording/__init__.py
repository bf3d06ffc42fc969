"""Recordings: samples of all queues over hours in one file, and the state at any moment of it."""
