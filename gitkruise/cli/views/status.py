"""Live objects joined with the status branch, as text and as JSON, for `status`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.console.ages import ago
from gitkruise.cli.console.output import list_of
from gitkruise.cli.console.style import Style, clip, shorten, wrapped
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.cli.views.promotion import progress
from gitkruise.cli.views.resources import rollout_obj, shard_obj
from gitkruise.gitops.inspect.cluster_view import WORKLOADS, Managed, as_recorded, dated
from gitkruise.gitops.inspect.explain import left_git, past_hold
from gitkruise.gitops.inspect.shard_holders import WITHOUT_SHARDS, ShardHolders
from gitkruise.gitops.inspect.unit_objects import UNRECORDED, record_it, unrecorded_in
from gitkruise.gitops.status.codecs import CHART, PROMOTION
from gitkruise.model.gitops.unit_state import LOOKS, READY, SETTLED, State
from gitkruise.printable import listing, many, visible
from gitkruise.wire.primitives.names import named, short_name

if TYPE_CHECKING:
    from gitkruise.gitops.status.reader import RecordedUnit
    from gitkruise.model.gitops.document import GitCommit
    from gitkruise.model.gitops.promotion import PromotionRecord

NEEDS_YOU: Final = (State.REJECTED, State.STUCK, State.DRIFTED, State.UNKNOWN)
WORST_FIRST: Final = (*NEEDS_YOU, *(s for s in reversed(LOOKS) if s not in NEEDS_YOU))
_NAMED: Final = 8  # units in one line
_PROBLEMS: Final = 3  # of one unit
_LAST: Final = "last change"  # the tip of the branch may be a commit that changed no unit
_LOST: Final = "gitkruise doctor cluster"  # what shows why no replica reconciles
_HEADS: Final = (
    Column(name="NAMESPACE", least=9),
    Column(name="OBJECT", least=18),
    Column(name="ROLLOUT", drop=3),
    Column(name="NEW"),
    Column(name="READY"),
    Column(name="COMMIT", drop=2),
    Column(name="STATE"),
    Column(name="", least=14, prose=True, drop=1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusView:
    """State of a cluster compared with git. `units` are those of the status branch."""

    objects: tuple[Managed, ...]
    units: tuple[RecordedUnit, ...]
    now: datetime
    cluster: str
    source: str  # the repository's name
    changes: Mapping[str, GitCommit]  # the newest commit of each source that changed a unit
    shards: ShardHolders = WITHOUT_SHARDS
    namespace: str = ""  # whose objects these are; "" for all
    left_out: int = 0  # objects in other states than those asked for
    unrecorded: tuple[str, ...] = ()  # units of objects, of which nothing is recorded
    elsewhere: tuple[str, ...] = ()  # other clusters of which the repository has their record
    units_unread: str = ""  # why Units of the cluster are not known
    kinds_unread: tuple[str, ...] = ()  # resources that the account may not list

    def only(self, states: AbstractSet[State]) -> StatusView:
        """Return the view with the objects in `states`; with all if `states` is empty."""
        if not states:
            return self
        shown = tuple(m for m in self.objects if m.state in states)
        return replace(self, objects=shown, left_out=len(self.objects) - len(shown))

    def ordered_by(self, leads: Callable[[str, str], bool]) -> StatusView:
        """Return the view with the last changes that follow from `leads`, which says whether its
        second commit is known to build on its first."""
        return replace(self, changes=_last_changes(self.units, leads))

    def in_state(self, states: AbstractSet[State]) -> bool:
        """Return whether any object or unit is in one of `states`."""
        found = {m.state for m in self.objects} | {u.state for u in self.units}
        return bool(found & states)


def build_view(
    live: Sequence[Managed],
    units: Sequence[RecordedUnit],
    now: datetime,
    *,
    cluster: str,
    source: str,
    namespace: str,
    shards: ShardHolders = WITHOUT_SHARDS,
    units_unread: str = "",
) -> StatusView:
    """Join live objects with the record, whose state wins where only git can know it.

    The state of a unit that no replica reconciles is not known, whatever was recorded last.
    """
    units = [
        replace(u, state=State.UNKNOWN, message=lost) if (lost := shards.problem_of(u.unit)) else u
        for u in units
    ]
    of_units: dict[str, list[Managed]] = {}
    for m in live:
        of_units.setdefault(m.unit, []).append(m)
    units = [dated(unit, of_units.get(unit.unit, ())) for unit in units]
    recorded = {key: unit for unit in units for key in unit.objects}
    owners = {unit.unit: unit for unit in units}
    objects = []
    for m in live:
        own = owners.get(m.unit)
        named_by = own if own and m.key in own.objects else recorded.get(m.key)
        left = left_git(m, named_by or own)
        objects.append(replace(as_recorded(m, named_by), left_git=left))
    seen = {m.key for m in live}
    for unit in units:
        for key, news in unit.objects.items():
            absent = key not in seen and news.state not in SETTLED
            if absent and key.group_kind in WORKLOADS and namespace in {"", key.namespace}:
                objects.append(
                    Managed(key=key, obj={}, state=news.state, message=news.message,
                            unit=unit.unit, commit=news.commit, path="")
                )  # fmt: skip
    objects.sort(key=lambda m: (m.key.namespace, m.key.kind, m.key.name))
    return StatusView(
        objects=tuple(objects), units=tuple(units), now=now, cluster=cluster, source=source,
        namespace=namespace, shards=shards, units_unread=units_unread,
        unrecorded=unrecorded_in((m.unit for m in live), units),
        changes=_last_changes(units, lambda _old, _new: False),
    )  # fmt: skip


def _last_changes(
    units: Iterable[RecordedUnit], leads: Callable[[str, str], bool]
) -> Mapping[str, GitCommit]:
    """Return the newest commit of each source that changed a unit.

    Git knows the order of commits that build on each other; their dates are what authors write.
    """
    found: dict[str, dict[str, GitCommit]] = {}
    for unit in units:
        if (commit := unit.attempted or unit.applied) is not None:
            found.setdefault(unit.source, {})[commit.id] = commit
    newest = {}
    for source, commits in found.items():
        best, *others = sorted(commits.values(), key=_when, reverse=True)
        for commit in others:
            best = commit if leads(best.id, commit.id) else best
        newest[source] = best
    return newest


def status_lines(view: StatusView, style: Style, *, wide: bool) -> Iterator[str]:
    """Yield header, table, totals and the next command to type."""
    for line in _header(view, style):
        yield from _fitted(line, style.width)
    yield ""
    if not view.objects:
        yield _nothing(view)
        return
    width = 10_000 if wide else style.width
    promoted = {u.promotion.key: u.promotion for u in view.units if u.promotion is not None}
    rows = [_row(m, style, promoted.get(m.key), view.now) for m in view.objects]
    head, *lines = fit_table(_HEADS, rows, width)
    yield head
    for m, row, line in zip(view.objects, rows, lines, strict=True):
        yield line
        yield from _reason(m, row[-1], line, style)
    counts = Counter(m.state for m in view.objects)
    totals = " · ".join(f"{counts[s]} {s.lower()}" for s in WORST_FIRST if counts[s])
    yield ""
    yield f"{many(len(view.objects), 'object')}: {totals}"
    next_ = _next(view)
    if next_:
        yield f"Next: {next_}"


def _fitted(line: str, width: int) -> list[str]:
    """Return a line of the header in `width` cells: reasons go on below, and a command stays whole,
    so that it can be copied."""
    if line.startswith("  next: "):
        return [line]
    return wrapped(line, width, indent=2) if line.startswith(" ") else [clip(line, width)]


def _nothing(view: StatusView) -> str:
    """Return why no object is listed."""
    where = f"namespace {view.namespace} of " * bool(view.namespace) + f"cluster {view.cluster}"
    if view.left_out:
        return f"no object in {where} is in such a state, {view.left_out} in others"
    if view.kinds_unread:
        return f"gitkruise manages no workload in {where} of the kinds that this account may list"
    return f"gitkruise manages no workload in {where}"


def _reason(m: Managed, why: str, line: str, style: Style) -> Iterator[str]:
    """Yield the reason of an object that needs a user, if its line has no room for all of it."""

    why = visible(why)
    if m.state in NEEDS_YOU and why not in line:
        yield from wrapped(f"  {why}", style.width, indent=0)


def _header(view: StatusView, style: Style) -> Iterator[str]:
    """Yield the newest commit of each source that changed a unit, then the problems of units."""
    cluster = f"cluster {view.cluster}"
    for source, commit in view.changes.items():
        if not view.source and not commit.artifact:
            continue  # known by the status of a Unit alone
        who = f"{commit.author} · {ago(commit.time, view.now)}" if commit.author else ""
        where = f"{commit.artifact.partition('@')[0] or view.source}@{source}"
        room = style.width - len(f"{where}{_LAST}{commit.short}{who}") - 9
        label = _named(replace(commit, subject=shorten(commit.subject, max(room, 16))))
        yield f"{style.paint(where, 'bold')}  {_LAST} {label}  {who}".rstrip()
    yield cluster
    yield from _shards(view, style)
    shown = {(m.unit, m.state) for m in view.objects if m.state not in READY}
    for unit in view.units:
        if view.shards.problem_of(unit.unit):
            continue  # named with its shard, or the lease
        if unit.shown_problems or unit.waits or unit.suspended or _not_in_table(unit, shown):
            yield from _unit(unit, view, style)
    yield from _unrecorded(view, style)
    for unit in view.units:
        if unit.chart is not None:
            yield f"unit {unit.unit}  {unit.chart}  sha256:{unit.chart.digest[:12]}"
        yield from (f"unit {unit.unit}  {base}" for base in unit.bases)


def _unit(unit: RecordedUnit, view: StatusView, style: Style) -> Iterator[str]:
    """Yield the state of a unit, and the reasons."""
    at = f" at {_named(unit.attempted)}" if unit.attempted else ""
    held = view.shards.of(unit.unit)
    by = f"  shard {held.shard}, {held.replica}" if held is not None else ""
    yield f"{style.state(unit.state)}  unit {unit.unit}{at}{by}"
    waits = (f"waits for {unit.waits}",) if unit.waits else ()
    named = waits or unit.by_finding or unit.state in SETTLED
    reason = () if named else (unit.message,)  # an object's, which no finding is about
    texts = (*waits, *reason, *unit.shown_problems[:_PROBLEMS]) or (unit.message,)
    yield from (f"  {text}" for text in texts)
    if (more := len(unit.shown_problems) - _PROBLEMS) > 0:
        yield f"  and {many(more, 'more finding')}"


def _not_in_table(unit: RecordedUnit, shown: AbstractSet[tuple[str, State]]) -> bool:
    """Return whether no row shows the state of a unit: it is about a commit, about an object that
    is no workload, or about its health.timeout. Rows are `shown` that are neither Done nor Held:
    the unit and the state of each."""
    if unit.state in {State.REJECTED, State.UNKNOWN}:
        return True
    if unit.state is State.STUCK:
        return (unit.unit, State.STUCK) not in shown
    if unit.state in READY:
        return False
    settled = SETTLED - {unit.state}  # a paused row says nothing of what still moves
    return all(name != unit.unit or state in settled for name, state in shown)


def _unrecorded(view: StatusView, style: Style) -> Iterator[str]:
    """Yield the units whose newest commit is not known, and why."""
    if view.units_unread:
        yield f"units of the cluster: not known: {view.units_unread}"
    if view.unrecorded:
        word = "unit" if len(view.unrecorded) == 1 else "units"
        yield f"{style.state(State.UNKNOWN)}  {word} {listing(view.unrecorded, _NAMED)}"
        yield f"  {UNRECORDED}"
        yield f"  next: {record_it(view.elsewhere)}"


def _shards(view: StatusView, style: Style) -> Iterator[str]:
    """Yield the replica that has each shard, and the units that no replica reconciles."""
    if view.shards.unread:
        yield f"shards: not known: {view.shards.unread}"
    for held in view.shards.holders:
        if not held.problem:
            yield f"shard {held.shard}: {held.replica}"
            continue
        yield f"{style.state(State.UNKNOWN)}  shard {held.shard}: {held.problem}"
        yield _count([u.unit for u in view.units if view.shards.of(u.unit) is held])
    if view.shards.lost:
        yield f"{style.state(State.UNKNOWN)}  {view.shards.lost}"
        yield _count([u.unit for u in view.units])
        if not view.objects:  # otherwise it ends the table, which may be long
            yield f"  next: {_LOST}"


def _count(lost: Sequence[str]) -> str:
    """Return how many units are not reconciled, and the first of them."""
    names = ", ".join(lost[:_NAMED]) + (", …" if len(lost) > _NAMED else "")
    return f"  {many(len(lost), 'unit')}" + (f": {names}" if lost else "")


def _named(commit: GitCommit) -> str:
    """Return a commit with its subject, which the status of a Unit does not have."""
    return f'{commit.short} "{commit.subject}"' if commit.subject else commit.short


def _when(commit: GitCommit) -> float:
    return commit.time.timestamp() if commit.time else 0.0


def _row(
    m: Managed, style: Style, promotion: PromotionRecord | None, now: datetime
) -> tuple[str, ...]:
    r = m.rollout
    bar = new = ready = ""
    if r is not None:
        gate = (f" c={r.canary}" if r.canary else f" p={r.partition}") if r.kept else ""
        bar = style.bar(r.updated_ready, max(r.replicas, 1)) + gate
        new, ready = f"{r.updated}/{r.replicas}", f"{r.ready}/{r.replicas}"
    name = short_name(m.key)
    why = _why(m, promotion, now)
    return (m.key.namespace, name, bar, new, ready, m.commit[:7], style.state(m.state), why)


def _why(m: Managed, promotion: PromotionRecord | None, now: datetime) -> str:
    if m.left_git and m.state in READY:
        return "left git"
    if m.state is State.DONE:
        return ""
    if m.state is State.HELD and promotion is not None and promotion.next:
        return progress(promotion, now)
    if m.state is not State.HELD or m.rollout is None:
        return m.message
    return f"next move is {past_hold(m, m.rollout)}"


def _next(view: StatusView) -> str:
    if view.shards.lost:
        return _LOST
    rejected = next((u for u in view.units if u.state is State.REJECTED), None)
    if rejected is not None and not view.source:
        namespace, _, name = rejected.unit.partition("/")
        return f"kubectl describe unit {name} -n {namespace}"
    if rejected is not None and rejected.correction:
        return rejected.correction
    guilty_first = sorted(view.objects, key=lambda m: m.rollout is not None and m.rollout.innocent)
    needy = next((m for s in NEEDS_YOU for m in guilty_first if m.state is s), None)
    if needy is None:
        return ""
    if needy.state is State.DRIFTED:
        return "gitkruise drift"
    return f"gitkruise why {named(needy.key)}"


def status_obj(view: StatusView) -> dict[str, Any]:
    """Return the objects as the items of a list, next to units and cluster."""
    items = [
        {
            "object": m.key._asdict(),
            "state": str(m.state),
            "message": m.message,
            "unit": m.unit,
            "commit": m.commit,
            "path": m.path,
            **({"artifact": m.artifact} if m.artifact else {}),
            **({"leftGit": True} if m.left_git else {}),
            **({"rollout": rollout_obj(m.rollout)} if m.rollout else {}),
        }
        for m in view.objects
    ]
    units = [{**unit_obj(u), **shard_obj(view.shards, u.unit)} for u in view.units]
    shards = [
        {"shard": str(held.shard), "replica": held.replica, "problem": held.problem}
        for held in view.shards.holders
    ]
    return {
        **list_of("StatusList", items), "cluster": view.cluster, "units": units,
        **({"shards": shards} if shards else {}),
        **({"shardsUnknown": view.shards.unread} if view.shards.unread else {}),
        **({"unrecorded": list(view.unrecorded)} if view.unrecorded else {}),
        **({"unitsUnknown": view.units_unread} if view.units_unread else {}),
        **({"kindsUnknown": list(view.kinds_unread)} if view.kinds_unread else {}),
    }  # fmt: skip


def unit_obj(u: RecordedUnit) -> dict[str, Any]:
    """Return a recorded unit, for JSON."""
    return {
        "unit": u.unit,
        "source": u.source,
        "state": str(u.state),
        "message": u.message,
        "waits": u.waits,
        "suspended": u.suspended,
        "attempted": u.attempted.id if u.attempted else "",
        "applied": u.applied.id if u.applied else "",
        "problems": list(u.shown_problems),
        **({"chart": CHART.obj(u.chart)} if u.chart else {}),
        **({"bases": [asdict(base) for base in u.bases]} if u.bases else {}),
        **({"promotion": PROMOTION.obj(u.promotion)} if u.promotion else {}),
    }
