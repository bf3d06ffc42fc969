"""`make lines`: how many lines each part of the repository has, beside an earlier commit."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter

GENERATED = ("snapshots/", "docs/reference/json.md", ".ci/constraints.txt")
_LINES = ("git", "grep", "-c", "-I", "")


def part_of(path: str) -> str | None:
    """The part of the repository that counts a file; None: not counted."""
    if path.startswith(GENERATED):
        return "generated"
    if path.endswith((".lua", ".sql")):
        return "Lua" if path.endswith(".lua") else "SQL"
    if not path.endswith(".py"):
        return None
    folders = path.removeprefix("redisq_ops/").split("/")[:-1]
    return folders[0] if folders else "other"


def counted(commit: str | None = None) -> Counter[str]:
    """Lines by part: of a commit, or of the files here that git knows."""
    words = [*_LINES, *([commit] if commit else [])]
    output = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    found: Counter[str] = Counter()
    for line in output.splitlines():
        path, _, lines = line.removeprefix(f"{commit}:").rpartition(":")
        if (part := part_of(path)) is not None:
            found[part] += int(lines)
    return found


if __name__ == "__main__":
    base = sys.argv[1]
    before, now = counted(base), counted()
    print(f"{'':<12}{base[:12]:>12}{'here':>9}")
    for part in sorted(before | now):
        print(f"{part:<12}{before[part]:>12,}{now[part]:>9,}{now[part] - before[part]:>+8,}")
