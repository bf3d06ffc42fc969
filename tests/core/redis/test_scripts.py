"""The Lua files keep their contract, and the loader says so when a call doesn't."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import redis

from redisq_ops import core
from redisq_ops.core.model.clock import FakeClock, ServerClock
from redisq_ops.core.model.errors import BadInput
from redisq_ops.core.model.keys import Keys
from redisq_ops.core.model.settings import DEFAULTS, MAX_BATCH, MAX_RESULTS
from redisq_ops.core.redis import scripts
from redisq_ops.core.redis.operation import Call
from redisq_ops.core.redis.scripts import ScriptHeader, script

CORE = Path(core.__file__).parent
FILES = sorted(CORE.rglob("*.lua"))
ROOMS = ["queues.request", "queues.delay", "queues.fair"]
NO_KEYS = {
    "list_append.lua",
    "step_ended.lua",
    "type_check.lua",
    "bulk_write.lua",
    "list_of.lua",
    "transfer_names.lua",
    "number_words.lua",
    "type_check_hook.lua",
    "corrupt_values.lua",
    "deadline_hook.lua",
    "parse_settlements.lua",
    "remove_from_list.lua",
    "calendar.lua",
    "owner_keys.lua",
}
MOST_LINES = 90
LONGER = {
    "request/storage.lua": "the record of a request and all that hangs on it change together",
    "rq/owner.lua": "all that is written into RQ's keys is in one place",
    "request/take.lua": "tokens, limits, purged ones and retries meet in one loop",
}

TRIES = {
    # Which queue a job's record names; the record goes on as it is.
    "resque/dead_jobs.lua": ["pcall(cjson.decode, "],
    # Another's key may be there, and asking each time is dearer.
    "history.lua": ["redis.pcall('HINCRBY', ", "redis.pcall('XADD', "],
    "wake_workers.lua": ["redis.pcall('LLEN', "],
    "delay/hand_over.lua": ["redis.pcall('LPUSH', to_wake, "],
    "resque/owner_counters.lua": ["redis.pcall('INCRBY', "],
    "fair/leave_list.lua": ["redis.pcall('LPOP', "],
    "carmine/empty_polls.lua": ["redis.pcall('INCR', dry_runs)"],
    # That is how they ask.
    "type_check.lua": ["redis.pcall(SIZE[kind], "],
    "request/type_check_hook.lua": ["redis.pcall('XPENDING', "],
    "resque/places.lua": ["pcall(cmsgpack.unpack, "],
    "resque/undo_rows.lua": ["pcall(cmsgpack.unpack, "],
    "foreign/trash.lua": ["pcall(cmsgpack.unpack, "],
    "foreign/undo.lua": ["pcall(cmsgpack.unpack, "],
    # Reads only: what can't be read is put off, or ends a call that has already written.
    "fair/pack_lists.lua": ["pcall(account, ", "pcall(opened, "],
    "fair/take.lua": ["pcall(open_accounts, "],
    # Who hasn't the right to publish changes a request all the same.
    "request/control_request.lua": ["redis.pcall('PUBLISH', "],
    "request/storage.lua": ["pcall(request, ", "redis.pcall('PUBLISH', "],
    "request/take.lua": ["redis.pcall('XREADGROUP', ", "pcall(looked_at, "],
}


def folder(path: Path) -> str:
    """The package whose ``lua`` folder has the file, as the loader is told it."""
    return ".".join(path.parent.parent.relative_to(CORE).parts)


def name(path: Path) -> str:
    room = folder(path).rpartition(".")[2]
    return f"{room}/{path.name}" if room != "engine" else path.name


def code(path: Path) -> str:
    """A file without its comments."""
    return re.sub(r"--.*", "", path.read_text())


def is_script(path: Path) -> bool:
    """A script is called by itself; a fragment only stands in scripts, and has no arguments."""
    header = ScriptHeader.parse(path.read_text())
    return bool(header.argv or header.rest)


every_file = pytest.mark.parametrize("path", FILES, ids=map(name, FILES))


@every_file
def test_a_file_says_what_it_is_for_and_what_it_touches(path: Path) -> None:
    lines = path.read_text().splitlines()
    assert re.match(r"-- [A-Z]", lines[0]), "the first line says in words what it does"
    header = ScriptHeader.parse(path.read_text())
    assert header.keys or header.uses or path.name in NO_KEYS
    if is_script(path):
        assert "-- Returns" in path.read_text() or path.read_text().endswith("\nreturn 1\n")
    else:
        assert not header.flags


@every_file
def test_a_file_is_short(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= MOST_LINES or (name(path) in LONGER and lines <= 2.5 * MOST_LINES)


def test_no_file_is_excused_that_is_short_by_now() -> None:
    long = {name(path) for path in FILES if len(path.read_text().splitlines()) > MOST_LINES}
    assert long == set(LONGER)


@every_file
def test_no_line_is_too_long(path: Path) -> None:
    assert [n for n, line in enumerate(path.read_text().splitlines(), 1) if len(line) > 105] == []


@every_file
def test_a_file_has_none_of_what_goes_wrong(path: Path) -> None:
    text = code(path)
    for tried in TRIES.get(name(path), ()):
        assert tried in text
        text = text.replace(tried, "(")
    for word in (r"'KEYS'", r"'SCAN'", r"cjson\.", r"math\.random", r"'TIME'", r"\bpcall\("):
        assert not re.search(word, text), word
    # In Lua only the last of several expressions gives more than one value.
    assert not re.search(r"\bunpack\((?:[^()]|\([^()]*\))*\)\s*,", text)
    # A number Lua writes by itself may come out as 1e+15; times are written with %.0f or are words.
    for bad in re.findall(r"tostring\((?:now|ready|at|score)[^a-z_]", text):
        raise AssertionError(bad)


@every_file
def test_every_fragment_named_is_there(path: Path) -> None:
    room = folder(path)
    for fragment in ScriptHeader.parse(path.read_text()).uses:
        for each in ROOMS if room == "engine" else [room]:
            assert scripts._read(each, fragment)


@pytest.mark.parametrize("room", ROOMS)
def test_each_script_compiles_and_declares_every_key_it_uses(valkey_url: str, room: str) -> None:
    own = {path.stem for path in FILES if folder(path) == room and is_script(path)}
    shared = {path.stem for path in FILES if folder(path) == "engine" and is_script(path)}
    with redis.Redis.from_url(valkey_url) as client:
        for each in sorted(own | shared):
            loaded = script(room, each)
            assert client.script_load(loaded.text) == loaded.sha.encode() or loaded.sha
            assert loaded.sha == hashlib.sha1(loaded.text.encode()).hexdigest()
            _no_global_is_read(each, loaded.text)


def _no_global_is_read(which: str, text: str) -> None:
    """A key that isn't declared would be a global, and nil: nothing but the call would tell."""
    bare = re.sub(r"'[^']*'", "''", text)
    for command in re.finditer(r"redis\.call\('', *([a-z_]+)\b", bare):
        word = command.group(1)
        assert re.search(rf"\b(local|for|function)\b[^\n]*\b{word}\b", bare), f"{which}: {word}"


