"""Claims: which unit wants which objects, and whether its git has said so for good. An object that
two units want is changed by neither; planner.sync.ownership decides about marks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from gitkruise.kube.cache.subscriptions import Interests, Subscriptions
from gitkruise.model.gitops.config import UNIT_KIND, Reference, resolve_reference
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.sync_round import Live, Owner, SyncSnapshot
from gitkruise.planner.sync.annotations import UNIT_REF, annotation
from gitkruise.planner.sync.ownership import mark_of
from gitkruise.planner.sync.prune import choose_prunes, ending, leaving
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.paths import get

Wake = Callable[[], None]


class Unsettled(NamedTuple):
    """The reason why another commit of a unit may still want an object, and what `ends` that; ""
    and "" if none may. `reads`: the unit is about to judge such a commit. A commit that waits for
    other units alone `keeps` its objects, and releases the others before it is taken."""

    why: str = ""
    ends: str = ""
    reads: bool = False
    keeps: frozenset[ObjectKey] | None = None

    def releases(self, key: ObjectKey) -> bool:
        """Return whether the unit releases an object although it may read another commit."""
        return self.keeps is not None and key not in self.keeps


_SETTLED: Final = Unsettled()


def brought_units(
    keys: Iterable[ObjectKey], objects: Mapping[ObjectKey, Desired], source: str
) -> Mapping[str, str]:
    """Return the Units among `keys` with the source that each follows; `source` where their
    objects are not known."""
    found: dict[str, str] = {}
    for key in keys:
        if key.group_kind == UNIT_KIND:
            named = get(objects[key].obj, "spec", "sourceRef") if key in objects else None
            ref = Reference(named["name"], named.get("namespace", "")) if named else None
            follows = resolve_reference(ref, key.namespace) if ref is not None else source
            found[f"{key.namespace}/{key.name}"] = follows
    return found


def units_that_left(s: SyncSnapshot) -> Mapping[str, bool]:
    """Return the Units of a unit that its git no longer contains, and whether they go in the end:
    no guard keeps them."""
    gone = {key for key in leaving(s) if key.group_kind == UNIT_KIND}
    free = choose_prunes(replace(s, prune_held="", prune_soon=False)).now if gone else ()
    ends = {key for key in ending(s.live, s.desired.by_key()) if key.group_kind == UNIT_KIND}
    return {f"{key.namespace}/{key.name}": key in ends or key in free for key in gone | ends}


class Claims:
    """The objects that each unit wants now, shared by all units of a process.

    For each source, the commit that each unit has read is known: an object that moves from one unit
    to another in one commit must not be deleted in between.
    """

    def __init__(self) -> None:
        self._wanted: Interests[ObjectKey] = Interests()
        self._asked: Subscriptions[ObjectKey, []] = Subscriptions()  # what each must know of others
        self._sources: dict[str, str] = {}  # of each unit
        self._read: dict[str, dict[str, str]] = {}  # by source: the commit each unit has read
        self._counts: dict[str, Counter[str]] = {}  # by source: units that have read a commit
        self._waiting: dict[str, set[str]] = {}  # by unit: who waits until it has read a commit
        self._marks: dict[str, str] = {}  # units by their mark, those on their way out among them
        self._unsettled: dict[str, Callable[[], Unsettled]] = {}
        self._ending: set[str] = set()  # units that left the configuration and are not forgotten
        self._brought: dict[str, Mapping[str, str]] = {}  # by unit: Units of its git, their sources
        self._retired: dict[str, Mapping[str, bool]] = {}  # by unit: Units that its git gave up
        self._asks: dict[str, Wake] = {}  # by unit of another shard: have its newest commit read

    def join(self, unit: str, source: str, wake: Wake) -> None:
        """Add `unit`, which reads from `source`; it may have been added before.

        `wake` is called when other units begin or stop to want objects that `unit` asked about, and
        when a unit that it waited for has read a commit.
        """
        if unit in self._sources:
            self._uncount(unit)
            del self._read[self._sources[unit]][unit]
        self._asked.join(unit, wake)
        self._sources[unit] = source
        self._read.setdefault(source, {})[unit] = ""
        self._counts.setdefault(source, Counter())[""] += 1
        self._ending.discard(unit)
        self._let_go(unit)

    def bring(self, unit: str, units: Mapping[str, str]) -> None:
        """Set the Units among the objects that the git of `unit` contains, each with its source."""
        before = self._brought.get(unit, {})
        self._brought[unit] = units
        for name in before.keys() - units.keys():
            self._let_go(name)

    def retire(self, unit: str, units: Mapping[str, bool]) -> None:
        """Set the Units that the git of `unit` no longer contains; true for those that it deletes
        when it may.

        Until they end, these keep their objects, and no other unit is in conflict with them.
        """
        before = self._retired.get(unit, {})
        if units == before:
            return
        self._retired[unit] = units
        for name in before.keys() | units.keys():
            self._let_go(name)

    def unborn(self, source: str, by: str = "") -> str:
        """Return a unit of `source`, of any with "", that is in git and does not run yet; "" if
        all do. One that ends may be in git: it begins again afterwards.

        The unit `by` is woken when that one begins, or is in git no more.
        """
        brought = (one for units in self._brought.values() for one in units.items())
        known = self._sources.keys() | self._ending
        name = next((n for n, its in brought if source in {"", its} and n not in known), "")
        if name:
            self._waiting.setdefault(name, set()).add(by)
        return name

    def own(self, unit: str, mark: str, unsettled: Callable[[], Unsettled]) -> None:
        """Objects with `mark` belong to `unit`, which answers for itself."""
        self._marks[mark], self._unsettled[unit] = unit, unsettled

    def ask(self, unit: str, read: Wake) -> None:
        """Call `read` when another unit must know what `unit`, of another shard, wants."""
        self._asks[unit] = read

    def commit_of(self, unit: str) -> str:
        """Return the commit that `unit` has read; "" before the first."""
        return self._read.get(self._sources.get(unit, ""), {}).get(unit, "")

    def stop(self, unit: str) -> None:
        """`unit` exists and does not run: it keeps its objects."""
        why = Unsettled("which does not run", f"see why unit {unit} does not run")
        self._unsettled[unit] = lambda: why

    def end(self, unit: str, mark: str) -> None:
        """`unit` left the configuration: it releases what others want, until it is forgotten."""
        self.own(unit, mark, lambda: _SETTLED)
        self._ending.add(unit)
        self._let_go(unit)

    def forget(self, unit: str) -> None:
        """Remove a unit that has ended, unless there is one of that name again."""
        self._ending.discard(unit)
        if unit in self._sources:
            return
        self.leave(unit)
        self._unsettled.pop(unit, None)
        self._marks = {mark: name for mark, name in self._marks.items() if name != unit}

    def owners(
        self, unit: str, mark: str, live: Mapping[ObjectKey, Live]
    ) -> dict[ObjectKey, Owner]:
        """Return the known owners of those of `live` that have another mark than `mark`.

        `unit` is woken when one of them becomes settled.
        """
        found: dict[ObjectKey, Owner] = {}
        for key, one in live.items():
            other = mark_of(one.obj)
            if other in {"", mark}:
                continue
            name = self._marks.get(other, "")
            if not name and annotation(one.obj, UNIT_REF) == unit:
                found[key] = Owner(unit=unit)  # of the same unit, under another cluster name
            if not name:
                continue
            doubt = self._doubt_of(name)
            if doubt.releases(key):
                found[key] = Owner(unit=name)
                continue
            why, wants = doubt.why, name in self._wanted.of(key)
            found[key] = Owner(
                unit=name, wants=wants, unsettled=why, next=doubt.ends, reads=doubt.reads
            )
            if why:
                self._waiting.setdefault(name, set()).add(unit)
        return found

    def released(self, unit: str, keys: Iterable[ObjectKey]) -> frozenset[ObjectKey]:
        """Return those of `keys` that `unit` releases before it takes its newest commit."""
        return frozenset(filter(self._doubt_of(unit).releases, keys))

    def release(self, unit: str) -> None:
        """Wake the units that wait for `unit`: it releases what its newest commit lacks."""
        self._let_go(unit)

    def settled(self, unit: str) -> None:
        """Wake the units that wait for `unit` if its git has said all."""
        if unit in self._waiting and self._is_settled(unit):
            self._let_go(unit)

    def set(self, unit: str, keys: Iterable[ObjectKey]) -> None:
        """Set the objects that `unit` wants from now on."""
        changed = self._wanted.set(unit, frozenset(keys))
        for wake in self._asked.calls(changed, but=unit):
            wake()

    def others(
        self,
        unit: str,
        keys: frozenset[ObjectKey],
        *,
        own: Collection[ObjectKey] = (),
        unmarked: Collection[ObjectKey] = (),
    ) -> frozenset[ObjectKey]:
        """Return those of `keys` that another unit wants; `unit` is woken when that changes.

        A claim of a unit whose git may say something else later states no handover: it keeps no
        unit from its `own` objects, and from `unmarked` ones only a unit that is no surer. Those
        that its git no longer contains are not among its `own`: a claim keeps it from deleting
        them.
        """
        self._asked.watch(unit, keys)
        shared = [key for key in keys if any(self._rivals(key, unit))]
        sure = not shared or self._is_settled(unit)

        def counts(key: ObjectKey) -> bool:
            if key in own:
                return sure and self._has_sure_rival(key, unit)
            return key not in unmarked or not sure or self._has_sure_rival(key, unit)

        return frozenset(filter(counts, shared))

    def _has_sure_rival(self, key: ObjectKey, unit: str) -> bool:
        """Return whether another unit wants an object whose git has said all."""
        return any(self._is_settled(rival) for rival in self._rivals(key, unit))

    def _rivals(self, key: ObjectKey, unit: str) -> Iterator[str]:
        """Yield the other units that want an object and do not release it."""
        others = (str(other) for other in self._wanted.of(key) if other != unit)
        return (other for other in others if not self._doubt_of(other).releases(key))

    def _is_settled(self, unit: str) -> bool:
        """Return whether a unit's git has said all."""
        return not self._doubt_of(unit).why

    def _doubt_of(self, unit: str) -> Unsettled:
        doubt = self._unsettled.get(unit, lambda: _SETTLED)()
        if doubt.why or unit in self._ending or unit not in self._sources:
            return doubt
        by = next((one for one, units in self._retired.items() if unit in units), "")
        if not by:
            return doubt
        why, ends = "which git no longer contains", f"see why unit {by} keeps Unit {unit}"
        return Unsettled(why, ends, reads=self._retired[by][unit])

    def read(self, unit: str, commit: str) -> None:
        """Record that all objects that `unit` wants by `commit` are set."""
        source = self._sources[unit]
        self._uncount(unit)
        self._counts[source][commit] += 1
        self._read[source][unit] = commit
        self._let_go(unit)

    def leave(self, unit: str) -> None:
        """Remove `unit`: it wants no objects, and no unit waits for it."""
        self.set(unit, ())
        self.bring(unit, {})
        del self._brought[unit]
        self.retire(unit, {})
        self._retired.pop(unit, None)
        self._asks.pop(unit, None)
        self._asked.leave(unit)
        if unit in self._sources:
            self._uncount(unit)
            del self._read[self._sources[unit]][unit], self._sources[unit]
        self._let_go(unit)

    def _uncount(self, unit: str) -> None:
        source = self._sources[unit]
        counts, before = self._counts[source], self._read[source][unit]
        counts[before] -= 1
        if not counts[before]:
            del counts[before]

    def _let_go(self, unit: str) -> None:
        for waiting in self._waiting.pop(unit, ()):
            if wake := self._asked.of(waiting):
                wake()

    def reads(self, unit: str) -> bool:
        """Return whether `unit` is about to judge another commit."""
        return self._doubt_of(unit).reads

    def behind(self, unit: str, commit: str) -> str:
        """Return a unit of the same source that has not read `commit` as its newest; "" if all
        have.

        `unit` is woken when that one has read another commit.
        """
        source = self._sources[unit]
        counts, units = self._counts[source], self._read[source]
        if counts[commit] + (units[unit] != commit) == len(units):
            return ""
        late = next(name for name, at in units.items() if at != commit and name != unit)
        self._waiting.setdefault(late, set()).add(unit)
        if (ask := self._asks.get(late)) is not None:
            ask()
        return late
