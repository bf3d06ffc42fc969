"""`redisq`, the command line. `main` runs it; `commands` declares what `actions` carries out."""
