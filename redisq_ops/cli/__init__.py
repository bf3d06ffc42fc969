"""`redisq`, the command line. `main` runs a command; `commands` declares them all."""
