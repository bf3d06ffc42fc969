"""`redisq`, the command line. `main` runs it; `commands` has a module per subject."""
