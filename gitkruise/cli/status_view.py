"""What `status` shows: live objects and the status branch put together, as text and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.ages import ago
from gitkruise.cli.output import list_of
from gitkruise.cli.promotion_words import progress
from gitkruise.cli.style import Style, clip, shorten
from gitkruise.cli.tables import Column, fit_table
from gitkruise.cli.views import rollout_obj
from gitkruise.gitops.survey import WORKLOADS, Managed
from gitkruise.model.states import LOOKS, SETTLED, State
from gitkruise.wire.names import named

if TYPE_CHECKING:
    from gitkruise.gitops.recorded import UnitNews
    from gitkruise.model.document import Commit
    from gitkruise.model.promotion import PromotionRecord

NEEDS_YOU: Final = (State.REJECTED, State.STUCK, State.DRIFTED, State.UNKNOWN)
_TOLD_BY_GIT: Final = frozenset({State.DRIFTED, State.REJECTED})
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
class Standing:
    """Where a cluster stands against git. `units` are as the status branch tells."""

    objects: tuple[Managed, ...]
    units: tuple[UnitNews, ...]
    now: datetime
    cluster: str
    source: str  # the repository's name

    def only(self, states: AbstractSet[State]) -> Standing:
        """The objects in one of `states`; all for none."""
        if not states:
            return self
        return replace(self, objects=tuple(m for m in self.objects if m.state in states))

    def in_state(self, states: AbstractSet[State]) -> bool:
        """Whether any object or unit is in one of `states`."""
        found = {m.state for m in self.objects} | {u.state for u in self.units}
        return bool(found & states)


def stand(
    live: Sequence[Managed],
    units: Sequence[UnitNews],
    now: datetime,
    *,
    cluster: str,
    source: str,
    namespace: str,
) -> Standing:
    """Live objects, in the state git's record gives them where only that can know it."""
    told = {key: news for unit in units for key, news in unit.objects.items()}
    objects = []
    for m in live:
        news = told.get(m.key)
        if news is not None and news.state in _TOLD_BY_GIT:
            m = replace(m, state=news.state, message=news.message)  # noqa: PLW2901
        objects.append(m)
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
    return Standing(
        objects=tuple(objects), units=tuple(units), now=now, cluster=cluster, source=source
    )


def status_lines(standing: Standing, style: Style, *, wide: bool) -> Iterator[str]:
    """Header, table, totals, and the next command to type."""
    yield from (clip(line, style.width) for line in _header(standing, style))
    yield ""
    if not standing.objects:
        yield f"nothing in cluster {standing.cluster} is managed by gitkruise yet"
        return
    width = 10_000 if wide else style.width
    promoted = {u.promotion.key: u.promotion for u in standing.units if u.promotion is not None}
    rows = [_row(m, style, promoted.get(m.key), standing.now) for m in standing.objects]
    yield from fit_table(_HEADS, rows, width)
    counts = Counter(m.state for m in standing.objects)
    worst_first = [*NEEDS_YOU, *(s for s in reversed(LOOKS) if s not in NEEDS_YOU)]
    totals = " · ".join(f"{counts[s]} {s.lower()}" for s in worst_first if counts[s])
    number = len(standing.objects)
    yield ""
    yield f"{number} object{'' if number == 1 else 's'}: {totals}"
    next_ = _next(standing)
    if next_:
        yield f"Next: {next_}"


def _header(standing: Standing, style: Style) -> Iterator[str]:
    """The newest commit applied from each source, then what is wrong with units."""
    cluster = f"cluster {standing.cluster}"
    newest: dict[str, Commit] = {}
    for unit in standing.units:
        commit, known = unit.applied, newest.get(unit.source)
        if commit is not None and (known is None or _when(commit) > _when(known)):
            newest[unit.source] = commit
    for source, commit in newest.items():
        who = f"{commit.author} · {ago(commit.time, standing.now)}"
        where = style.paint(f"{standing.source}@{source}", "bold")
        room = style.width - len(f"{standing.source}@{source}{commit.short}{who}") - 8
        yield f'{where}  {commit.short} "{shorten(commit.subject, max(room, 16))}"  {who}'
    yield cluster
    for unit in standing.units:
        if unit.state in {State.REJECTED, State.UNKNOWN} or unit.problems:
            at = f' at {unit.attempted.short} "{unit.attempted.subject}"' if unit.attempted else ""
            yield f"{style.state(unit.state)}  unit {unit.unit}{at}"
            yield from (f"  {problem}" for problem in unit.problems[:3] or (unit.message,))


def _when(commit: Commit) -> float:
    return commit.time.timestamp() if commit.time else 0.0


def _row(
    m: Managed, style: Style, promotion: PromotionRecord | None, now: datetime
) -> tuple[str, ...]:
    r = m.rollout
    bar = new = ready = ""
    if r is not None:
        partition = f" p={r.partition}" if r.kept else ""
        bar = style.bar(r.updated_ready, max(r.replicas, 1)) + partition
        new, ready = f"{r.updated}/{r.replicas}", f"{r.ready}/{r.replicas}"
    name = f"{m.key.kind.lower()}/{m.key.name}"
    why = _why(m, promotion, now)
    return (m.key.namespace, name, bar, new, ready, m.commit[:7], style.state(m.state), why)


def _why(m: Managed, promotion: PromotionRecord | None, now: datetime) -> str:
    if m.state is State.DONE:
        return ""
    if m.state is State.HELD and promotion is not None and promotion.next:
        return progress(promotion, now)
    return "next move is a commit" if m.state is State.HELD and m.rollout else m.message


def _next(standing: Standing) -> str:
    rejected = next((u for u in standing.units if u.state is State.REJECTED), None)
    if rejected is not None and rejected.attempted is not None:
        return f"gitkruise plan {rejected.attempted.short}"
    needy = next((m for s in NEEDS_YOU for m in standing.objects if m.state is s), None)
    if needy is None:
        return ""
    if needy.state is State.DRIFTED:
        return "gitkruise drift"
    return f"gitkruise why {named(needy.key)}"


def status_obj(standing: Standing) -> dict[str, Any]:
    """Objects as the items of a list; units, cluster and totals beside them."""
    items = [
        {
            "object": {
                "group": m.key.group,
                "kind": m.key.kind,
                "namespace": m.key.namespace,
                "name": m.key.name,
            },
            "state": str(m.state),
            "message": m.message,
            "unit": m.unit,
            "commit": m.commit,
            "path": m.path,
            **({"rollout": rollout_obj(m.rollout)} if m.rollout else {}),
        }
        for m in standing.objects
    ]
    from gitkruise.gitops.record_files import promotion_obj  # noqa: PLC0415  imports libyaml

    units = [
        {
            "unit": u.unit,
            "source": u.source,
            "state": str(u.state),
            "message": u.message,
            "attempted": u.attempted.id if u.attempted else "",
            "applied": u.applied.id if u.applied else "",
            "problems": list(u.problems),
            **({"promotion": promotion_obj(u.promotion)} if u.promotion else {}),
        }
        for u in standing.units
    ]
    return {**list_of("StatusList", items), "cluster": standing.cluster, "units": units}
