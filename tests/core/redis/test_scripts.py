"""The Lua files keep their contract, and the loader says so when a call doesn't."""

import hashlib
import itertools
import re
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops import core
from redisq_ops.core.foreign import LAYOUTS
from redisq_ops.core.model.clock import FakeClock, ServerClock
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import Keys
from redisq_ops.core.model.settings import DEFAULTS, MAX_BATCH, MAX_RESULTS
from redisq_ops.core.redis import script_files, scripts
from redisq_ops.core.redis.operation import Call
from redisq_ops.core.redis.script_files import ScriptHeader
from redisq_ops.core.redis.scripts import script

CORE = Path(core.__file__).parent
FILES = sorted(CORE.rglob("*.lua"))
QUEUES = [f"queues.{kind}" for kind in ("request", "delay", "circular", "carmine", "fair")]
FOREIGN = sorted({folder for folder, _ in LAYOUTS.values() if folder.startswith("foreign.")})
TRIES = {
    # Which queue a job's record names; the record goes on as it is.
    "ruby_jobs/job_records.lua": ["pcall(cjson.decode, "],
    # Another's key may be there, and asking each time is dearer.
    "history.lua": ["redis.pcall('HINCRBY', ", "redis.pcall('XADD', "],
    "wake_workers.lua": ["redis.pcall('LLEN', "],
    "delay/hand_over.lua": ["redis.pcall('LPUSH', to_wake, "],
    "ruby_jobs/job_counters.lua": ["redis.pcall('INCRBY', "],
    "sidekiq/jobs.lua": ["redis.pcall('INCRBY', "],
    "fair/leave_list.lua": ["redis.pcall('LPOP', "],
    "bullmq/events.lua": ["redis.pcall('XADD', "],
    "foreign/elements.lua": ["redis.pcall('XADD', "],
    "bull/events.lua": ["redis.pcall('PUBLISH', "],
    "bull/waiting.lua": ["redis.pcall('PUBLISH', "],
    "bullmq/waiting.lua": ["redis.pcall('INCR', "],
    "carmine/empty_polls.lua": ["redis.pcall('INCR', dry_runs)"],
    # That is how they ask.
    "type_check.lua": ["redis.pcall(SIZE[kind], "],
    # What is settled stays so.
    "settle_and_take.lua": ["pcall(take"],
    "request/request_types.lua": ["redis.pcall('XPENDING', "],
    "foreign/undo_elements.lua": ["pcall(cmsgpack.unpack, "],
    "foreign/step_rows.lua": ["pcall(cmsgpack.unpack, "],
    "foreign/trash.lua": ["pcall(cmsgpack.unpack, "],
    # Reads only: what can't be read is put off, or ends a call that has already written.
    "fair/pack_lists.lua": ["pcall(accounts_change, ", "pcall(accounts_parse, "],
    "fair/take.lua": ["pcall(accounts_load, "],
    # Who hasn't the right to publish changes an entry all the same.
    "request/control_request.lua": ["redis.pcall('PUBLISH', "],
    "request/request_completion.lua": ["redis.pcall('PUBLISH', "],
    "results.lua": ["redis.pcall('PUBLISH', "],
    "request/retire_requests.lua": ["pcall(request_get, "],
    # What can't be read is left to the scripts that say what is wrong.
    "request/fast_path.lua": ["redis.pcall("],
    "request/take.lua": ["redis.pcall('XREADGROUP', ", "pcall(looked_at, "],
}


def folder(path: Path) -> str:
    """The package whose ``lua`` folder has the file, as the loader is told it."""
    return ".".join(path.parent.parent.relative_to(CORE).parts)


def name(path: Path) -> str:
    package = folder(path).rpartition(".")[2]
    return f"{package}/{path.name}" if package != "engine" else path.name


def code(path: Path) -> str:
    """A file without its comments."""
    return re.sub(r"--.*", "", path.read_text())


def is_script(path: Path) -> bool:
    """A script is called by itself; a fragment only stands in scripts, and has no arguments."""
    header = ScriptHeader.parse(path.read_text())
    return bool(header.argv or header.rest)


BY_FOLDER = {key: list(group) for key, group in itertools.groupby(FILES, folder)}
every_folder = pytest.mark.parametrize("files", BY_FOLDER.values(), ids=BY_FOLDER)


@every_folder
def test_a_file_says_what_it_is_for_and_what_it_returns(files: list[Path]) -> None:
    for path in files:
        text = path.read_text()
        assert re.match(r"-- [A-Z`]", text), f"{path}: the first line says in words what it does"
        if is_script(path):
            assert "-- Returns" in text or text.endswith("\nreturn 1\n"), path
        else:
            assert not ScriptHeader.parse(text).flags, path


