"""Run all measurements, or the named ones."""

from __future__ import annotations

import importlib
import os
import platform
import sys

NAMES = (
    "cost",
    "circular",
    "delay",
    "fair",
    "carmine",
    "jobs",
    "scale",
    "discover",
    "memory",
    "dashboard",
    "refresh",
    "groups",
    "start",
    "worker",
    "idle",
    "cluster",
)
# Run only by name: they install other programs, or take many minutes.
ONLY_BY_NAME = (
    "peers",
    "tasks",
    "slow_link",
    "plans",
    "moves",
    "operations",
    "reads",
    "replay",
    "foreign_rows",
    "spark_write",
    "spark_export",
    "spark_job",
    "spark",
)


def main() -> None:
    wanted = sys.argv[1:] or list(NAMES)
    if unknown := set(wanted) - {*NAMES, *ONLY_BY_NAME}:
        sys.exit(
            f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(NAMES + ONLY_BY_NAME)}"
        )
    load = os.getloadavg()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} cores, load {load:.1f}")
    for name in wanted:
        module = importlib.import_module(f"benchmarks.{name}")
        print(f"\n== {name}: {(module.__doc__ or '').splitlines()[0]}")
        module.main()


if __name__ == "__main__":
    main()
