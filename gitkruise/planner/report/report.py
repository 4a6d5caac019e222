"""From changes to what is shown of them: secrets covered, equal changes folded, worst first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Final

from gitkruise.errors import Finding
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.document import Desired, GitCommit
from gitkruise.model.gitops.report import PlanReport, PodEffects, ReportEntry, Span, Tone, Totals
from gitkruise.model.planning.forecast import STUCK, RolloutForecast
from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.planner.report.blast_radius import (
    footprint,
    footprint_words,
    moved,
    played_ahead,
    unforeseen,
)
from gitkruise.planner.report.changed_fields import field_rows
from gitkruise.planner.report.forecast import rollout_view
from gitkruise.planner.sync.prune import GUARDED, asks, stays
from gitkruise.printable import listing, many
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.paths import get

# So many objects with one and the same change are one entry.
_FOLDED_FROM: Final = {ChangeKind.CONFIGURE: 3, ChangeKind.CREATE: 6, ChangeKind.PRUNE: 6}
_NAMED: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Heading:
    """The compared commits, and the cluster whose live objects were read; `asks` are deletions
    that wait for a person's approval."""

    target: GitCommit
    base: GitCommit | None = None
    cluster: str = ""
    dirty: bool = False
    live: bool = False
    asks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()  # versions that git does not contain, hooks that run again
    staged: bool = False  # offline, and what was before the base was played
    unknown: Mapping[ObjectKey, str] = field(default_factory=dict)  # effects, and why
    outside: tuple[str, ...] = ()  # manifests that changed in no folder of a unit


def plan_report(
    changes: Sequence[ObjectChange],
    rollouts: Iterable[RolloutForecast],
    desired: Iterable[Desired],
    heading: Heading,
    *,
    key: bytes,
    findings: Sequence[Finding] = (),
    rejected: Mapping[ObjectKey, str] | None = None,
) -> PlanReport:
    """Report on `changes`. `key` makes the fingerprints of secrets, at least 16 bytes.

    Deletions come first, then what recreates pods, what restarts them and the rest; drift that a
    sync corrects as well comes last.
    """
    documents = {d.key: d for d in desired}
    by_key = {p.key: p for p in rollouts}
    refused = rejected or {}
    entries = [
        _entry(change, documents.get(change.key), by_key.get(change.key), heading, key)
        if (code := refused.get(change.key)) is None
        else _rejected(change, documents.get(change.key), code, key)
        for change in changes
        if change.kind is not ChangeKind.UNCHANGED
    ]
    folded = tuple(sorted(_folded(entries), key=_rank))
    totals = _totals(folded, unchanged=len(changes) - len(entries))
    return PlanReport(
        target=heading.target,
        base=heading.base,
        cluster=heading.cluster,
        dirty=heading.dirty,
        live=heading.live,
        outside=heading.outside,
        blast=(
            *(Span(ask, Tone.ALARM) for ask in heading.asks),
            *map(Span, heading.notes),
            *_blast(folded, totals),
        ),
        entries=folded,
        totals=totals,
        findings=tuple(findings),
    )


def _entry(
    change: ObjectChange, d: Desired | None, p: RolloutForecast | None, heading: Heading, key: bytes
) -> ReportEntry:
    rows = field_rows(change, d, key) if change.kind is ChangeKind.CONFIGURE else ()
    made = ReportEntry(
        kind=change.kind,
        keys=(change.key,),
        sources=(change.source,),
        rows=rows,
        notes=tuple(_prune_notes(change)),
        drift=change.drift,
        pending=change.pending,
        replaced=change.replaced,
        stays=change.kind is ChangeKind.PRUNE and bool(stays(change)),
    )
    if p is not None:
        assumed = not (heading.live or heading.staged)
        view = rollout_view(change, p, rows, live=heading.live, assumed=assumed)
        pods = moved(p, created=change.kind is ChangeKind.CREATE)
        return replace(made, rollouts=(view,), pods=pods)
    if unknown := heading.unknown.get(change.key, "") or unforeseen(change):
        return replace(made, effect=(Span(f"unknown: {unknown}", Tone.STRONG),), unknown=unknown)
    if heading.live and d is not None and played_ahead(change):
        return replace(made, effect=(Span("none: the cluster has this already"),))
    pods = footprint(change)
    return replace(made, effect=footprint_words(pods, change), pods=pods)


def _rejected(change: ObjectChange, d: Desired | None, code: str, key: bytes) -> ReportEntry:
    """Return the entry of a change that admission, or the kind of its update, forbids, or that of
    another object in the same unit."""
    return ReportEntry(
        kind=change.kind,
        keys=(change.key,),
        sources=(change.source,),
        rows=field_rows(change, d, key) if change.kind is ChangeKind.CONFIGURE else (),
        effect=(Span(f"none: the change is rejected ({code})", Tone.ALARM),),
        stays=change.kind is ChangeKind.PRUNE,
        rejected=code,
    )


def _prune_notes(change: ObjectChange) -> Iterator[str]:
    if change.kind is not ChangeKind.PRUNE or change.before is None:
        return
    if why := stays(change):
        yield f"stays in the cluster: {why}"
        return
    if not change.agreed and (why := asks(change.key, change.before)):
        yield f"waits for approval: {why}"
    if change.key.group_kind in GUARDED and not get(change.before, "metadata", "uid"):
        yield "stays while it holds objects that its unit did not create: only the cluster knows"
    if change.key.group_kind == SIDECARSET:
        yield "pods that run keep its containers until they are created again"