@every_folder
def test_lines_are_short(files: list[Path]) -> None:
    for path in files:
        lines = path.read_text().splitlines()
        assert [n for n, line in enumerate(lines, 1) if len(line) > 105] == [], path


@every_folder
def test_a_file_has_none_of_what_goes_wrong(files: list[Path]) -> None:
    for path in files:
        text = code(path)
        for tried in TRIES.get(name(path), ()):
            assert tried in text, path
            text = text.replace(tried, "(")
        for word in (r"'KEYS'", r"'SCAN'", r"cjson\.", r"math\.random", r"'TIME'", r"\bpcall\("):
            assert not re.search(word, text), f"{path}: {word}"
        # In Lua only the last of several expressions gives more than one value.
        assert not re.search(r"\bunpack\((?:[^()]|\([^()]*\))*\)\s*,", text), path
        # A number Lua writes by itself may come out as 1e+15; times are written with %.0f or are
        # words.
        assert not re.findall(r"tostring\((?:now|ready|at|score)[^a-z_]", text), path


def scripts_of(package: str) -> list[str]:
    """The names of all scripts that a queue of that kind can run."""
    places = script_files.folders(package)
    names = {path.stem for path in FILES if folder(path) in places and is_script(path)}
    return sorted(name for name in names if complete(package, name))


def complete(package: str, name: str) -> bool:
    """Another program's layout has no hooks: the engine's scripts that call some aren't for it."""
    try:
        script(package, name)
    except FileNotFoundError:
        assert package in FOREIGN
        return False
    return True


@pytest.mark.parametrize("package", [*QUEUES, *FOREIGN])
def test_each_script_compiles(valkey_url: str, package: str) -> None:
    with redis.Redis.from_url(valkey_url) as client:
        for each in scripts_of(package):
            loaded = script(package, each)
            assert client.script_load(loaded.text) == loaded.sha.encode() or loaded.sha
            assert loaded.sha == hashlib.sha1(loaded.text.encode()).hexdigest()


def test_a_script_has_the_functions_and_constants_it_needs_and_no_others() -> None:
    function = re.compile(r"^local function (\w+)", re.M)
    for package in QUEUES:
        for each in ("take", "settle", "move", "move_range", "undo"):
            loaded = script(package, each)
            named = function.findall(loaded.text)
            assert len(named) == len(set(named)) > 10
            for name in named:
                assert len(re.findall(rf"\b{name}\b", loaded.text)) > 1, f"{package}/{each}: {name}"
    # What only a function calls goes with it, and what nothing calls goes.
    assert "function request_locate" in script("queues.request", "move_range").text
    assert "function storage_retire" in script("queues.request", "sweep").text
    assert "function storage_retire" not in script("queues.request", "move_range").text
    statements = [
        "local FEW, many = 3, {}",
        "local NONE = 0 -- (not used)",
        "local got = redis.call('TIME')",
        "local function b()\n  return FEW\nend",
        "local function a() return b() end",
        "local function c()\n  if a() then\n    return NONE\n  end\nend",
        "return a()",
    ]
    text = "\n\n-- Why.\n".join(statements)
    assert list(script_files.statements(text)) == statements
    kept = [statements[i] for i in (0, 2, 3, 4, 6)]
    assert scripts._needed(statements) == kept
    with pytest.raises(AssertionError, match="two functions"):
        scripts._needed([*statements, statements[3]])


@pytest.mark.parametrize("package", [*QUEUES, "foreign.sidekiq", "foreign.resque"])
def test_what_is_counted_is_written(package: str) -> None:
    """Numbers that were given out and not written would be given out again."""
    for each in scripts_of(package):
        text, parts = script(package, each).text, script(package, each).header.parts
        for part in parts:
            text = text.replace(f"local function {part}()", "do")
        outside = [part for part in script_files.statements(text) if not part.startswith("local f")]
        counts = re.search(r"\bcounters_(add|reserve)\(", "\n".join(outside))
        if counts or "function counters_reserve" in text:
            ends = re.compile(r"^ *(transitions_flush|counters_write)\(\)", re.M)
            assert ends.search("\n".join(outside)), (package, each)


def test_what_lua_has_as_defaults_is_what_python_has() -> None:
    text = script("queues.request", "settle").text
    for field in ("max_failures", "max_lost", "keep_ms", "trash_ms", "history_max"):
        assert f"{field}={getattr(DEFAULTS, field)}" in text
    assert f"history='{DEFAULTS.history}'" in text
    assert f"max_results={MAX_RESULTS}" in text


def test_what_must_work_on_a_full_server_says_so() -> None:
    """All but what brings new data in."""
    for package in QUEUES:
        for each in ("take", "settle", "extend", "move", "undo", "sweep", "configure"):
            assert script(package, each).header.flags == ("allow-oom",)
    assert script("queues.request", "control_request").header.flags == ("allow-oom",)
    assert script("queues.request", "submit").header.flags == ()
    assert script("queues.delay", "schedule").header.flags == ()


