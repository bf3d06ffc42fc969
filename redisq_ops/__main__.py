"""``python -m redisq_ops``: the command line; also run as a file, by spark-submit."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:  # the first entry is the current folder, or this file's
        del sys.path[0]
    from redisq_ops.cli.main import main

    main()