def test_a_script_has_the_functions_it_needs_and_no_others() -> None:
    function = re.compile(r"^local function (\w+)", re.M)
    for room in ROOMS:
        for each in ("take", "settle", "move", "move_range", "undo"):
            text = script(room, each).text
            named = function.findall(text)
            assert len(named) == len(set(named)) > 10
            for name in named:
                assert len(re.findall(rf"\b{name}\b", text)) > 1, f"{room}/{each}: {name}"
    # What only a function calls goes with it, and what nothing calls goes.
    assert "function located" in script("queues.request", "move_range").text
    assert "function room_retire" in script("queues.request", "sweep").text
    assert "function room_retire" not in script("queues.request", "move_range").text
    kept = "local function b()\n  return 1\nend\n"
    user = "local function a() return b() end\n"
    text = "local function c()\n  if a() then\n    return a()\n  end\nend\n"
    assert scripts._shaken(f"{kept}{user}{text}return a()") == f"{kept}{user}return a()"
    with pytest.raises(AssertionError, match="two functions"):
        scripts._shaken(f"{kept}{kept}return b()")


def test_what_is_counted_is_written() -> None:
    """Numbers that were given out and not written would be given out again."""
    for room in sorted({folder(path) for path in FILES} - {"engine", "foreign.streams"}):
        for path in FILES:
            if not is_script(path) or folder(path) not in (room, "engine"):
                continue
            try:
                text = script(room, path.stem).text
            except FileNotFoundError:
                continue
            outside = scripts._FUNCTION.sub("", text)
            if re.search(r"\b(count|reserve)\(", outside) or "function reserve" in text:
                assert re.search(r"^ *(flush|write_counters)\(\)", outside, re.M), (room, path.stem)