def test_a_kinds_own_file_goes_before_the_engines() -> None:
    assert "jobs_bury" in script("foreign.sidekiq", "settle").text
    assert "jobs_bury" not in script("queues.delay", "settle").text


def test_a_hook_is_the_kinds_or_else_the_interfaces_default() -> None:
    default = "local function storage_again() return nil end"
    assert default in script("queues.request", "settle").text
    assert default not in script("queues.delay", "settle").text
    assert "local function storage_again(id)" in script("queues.delay", "settle").text
    with pytest.raises(
        FileNotFoundError, match=r"foreign\.streams: no file implements storage_\w+"
    ):
        script("foreign.streams", "settle")


def test_a_header_says_when_types_are_checked_and_which_counters_are_read() -> None:
    kinds = frozenset({("meta", "hash"), ("lease", "zset"), ("err", "hash")})
    take = script("queues.delay", "take", kinds).text
    assert "\ntype_check_all()\n" not in take  # TYPES: once
    move = script("queues.delay", "move", kinds).text
    assert "\ntype_check_all()\n" in move
    assert "[op_ .. caller] = 'hash'" in move  # ENTRIES
    assert "[undo_ .. caller .. ':' .. seq] = 'list'" in move
    steps = script("queues.delay", "move_range", kinds).text
    assert "\nif seq == '1' then type_check_all() end\n" in steps  # TYPES: first
    assert "\ntype_check_key(meta, 'hash')\n" in script("queues.request", "take", kinds).text
    assert "local COUNTERS = {'fence', 'waiting'}" in script("queues.request", "take").text
    assert "local run_by = 'worker'" in script("queues.fair", "settle").text
    assert "local run_by = 'operator'" in script("queues.fair", "undo").text


@pytest.mark.parametrize("package", [*QUEUES, *FOREIGN])
def test_no_module_hides_a_key_or_an_argument(package: str) -> None:
    declared = re.compile(r"^local (?:function )?([\w, ]+)", re.M)
    for each in scripts_of(package):
        header = script(package, each).header
        named = {*header.keys, *header.argv}
        for unit, text in script_files.modules(package, header).items():
            for names in declared.findall(text):
                hidden = named & set(re.split(r", *", names.strip()))
                assert not hidden, f"{unit} hides {hidden} of {each}"


def test_a_module_stands_once_and_before_what_uses_it() -> None:
    text = script("queues.delay", "take").text
    names = ("record_read", "storage_moved", "transitions_move", "reclaim_expired")
    places = [text.index(f"local function {name}(") for name in names]
    assert places == sorted(places)
    assert text.count("local function transitions_move(") == 1


def test_a_call_declares_its_keys_in_one_slot_and_carries_the_clock() -> None:
    keys = Keys("mail")
    rows = [("r/1", "x-1")]
    call = script("queues.request", "extend").call(keys, FakeClock(7), list, rows, lease_ms=30)
    verb, sha, count, *rest = call.command
    assert (verb, sha) == ("EVALSHA", script("queues.request", "extend").sha)
    assert rest[: int(count)] == [f"redisq:{{mail}}:{p}" for p in ("lease", "meta")]
    assert rest[int(count) :] == ["7", 30, "r/1", "x-1"]
    assert call.key == "redisq:{mail}:lease"
    live = script("queues.request", "extend").call(keys, ServerClock(), list, lease_ms=30)
    assert live.command[-2:] == ("", 30)


def test_a_call_that_breaks_the_header_is_refused() -> None:
    def call(name: str, *rows: tuple[str, ...], **argv: Any) -> Call[Any]:
        return script("queues.request", name).call(Keys("q"), ServerClock(), list, rows, **argv)

    wrong_names: list[dict[str, int]] = [{}, {"lease": 3}, {"lease_ms": 3, "more": 1}]
    for wrong in wrong_names:
        with pytest.raises(TypeError, match="takes"):
            _ = call("extend", **wrong)
    with pytest.raises(TypeError, match="rows"):
        _ = call("extend", ("only-one",), lease_ms=1)
    with pytest.raises(TypeError, match="rows"):
        _ = call("sweep", ("row",), max=1)
    with pytest.raises(BadInput, match="501"):
        _ = call("extend", *[("r/1", "x")] * (MAX_BATCH + 1), lease_ms=1)


def test_a_header_may_have_several_lines_of_a_word_and_ends_with_the_comment() -> None:
    text = "-- Do it.\n-- KEYS: a b\n-- KEYS: c\n-- USES: d\nlocal x = 1 -- KEYS: no\n"
    assert ScriptHeader.parse(text) == ScriptHeader(keys=("a", "b", "c"), uses=("d",))
