"""`i`: the server, or each node of a Cluster: memory, load, clients, replicas, findings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import a_second, age, count, percent, printable, quantity, size
from redisq_ops.tui.charts.blocks import bar
from redisq_ops.tui.keys.key_footer import KeyFooter
from redisq_ops.tui.theme import BAD, DIM, OK, WARN

if TYPE_CHECKING:
    from redisq_ops.ops.doctor.server_report import ServerReport

_NAME, _BAR = 15, 20
_STYLES = {"warning": WARN, "wrong": BAD, "unknown": DIM}
_UNKNOWN = Text("unknown", DIM)


class ServerScreen(ModalScreen[None]):
    """What the server reports of itself, brought up to date by every snapshot."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,i", "dismiss", "Back"),
        Binding("j,down", "scroll(1)", "Down", show=False),
        Binding("k,up", "scroll(-1)", "Up", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        # Held, not queried: a snapshot may come before this screen is composed.
        self._text = Static("Asking the server …", markup=False)

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="sheet"):
            yield self._text
        yield KeyFooter()

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.servers_problem is not None:
            self._text.update(printable(snapshot.servers_problem))
        elif snapshot.servers:
            self._text.update(Text("\n\n").join(map(server_text, snapshot.servers)))

    def action_scroll(self, lines: int) -> None:
        self.query_one("#sheet").scroll_relative(y=lines, animate=False)


def server_text(report: ServerReport) -> Text:
    """A server's figures, a line each, and below them what `redisq doctor` finds wrong with it."""
    from redisq_ops.ops.doctor.server_checks import server_findings  # with the Redis client

    name = "Valkey" if "valkey_version" in report.info else "Redis"
    release = report.info.get("valkey_version") or report.info.get("redis_version") or ""
    lines = [
        Text.assemble(
            (printable(report.node or "server"), "bold"), f"  {name} {printable(str(release))}"
        )
    ]
    lines += [Text.assemble((f"  {what:<{_NAME}}", DIM), said) for what, said in _facts(report)]
    for found in server_findings(report):
        if found.verdict != "ok":
            style = _STYLES[found.verdict]
            lines.append(Text.assemble((f"  ! {found.check:<{_NAME - 2}}", style), found.sentence))
            if found.advice:
                lines.append(Text(f"  {'':<{_NAME}}{found.advice}", DIM))
    return Text("\n").join(lines)


def _facts(report: ServerReport) -> Iterator[tuple[str, Text]]:
    info = report.info
    yield "up", _said(info, "uptime_in_seconds", lambda seconds: age(1000 * seconds))
    yield "memory", _memory(info)
    yield "limit", _of_memory(info)
    yield "evictions", _evictions(info)
    yield "commands", _said(info, "instantaneous_ops_per_sec", a_second)
    yield "network", _network(info)
    yield "clients", _clients(info)
    yield "role", _role(info)
    yield "slow log", _slow(report)


def _said(info: Any, field: str, words: Any) -> Text:
    return Text(words(int(info[field]))) if field in info else _UNKNOWN


def _memory(info: Any) -> Text:
    """How full it is, and the room that is left."""
    if "used_memory" not in info:
        return _UNKNOWN
    from redisq_ops.ops.doctor.server_checks import MEMORY_WARNING, MEMORY_WRONG

    used, most = int(info["used_memory"]), _limit(info)
    if not most:
        return Text(f"{size(used)} used")
    style = BAD if used >= MEMORY_WRONG * most else WARN if used >= MEMORY_WARNING * most else OK
    room = f"{percent(used / most)} of {size(most)}, {size(max(0, most - used))} left"
    return Text.assemble((bar(used, most, _BAR), style), f" {size(used)} used, {room}")


def _limit(info: Any) -> int:
    """Bytes; 0: unknown."""
    return int(info.get("maxmemory", 0)) or int(info.get("total_system_memory", 0))


def _of_memory(info: Any) -> Text:
    if not _limit(info):
        return _UNKNOWN
    of = "maxmemory" if int(info.get("maxmemory", 0)) else "the machine's: maxmemory is not set"
    peak = f"; the most used so far: {size(int(info.get('used_memory_peak', 0)))}"
    return Text(of + (peak if "used_memory_peak" in info else ""))


def _evictions(info: Any) -> Text:
    if "evicted_keys" not in info:
        return _UNKNOWN
    lost, policy = int(info["evicted_keys"]), info.get("maxmemory_policy", "unknown")
    keys = f"{quantity(lost, 'key')} deleted" if lost else "no key deleted"
    said = f"{keys} for want of memory since the start; policy {printable(str(policy))}"
    return Text(said, BAD if lost else "")


def _network(info: Any) -> Text:
    kbps = [info.get(f"instantaneous_{way}_kbps") for way in ("input", "output")]
    if None in kbps:
        return _UNKNOWN
    come, gone = (size(int(1024 * float(rate))) for rate in kbps)
    return Text(f"{come}/s in, {gone}/s out")


def _clients(info: Any) -> Text:
    if "connected_clients" not in info:
        return _UNKNOWN
    clients, most = int(info["connected_clients"]), int(info.get("maxclients", 0))
    waiting = int(info.get("blocked_clients", 0))
    of = f" of at most {count(most)}" if most else ""
    full = most and clients >= 0.9 * most
    return Text(f"{count(clients)}{of}; {count(waiting)} wait for entries", BAD if full else "")


def _role(info: Any) -> Text:
    if info.get("role") != "master":
        primary = f"{info.get('master_host')}:{info.get('master_port')}"
        return Text(f"replica of {printable(primary)}", WARN)
    replicas = [info.get(f"slave{n}") or {} for n in range(int(info.get("connected_slaves", 0)))]
    if not replicas:
        return Text("primary, without replicas")
    lags = [int(one["lag"]) for one in replicas if "lag" in one]
    known = len(lags) == len(replicas)
    behind = f"the slowest {max(lags)} s behind" if known else "their lag is unknown"
    return Text(f"primary; {quantity(len(replicas), 'replica')}, {behind}")


def _slow(report: ServerReport) -> Text:
    if report.slow is None:
        return Text("can't be read", DIM)
    if not report.slow:
        return Text("no script")
    took, what = max(report.slow)
    number = quantity(len(report.slow), "script")
    return Text(printable(f"{number}, the longest {took / 1000:,.1f} ms: {what}"), WARN)
