"""A plan as text: what changes where, which pods move and how, and what holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.cli.plan_fields import CLONESET, Row, field_rows
from gitkruise.cli.style import Style, clip, shorten
from gitkruise.cli.tables import Column, fit_table
from gitkruise.model.change import Change, ChangeKind
from gitkruise.model.forecast import CREATE, DELETE, RECREATE, STUCK
from gitkruise.model.trace import IN_PLACE
from gitkruise.planner.sync.summary import shown
from gitkruise.wire.paths import get
from gitkruise.wire.times import format_duration

if TYPE_CHECKING:
    from gitkruise.gitops.prospect import Preview
    from gitkruise.model.change import Desired
    from gitkruise.model.document import Commit
    from gitkruise.model.forecast import PredictedStep, Prediction

_SIGNS: Final = {
    ChangeKind.CREATE: ("+", "green"),
    ChangeKind.CONFIGURE: ("~", "yellow"),
    ChangeKind.PRUNE: ("-", "red"),
}
_NAMES_SHOWN: Final = 6
_STEPS_SHOWN: Final = 12
_FIELDS_SHOWN: Final = 20
_PAD: Final = " " * 11  # under the words after Effect, Waves and Note
_FIELD_HEADS: Final = (
    Column(name="", least=16),
    Column(name="", least=16),
    Column(name=""),
    Column(name="", prose=True, least=10, drop=1),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """What is compared: the commits, how `target` is called, and where live pods came from."""

    base: Commit | None
    target: Commit
    cluster: str  # "" offline
    dirty: bool = False


def plan_lines(
    preview: Preview, heading: Heading, style: Style, desired: Sequence[Desired]
) -> Iterator[str]:
    """The whole plan, object by object, then the totals; no line longer than the window."""
    for line in _lines(preview, heading, style, desired):
        yield clip(line, style.width)


def _lines(
    preview: Preview, heading: Heading, style: Style, desired: Sequence[Desired]
) -> Iterator[str]:
    yield from _title(heading, style)
    yield ""
    documents = {d.key: d for d in desired}
    forecasts = {p.key: p for p in (preview.forecast.predictions if preview.forecast else ())}
    changed = [c for c in preview.changes if c.kind is not ChangeKind.UNCHANGED]
    for change in changed:
        yield from _object(change, documents.get(change.key), heading, style)
        prediction = forecasts.get(change.key)
        d = documents.get(change.key)
        if prediction is not None:
            yield from _rollout(change, prediction, d, style, live=preview.live)
        elif preview.live and d is not None and change.key.group_kind == CLONESET:
            yield "  Effect   none: the cluster has this already"
        yield ""
    if not changed:
        yield "no effect on the cluster: nothing but comments and formatting, if anything, changed"
        yield ""
    yield _summary(preview, changed)


def _title(heading: Heading, style: Style) -> Iterator[str]:
    new = "working tree" if heading.dirty else heading.target.short
    came = f"{heading.base.short} → {new}" if heading.base else f"(nothing) → {new}"
    subject = "" if heading.dirty else f'  "{shown(heading.target.subject)}"'
    yield f"{style.paint('Plan', 'bold')}     {came}{subject}"
    live = f"live objects of cluster {heading.cluster}"
    yield f"{_PAD[:-2]}{live if heading.cluster else 'offline: pods are counted, not named'}"


def _object(change: Change, d: Desired | None, heading: Heading, style: Style) -> Iterator[str]:
    sign, colour = _SIGNS[change.kind]
    why = change.source
    if change.kind is ChangeKind.PRUNE:
        why = f"deleted in {heading.target.short}   prune"
    elif change.drift:
        why = f"{change.source}   live differs from git and is corrected"
    head = f"{sign} {change.key}"
    yield f"{style.paint(head, colour, 'bold')}    {style.paint(why, 'dim')}"
    rows = field_rows(change, d) if change.kind is ChangeKind.CONFIGURE else []
    cells = [_cells(row, style) for row in rows[:_FIELDS_SHOWN]]
    if cells:
        yield from (
            f"    {line}" for line in fit_table(_FIELD_HEADS, cells, max(style.width - 4, 36))[1:]
        )
    if len(rows) > _FIELDS_SHOWN:
        yield f"    … and {len(rows) - _FIELDS_SHOWN} more fields"


def _cells(row: Row, style: Style) -> tuple[str, ...]:
    where = f":{row.line}" if row.line else ""
    return row.path, row.values, where, style.paint(row.remark, *(["red"] if row.loud else ["dim"]))


def _rollout(
    change: Change, p: Prediction, d: Desired | None, style: Style, *, live: bool
) -> Iterator[str]:
    yield from _effect(change, p, d, style)
    yield from _waves(p, style, live=live)
    label = "  Note     "
    for note in _notes(change, p, live=live):
        yield label + note
        label = _PAD


def _effect(change: Change, p: Prediction, d: Desired | None, style: Style) -> Iterator[str]:
    moves = Counter(move.how for step in p.steps for move in step.moves)
    if change.kind is ChangeKind.CREATE:
        yield f"  Effect   {_pods(p.replicas)} created on {p.revision}"
    elif moves[RECREATE]:
        words = f"{moves[RECREATE]} of {p.replicas} pods RECREATED"
        yield f"  Effect   {style.paint(words, 'bold', 'red')} (new IP, maybe a new node)"
        culprit = next((row for row in field_rows(change, d) if row.loud), None)
        if culprit:
            at = f" at :{culprit.line}" if culprit.line else ""
            yield f"{_PAD}because {shorten(culprit.path, 40)} changed{at}"
    elif moves[IN_PLACE]:
        words = f"{moves[IN_PLACE]} of {p.replicas} pods updated IN PLACE"
        yield f"  Effect   {style.paint(words, 'bold')} (IP, node and volumes stay)"
    else:
        yield f"  Effect   no pod is updated{_scaled(moves, '; ')}"
        return
    if change.kind is not ChangeKind.CREATE and (scaled := _scaled(moves, "")):
        yield f"{_PAD}{scaled}"
    old = p.replicas - p.updated_after
    if p.partition and old > 0 and p.previous not in {"", p.revision}:
        yield f"{_PAD}{old} stay on {p.previous}   ({_arithmetic(change, p)})"


def _scaled(moves: Counter[str], lead: str) -> str:
    parts = [f"{_pods(moves[how])} {how}d" for how in (CREATE, DELETE) if moves[how]]
    return lead + ", ".join(parts) if parts else ""


def _pods(number: int) -> str:
    return f"{number} pod{'' if number == 1 else 's'}"


def _arithmetic(change: Change, p: Prediction) -> str:
    """`partition 60% keeps ⌈10 × 60 %⌉ = 6`."""
    written = _partition(change)
    if isinstance(written, str) and written.endswith("%"):
        return f"partition {written} keeps ⌈{p.replicas} × {written[:-1]} %⌉ = {p.partition}"
    return f"partition keeps {p.partition}"


def _partition(change: Change, *, before: bool = False) -> object:
    """As written, in either API version; 0 where nothing is."""
    obj = (change.before if before else change.after) or {}
    strategy = get(obj, "spec", "updateStrategy", default={})
    return strategy.get("partition", get(strategy, "rollingUpdate", "partition", default=0))


def _waves(p: Prediction, style: Style, *, live: bool) -> Iterator[str]:
    """One line a step; the budget first, the hold last."""
    if not p.steps or (p.previous == "" and not p.hold):
        return
    never = max(p.replicas - p.max_unavailable, 0)
    budget = f"maxUnavailable {p.max_unavailable}, maxSurge {p.max_surge}"
    if p.previous:
        yield f"  Waves    {budget}; {never} of {p.replicas} pods stay up"
    done = p.updated_before
    for number, step in enumerate(p.steps, 1):
        done += sum(move.how != DELETE for move in step.moves)
        if number <= _STEPS_SHOWN or number == len(p.steps):
            bar = style.bar(min(done, p.replicas), max(p.replicas, 1))
            names = _names(step, p, live=live)
            yield f"{_PAD}step {number:<2} {bar}  {names}  {_about(step.lasts)}".rstrip()
        elif number == _STEPS_SHOWN + 1:
            yield f"{_PAD}… {len(p.steps) - _STEPS_SHOWN - 1} steps like these …"
    if p.hold:
        yield from _hold(p, style)


def _names(step: PredictedStep, p: Prediction, *, live: bool) -> str:
    if not live:
        counts = Counter(move.how for move in step.moves)
        return ", ".join(f"{n} {how}" for how, n in sorted(counts.items()))
    prefix = f"{p.key.name}-"
    names = [f"-{m.pod.removeprefix(prefix)}" for m in step.moves[:_NAMES_SHOWN]]
    more = len(step.moves) - _NAMES_SHOWN
    return " ".join(names) + (f" +{more}" if more > 0 else "")


_HOLDS: Final = {
    "PartitionReached": ("⏸", "hold  next: a commit that lowers updateStrategy.partition"),
    "Paused": ("▮", "paused  next: a commit that takes updateStrategy.paused out"),
    "OnDelete": ("⏸", "hold  the others are updated when somebody deletes them"),
}


def _hold(p: Prediction, style: Style) -> Iterator[str]:
    if p.hold in _HOLDS:
        glyph, words = _HOLDS[p.hold]
        yield f"{_PAD}{glyph} {words}"
        return
    yield f"{_PAD}{style.paint('✗ stuck', 'red')}  {p.message or 'pods do not become available'}"


def _notes(change: Change, p: Prediction, *, live: bool) -> Iterator[str]:
    """What people learn too late about partitions."""
    if change.kind is ChangeKind.CREATE:
        if p.partition:
            yield f"partition is ignored on creation: all {p.replicas} pods start on this revision"
        return
    over = p.updated_before - (p.replicas - p.partition)
    if p.partition and over > 0 and p.updated_before and p.previous == p.revision:
        yield f"the partition stops further updates; {_pods(p.updated_before)} stay on"
        yield f"{p.revision} until the template is put back"
    if not live and _partition(change, before=True) not in {0, "0", "0%"}:
        yield "offline, the base counts as complete; name a cluster (--sandbox, --context)"
        yield "to see the pods that its partition holds"


def _about(span: timedelta) -> str:
    return f"≈ {format_duration(span)}" if span else ""


def _summary(preview: Preview, changed: Sequence[Change]) -> str:
    predictions = preview.forecast.predictions if preview.forecast else ()
    kinds = Counter(change.kind for change in changed)
    moves = Counter(m.how for p in predictions for step in p.steps for m in step.moves)
    amounts = (
        (kinds[ChangeKind.CREATE], "created"),
        (kinds[ChangeKind.CONFIGURE], "changed"),
        (kinds[ChangeKind.PRUNE], "deleted"),
        (moves[IN_PLACE], "pods in place"),
        (moves[RECREATE], "pods recreated"),
        (moves[CREATE], "pods added"),
        (moves[DELETE], "pods removed"),
    )
    parts = [f"{number} {what}" for number, what in amounts if number] or ["nothing"]
    longest = max((p.lasts for p in predictions), default=timedelta(0))
    held = sum(bool(p.hold) and p.hold != STUCK for p in predictions)
    stuck = sum(p.hold == STUCK for p in predictions)
    end = f", then {held} held" if held else ""
    end += f", {stuck} stuck" if stuck else ""
    about = f"   ≈ {format_duration(longest)}" if longest else ""
    return f"Summary  {' · '.join(parts)}{about}{end}"
