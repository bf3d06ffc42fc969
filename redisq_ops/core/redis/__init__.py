"""The way to a server: clients, commands, round trips, scripts."""
