"""``python -m redisq_ops``: the command line; also run as a file, by spark-submit."""

from redisq_ops.cli.main import main

if __name__ == "__main__":
    main()
