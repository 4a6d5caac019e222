"""A plan as text: what changes where, which pods move and how, and what holds them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.cli.style import Style, table
from gitkruise.model.change import Change, ChangeKind, FieldChange
from gitkruise.model.document import Commit
from gitkruise.planner.sync.summary import shown
from gitkruise.wire.names import ObjectKey
from gitkruise.wire.times import format_duration

if TYPE_CHECKING:
    from gitkruise.gitops.preview import Preview
    from gitkruise.model.change import Desired
    from gitkruise.model.forecast import PredictedStep, Prediction

_SIGNS: Final = {
    ChangeKind.CREATE: ("+", "green"),
    ChangeKind.CONFIGURE: ("~", "yellow"),
    ChangeKind.PRUNE: ("-", "red"),
}
_NAMES_SHOWN: Final = 6
_FIELDS_SHOWN: Final = 20
IN_PLACE, RECREATE = "in-place", "recreate"


def plan_lines(
    preview: Preview, base: Commit | None, target: Commit, style: Style, desired: Sequence[Desired]
) -> Iterator[str]:
    """The whole plan, object by object, then the totals."""
    since = "live objects" if preview.live else "offline: counts, no names"
    came = f"{base.short} → {target.short}" if base else target.short
    yield f"Plan   {came}   {shown(target.subject)}        {since}"
    yield ""
    documents = {d.key: d for d in desired}
    forecasts = {p.key: p for p in (preview.forecast.predictions if preview.forecast else ())}
    changed = [c for c in preview.changes if c.kind is not ChangeKind.UNCHANGED]
    for change in changed:
        yield from _object(change, documents.get(change.key), style)
        prediction = forecasts.get(change.key)
        if prediction is not None:
            yield from _effect(change, prediction, style, live=preview.live)
        yield ""
    if not changed:
        yield "no effect on the cluster: nothing but comments and formatting, if anything, changed"
    yield _summary(preview, changed)


def _object(change: Change, d: Desired | None, style: Style) -> Iterator[str]:
    sign, colour = _SIGNS[change.kind]
    why = "also corrected: live differs from git" if change.drift else change.source
    head = f"{sign} {_title(change.key)}"
    yield f"{style.paint(head, colour, 'bold')}    {style.paint(why, 'dim')}"
    rows = [_field(field, d, secret=_is_secret(change.key)) for field in change.fields]
    for line in table(("", "", ""), rows[:_FIELDS_SHOWN])[1:]:
        yield f"    {line}"
    if len(rows) > _FIELDS_SHOWN:
        yield f"    … and {len(rows) - _FIELDS_SHOWN} more fields"


def _title(key: ObjectKey) -> str:
    return str(key)


def _is_secret(key: ObjectKey) -> bool:
    return key.kind == "Secret" and not key.group


def _field(field: FieldChange, d: Desired | None, *, secret: bool) -> tuple[str, str, str]:
    path = ".".join(str(part) for part in field.path)
    line = d.document.place(field.path).line if d else 0
    before, after = ("•••", "••• changed") if secret else (shown(field.before), shown(field.after))
    return path, f"{before} → {after}", f":{line}" if line else ""


def _effect(change: Change, p: Prediction, style: Style, *, live: bool) -> Iterator[str]:
    moves = Counter(move.how for step in p.steps for move in step.moves)
    if change.kind is ChangeKind.CREATE:
        yield (
            f"  Effect   {p.replicas} pods created; partition is ignored on creation, "
            "all start on this revision"
        )
    elif moves[RECREATE]:
        words = style.paint(f"{moves[RECREATE]} of {p.replicas} pods RECREATED", "bold", "red")
        yield f"  Effect   {words} (new IP, maybe a new node)"
    elif moves[IN_PLACE]:
        words = style.paint(f"{moves[IN_PLACE]} of {p.replicas} pods updated IN PLACE", "bold")
        yield f"  Effect   {words}: containers restart; IP, node and volumes stay"
    else:
        yield f"  Effect   no pod is updated{_scaled(moves)}"
    yield from _kept(p)
    yield from _waves(p, style, live=live)


def _scaled(moves: Counter[str]) -> str:
    parts = [f"{moves[how]} {how}d" for how in ("create", "delete") if moves[how]]
    return f"; {', '.join(parts)}" if parts else ""


def _kept(p: Prediction) -> Iterator[str]:
    old = p.replicas - p.updated_after
    if p.partition and old and p.previous != p.revision:
        yield f"           {old} stay on {p.previous}   (partition keeps {p.partition})"


def _waves(p: Prediction, style: Style, *, live: bool) -> Iterator[str]:
    """One line a step; the budget first, the hold last."""
    if not p.steps:
        return
    never = p.replicas - p.max_unavailable
    yield (
        f"  Waves    budget: maxUnavailable {p.max_unavailable}, maxSurge {p.max_surge}"
        f"    never fewer than {max(never, 0)} of {p.replicas} asked to serve"
    )
    done = p.updated_before
    for number, step in enumerate(p.steps, 1):
        done += sum(move.how != "delete" for move in step.moves)
        bar = style.bar(min(done, p.replicas), max(p.replicas, 1))
        yield f"           step {number}  {bar}  {_names(step, p, live=live)}  {_about(step.lasts)}"
    if p.hold:
        yield f"           {_hold(p, style)}"


def _names(step: PredictedStep, p: Prediction, *, live: bool) -> str:
    if not live:
        counts = Counter(move.how for move in step.moves)
        return ", ".join(f"{n} {how}" for how, n in sorted(counts.items()))
    prefix = f"{p.key.name}-"
    names = [f"-{m.pod.removeprefix(prefix)}" for m in step.moves[:_NAMES_SHOWN]]
    more = len(step.moves) - _NAMES_SHOWN
    return " ".join(names) + (f" +{more}" if more > 0 else "")


def _hold(p: Prediction, style: Style) -> str:
    glyph = "⏸" if style.unicode else "[hold]"
    words = {
        "PartitionReached": f"held by the partition at {p.updated_after} of {p.replicas}; "
        "the next move is a commit",
        "Paused": "paused: true holds everything else",
        "OnDelete": "the others are updated when they are deleted",
    }
    return f"{glyph} {words.get(p.hold, f'{p.hold}: new pods do not become available')}"


def _about(span: timedelta) -> str:
    return f"≈ {format_duration(span)}" if span else ""


def _summary(preview: Preview, changed: Sequence[Change]) -> str:
    kinds = Counter(change.kind for change in changed)
    moves: Counter[str] = Counter()
    for p in preview.forecast.predictions if preview.forecast else ():
        moves.update(move.how for step in p.steps for move in step.moves)
    parts = [
        f"{kinds[ChangeKind.CREATE]} created",
        f"{kinds[ChangeKind.CONFIGURE]} changed",
        f"{kinds[ChangeKind.PRUNE]} deleted",
        f"{moves[IN_PLACE]} pods in place",
        f"{moves[RECREATE]} recreated",
    ]
    return "Summary  " + " · ".join(parts)
