"""Other frameworks in the demo: their own producers and workers beside those of redisq."""