def test_what_lua_has_as_defaults_is_what_python_has() -> None:
    text = script("queues.request", "settle").text
    for field in ("max_failures", "max_lost", "keep_ms", "trash_ms", "history_max"):
        assert f"{field}={getattr(DEFAULTS, field)}" in text
    assert f"history='{DEFAULTS.history}'" in text
    assert f"max_results={MAX_RESULTS}" in text


def test_what_must_work_on_a_full_server_says_so() -> None:
    """All but what brings new data in."""
    for room in ROOMS:
        for each in ("take", "settle", "extend", "move", "undo", "sweep", "configure"):
            assert script(room, each).header.flags == ("allow-oom",)
    assert script("queues.request", "control_request").header.flags == ("allow-oom",)
    assert script("queues.request", "submit").header.flags == ()
    assert script("queues.delay", "schedule").header.flags == ()


def test_a_rooms_own_file_goes_before_the_shared_one() -> None:
    assert script("queues.request", "take").text != script("queues.delay", "take").text
    assert "XREADGROUP" in script("queues.request", "take").text
    assert "XREADGROUP" not in script("queues.delay", "take").text


@pytest.mark.parametrize("room", sorted({folder(path) for path in FILES} - {"engine"}))
def test_no_fragment_hides_a_key_or_an_argument(room: str) -> None:
    declared = re.compile(r"^local (?:function )?([\w, ]+)", re.M)
    for path in FILES:
        if not is_script(path) or folder(path) not in (room, "engine"):
            continue
        try:
            header = script(room, path.stem).header
        except FileNotFoundError:  # not for this room: there is no `room.lua` it could stand on
            continue
        named = {*header.keys, *header.argv}
        for fragment in header.uses:
            for names in declared.findall(scripts._read(room, fragment)):
                hidden = named & set(re.split(r", *", names.strip()))
                assert not hidden, f"{fragment} hides {hidden} of {path.name}"


def test_a_fragment_stands_once_and_before_what_uses_it() -> None:
    text = script("queues.delay", "take").text
    places = [text.index(f"local function {f}(") for f in ("records", "room_move", "move", "reap")]
    assert places == sorted(places)
    assert text.count("local function move(") == 1


def test_a_call_declares_its_keys_in_one_slot_and_carries_the_clock() -> None:
    keys = Keys("mail")
    rows = [("r/1", "x-1")]
    call = script("queues.request", "extend").call(keys, FakeClock(7), list, rows, lease_ms=30)
    verb, sha, count, *rest = call.command
    assert (verb, sha) == ("EVALSHA", script("queues.request", "extend").sha)
    assert rest[: int(count)] == [f"rq:{{mail}}:{p}" for p in ("lease", "meta")]
    assert rest[int(count) :] == ["7", 30, "r/1", "x-1"]
    assert call.key == "rq:{mail}:lease"
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
