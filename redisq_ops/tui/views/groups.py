"""`7`: dead letters grouped by error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from redisq_ops.ops.inspect.snapshot import Snapshot
from redisq_ops.ops.terminal import count, printable
from redisq_ops.tui.table.table_model import Cell
from redisq_ops.tui.theme import DIM

from .base import ChangeTarget, Items
from .columns import Column, ages, numbers, texts
from .delayed import moment, zone_of
from .new_groups import ERROR, LARGEST, NEW, NewGroupsView, counted

if TYPE_CHECKING:
    from redisq_ops.ops.filter.ast import Query
    from redisq_ops.ops.groups.error_groups import ErrorGroup


@dataclass(frozen=True, slots=True)
class Scanned:
    """The groups of all dead letters at one moment; small groups are only counted."""

    groups: tuple[ErrorGroup, ...]
    looked: int
    other_groups: int
    other_entries: int
    at_ms: int
    unread: str = ""
    """what could not be read, and so is in no group; empty: everything was read"""


def _share(group: ErrorGroup, view: GroupsView) -> Cell:
    return share(group.count, view.looked)


def _different(key: str, width: int, of: Callable[[ErrorGroup], Any], priority: int) -> Column:
    def cell(group: ErrorGroup, _: object) -> Cell:
        names = of(group)
        return ("-", DIM) if not len(names) else f"{len(names)}{'+' if names.more else ''}"

    made = numbers(key, key, width, lambda g: len(of(g)), priority=priority)
    return replace(made, cell=cell)


class GroupsView(NewGroupsView):
    """Groups of the latest dead letters, from each snapshot, or of all, from a scan."""

    name_ = "groups"
    title = "groups"
    short = "groups"
    about = "Groups of dead, by error"
    at_once = True
    verbs = frozenset({"replay", "purge"})
    acts_on = "dead"
    has_details = True
    of_some_kinds: ClassVar[Mapping[str, str]] = {
        "clients": "HasClients",
        "requests": "HasRequests",
    }
    columns = (
        texts("group", "group", 8, lambda g: g.fingerprint),
        Column("count", "entries", 7, counted, align="right"),
        NEW,
        replace(numbers("share", "share", 5, lambda g: g.count), cell=_share),
        numbers("lost", "lost", 5, lambda g: g.lost, priority=4),
        ages("first", "first", 7, lambda g: g.first_ms, style=DIM, priority=1),
        ages("last", "last", 7, lambda g: g.last_ms, falls=True),
        _different("clients", 7, lambda g: g.clients, priority=3),
        _different("requests", 8, lambda g: g.requests, priority=5),
        replace(ERROR, flex=1, width=44),
    )
    usual = LARGEST
    empty = "no dead letters: once some are in view 5, they are grouped here by error"

    def __init__(self) -> None:
        super().__init__()
        self.whole: Scanned | None = None
        """the groups of a scan, shown instead of the latest ones until Esc"""
        self._all_read = False
        """whether the latest ones are all there are"""

    def take(self, whole: Scanned | None) -> None:
        """Show the groups of a scan; None: of the latest dead letters again."""
        self.whole = whole
        self.show_again()

    def acted_on(self, chosen: tuple[str, ...]) -> None:
        """Keep the groups of a scan on the screen, without those that the change handled."""
        if self.whole is not None and chosen:
            gone = [group for group in self.whole.groups if group.fingerprint in chosen]
            self.whole = replace(
                self.whole,
                groups=tuple(group for group in self.whole.groups if group not in gone),
                looked=self.whole.looked - sum(group.count for group in gone),
            )
            self.show_again()
        elif self.whole is not None:
            self.take(None)

    def forget(self) -> None:
        self.whole = None
        super().forget()

    def items(self, snapshot: Snapshot) -> Items:
        found = self.whole.groups if self.whole else snapshot.groups
        self._new = {}
        self._all_read = snapshot.exact and snapshot.looked >= snapshot.total
        if self.whole is None:  # unknown of the groups of a scan
            self._count_new(found, self._all_read, snapshot.viewport.queue, snapshot)
        return Items(0, len(found), found)

    def identity(self, item: ErrorGroup) -> str:
        return item.fingerprint

    def _is_gone(self, identity: str) -> bool:
        # Otherwise its dead letters may be older than those that were looked at.
        return self._all_read and super()._is_gone(identity)

    @property
    def looked(self) -> int:
        """How many dead letters were read for the groups."""
        seen = self.whole or self.snapshot
        return seen.looked if seen else 0

    def words(self, item: Any) -> tuple[str, ...]:
        group: ErrorGroup = item
        return (group.fingerprint, group.type or "", group.form)

    def group(self, fingerprint: str) -> ErrorGroup | None:
        """A listed group."""
        return next((g for g in self._items.items if g.fingerprint == fingerprint), None)

    @property
    def subject(self) -> str | None:
        """The latest entry of the group under the cursor, which stands for the others."""
        under = self.table.identity
        group = self.group(under) if under else None
        return group.sample if group else None

    @property
    def target(self) -> ChangeTarget | None:
        chosen = self.chosen
        if not chosen:
            return None
        # A scan has all ids already.
        known = [self.group(each) for each in chosen] if self.whole else []
        ids = [group.all_ids if group else () for group in known]
        found = tuple(id for each in ids for id in each) if ids and all(ids) else ()
        return ChangeTarget("dead", found, only(chosen))

    @property
    def status(self) -> list[str]:
        said = super().status
        if self.whole is not None:
            when = moment(self.whole.at_ms, zone_of(self))
            some = f": {printable(self.whole.unread, 60)}" if self.whole.unread else ""
            all_ = "" if some else "all "
            said.append(f"{all_}{count(self.whole.looked)} dead at {when}{some}; Esc: the latest")
            if self.whole.other_groups:
                said.append(
                    f"{count(self.whole.other_entries)} more in {count(self.whole.other_groups)} "
                    "small groups"
                )
        elif (seen := self.snapshot) is not None and (seen.looked < seen.total or not seen.exact):
            which = "the latest" if seen.exact else "some"
            of = f"{'' if seen.exact else '≥'}{count(seen.total)}"
            said.append(f"{which} {count(seen.looked)} of {of} dead; f: all of them")
        elif seen is not None and seen.total:
            said.append(f"all {count(seen.total)} dead")
        if self.snapshot and any(new and new.number for new in self._new.values()):
            since = moment(
                self._since_ms(self.snapshot.viewport.queue, self.snapshot), zone_of(self)
            )
            said.append(f"new: died since {since}")
        return said


def only(groups: tuple[str, ...]) -> Query:
    """The filter for only these groups, in the form typed after ``/``."""
    from redisq_ops.ops.filter.parser import parse

    return parse("group=" + ",".join(groups))


def share(n: int, of: int) -> str:
    """A share in percent; 100 % means all, 0 % none."""
    percent = 100 if n >= of else min(99, round(100 * n / of))
    return f"{percent} %" if percent else "<1 %"
