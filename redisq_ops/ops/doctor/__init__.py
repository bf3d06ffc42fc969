"""`redisq doctor`: whether a server and its queues are set up so that no work is lost."""
