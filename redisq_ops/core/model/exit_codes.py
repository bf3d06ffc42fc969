"""The exit codes of `redisq`: the same mistake has the same code in every command.

Each error has its exit code (`errors`). Only `redisq check` has other codes, those of monitoring
plugins; it defines them itself.
"""

from typing import Final

DONE: Final = 0
"""all is as intended, also where nothing matched"""
FAILED: Final = 1
"""refused, unknown or failed"""
BAD_INPUT: Final = 2
"""a word of the command line, a name, a number or a file is not usable"""
PARTLY_DONE: Final = 3
"""a part was done or read, and a part was not"""
UNREACHABLE: Final = 4
"""the server can't be reached, or was lost"""
UNCONFIRMED: Final = 5
"""the change needs a confirmation (``--yes``)"""
TIMED_OUT: Final = 124
"""the event that a command waited for did not happen in time"""
INTERRUPTED: Final = 130
"""Ctrl+C"""
