"""`redisq`, the command line: `main` runs a command, `commands` lists them, a module has each."""
