"""For tests of programs that use redisq, and of kinds of queues that live outside it."""
