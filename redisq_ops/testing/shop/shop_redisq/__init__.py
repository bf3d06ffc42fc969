"""The shop's queues, read and changed by redisq: a list and a sorted set of JSON jobs."""
