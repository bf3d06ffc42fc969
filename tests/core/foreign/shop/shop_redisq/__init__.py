"""A kind of queue outside redisq: a list and a sorted set of JSON jobs that a shop keeps."""
