"""A throw-away server and a lively queue to look at."""