# Folding ----------------------------------------------------------------------------------------


def _folded(entries: Sequence[ReportEntry]) -> Iterator[ReportEntry]:
    """Entries with the same change as one, in the place of their first."""
    groups: dict[Any, list[ReportEntry]] = {}
    for entry in entries:
        groups.setdefault(_sameness(entry), []).append(entry)
    for group in groups.values():
        if len(group) < _FOLDED_FROM[group[0].kind]:
            yield from group
            continue
        yield replace(
            group[0],
            keys=tuple(e.keys[0] for e in group),
            sources=tuple(e.sources[0] for e in group),
            rollouts=tuple(
                sorted(
                    (view for e in group for view in e.rollouts),
                    key=lambda view: view.prediction.hold != STUCK,
                )
            ),
            pods=sum((e.pods for e in group), PodEffects()),
        )


def _sameness(entry: ReportEntry) -> tuple[Any, ...]:
    key = entry.keys[0]
    rows = tuple((r.field, repr(r.before), repr(r.after), r.remark) for r in entry.rows)
    place = key.namespace if entry.kind is ChangeKind.CREATE else ""
    return (
        entry.kind, entry.drift, entry.pending, entry.stays, key.group_kind, place, rows,
        entry.effect, entry.notes, bool(entry.rollouts), entry.replaced,
    )  # fmt: skip


# Worst first ------------------------------------------------------------------------------------


def _rank(entry: ReportEntry) -> tuple[int, ObjectKey]:
    pods = entry.pods
    tests = (
        entry.replaced or (entry.kind is ChangeKind.PRUNE and not entry.stays),
        not entry.drift and bool(pods.recreated or pods.rolled or pods.uncounted),
        not entry.drift and bool(pods.in_place or pods.removed),
        entry.kind is ChangeKind.CONFIGURE and not entry.drift,
        entry.kind is ChangeKind.CREATE,
        not entry.drift,
    )
    return next((i for i, holds in enumerate(tests) if holds), len(tests)), entry.keys[0]


def _totals(entries: Sequence[ReportEntry], *, unchanged: int) -> Totals:
    def count(kind: ChangeKind, *, drift: bool = False, pending: bool = False) -> int:
        meant = (e for e in entries if (e.kind, e.drift, e.pending) == (kind, drift, pending))
        return sum(len(e.keys) for e in meant)

    views = [view.prediction for e in entries for view in e.rollouts]
    return Totals(
        created=count(ChangeKind.CREATE),
        changed=count(ChangeKind.CONFIGURE),
        deleted=sum(len(e.keys) for e in entries if e.kind is ChangeKind.PRUNE and not e.stays),
        drifted=count(ChangeKind.CONFIGURE, drift=True),
        pending=count(ChangeKind.CONFIGURE, pending=True),
        unchanged=unchanged,
        pods=sum((e.pods for e in entries), PodEffects()),
        lasts=max((p.lasts for p in views), default=timedelta()),
        held=sum(p.hold not in {"", STUCK, Hold.INJECT_ONLY} for p in views),
        stuck=sum(p.hold == STUCK for p in views),
    )


def _blast(entries: Sequence[ReportEntry], totals: Totals) -> Iterator[Span]:
    """Irreversible effects, worst first."""
    gone = [k for e in entries if e.kind is ChangeKind.PRUNE and not e.stays for k in e.keys]
    if gone:
        yield Span(f"{many(len(gone), 'object')} DELETED ({_named(gone)})", Tone.ALARM)
    again = [k for e in entries if e.replaced for k in e.keys]
    if again:
        yield Span(
            f"{many(len(again), 'object')} DELETED AND CREATED AGAIN ({_named(again)})",
            Tone.ALARM,
        )
    pods = totals.pods
    amounts: Mapping[str, tuple[int, Tone]] = {
        "{} gone with their workload": (pods.gone, Tone.ALARM),
        "{} RECREATED": (pods.recreated, Tone.ALARM),
        "{} REPLACED": (pods.rolled, Tone.ALARM),
        "{} scaled away": (pods.removed, Tone.ALARM),
        "{} restarted in place": (pods.in_place, Tone.STRONG),
    }
    for words, (number, tone) in amounts.items():
        if number:
            yield Span(words.format(many(number)), tone)
    if pods.uncounted:
        yield Span(f"pods of {many(pods.uncounted, 'DaemonSet')} on every node", Tone.ALARM)
    if totals.stuck:
        yield Span(f"{many(totals.stuck, 'rollout')} STUCK", Tone.ALARM)
    unknown = [k for e in entries if e.unknown for k in e.keys]
    if unknown:
        effect = f"effect of {many(len(unknown), 'object')} on pods unknown ({_named(unknown)})"
        yield Span(effect, Tone.STRONG)
    staying = [k for e in entries if e.stays for k in e.keys]
    if staying:
        yield Span(f"{many(len(staying), 'object')} kept though gone from git ({_named(staying)})")
    certain = not (gone or again or totals.stuck or unknown)
    if certain and pods == PodEffects(added=pods.added):
        yield Span("no pod restarts and nothing is deleted")


def _named(keys: Sequence[ObjectKey]) -> str:
    return listing(keys, _NAMED)
