"""The sentences of a plan that all its forms share: heading, changes in short, pods, totals."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.report import (
    PlanReport,
    PodEffects,
    ReportEntry,
    RolloutView,
    Sentence,
    Span,
    StepView,
)
from gitkruise.model.planning.forecast import STUCK
from gitkruise.planner.report.summary import shown
from gitkruise.printable import listing, many
from gitkruise.wire.primitives.names import CONFIG_FILE, ObjectKey
from gitkruise.wire.primitives.times import format_duration

SIGNS: Final = {ChangeKind.CREATE: "+", ChangeKind.CONFIGURE: "~", ChangeKind.PRUNE: "-"}
_FIELDS: Final = 3  # named in short


def plain(sentence: Sentence) -> str:
    return "".join(span.text for span in sentence)


def compared(report: PlanReport) -> str:
    """`8ab13d0 → 4f2c9e1`."""
    new = planned(report)
    return f"{report.base.short} → {new}" if report.base else f"(nothing) → {new}"


def planned(report: PlanReport) -> str:
    """Return the planned commit; a snapshot of the working tree is no commit of the user."""
    return "working tree" if report.dirty else report.target.short


def _the_planned(report: PlanReport) -> str:
    return f"the {planned(report)}" if report.dirty else planned(report)


def nothing(report: PlanReport) -> str:
    """Return the reason of a plan without changes: what git changed may be live already."""
    found = any(f.is_error for f in report.findings) or (report.cluster and report.findings)
    if found or CONFIG_FILE in report.outside:  # the head of the plan says why
        return "no effect on the cluster"
    if report.outside:
        return (
            f"no effect through the units of {CONFIG_FILE}: no folder of theirs has "
            f"{listing([*map(shown, report.outside)], 3)}. Units that are objects of a cluster "
            "were not looked at: save one and its GitSource with kubectl get -o yaml, and name "
            "the file with --config"
        )
    if report.cluster:
        return f"no effect on the cluster: nothing of {_the_planned(report)} is left to apply"
    return (
        "no effect on the cluster: nothing but comments and formatting, sizes that an autoscaler "
        "sets, or objects that are left alone, if anything, changed"
    )


def subject_of(report: PlanReport) -> str:
    return "" if report.dirty else shown(report.target.subject)


def looked_at(report: PlanReport) -> str:
    """Source of the live objects, if any were read."""
    if report.cluster:
        return f"live objects of cluster {report.cluster}"
    return "offline: pods are counted, not named"


def entry_name(entry: ReportEntry, most: int = 3) -> str:
    """`CloneSet shop/web`, or `ConfigMap × 400: shop/a, shop/b, shop/c and 397 more`."""
    key = entry.keys[0]
    if not entry.folded:
        return str(key)
    names = [_spaced(k) for k in entry.keys]
    return f"{key.kind} × {len(names)}: {listing(names, most)}"


def _spaced(key: ObjectKey) -> str:
    return f"{key.namespace}/{key.name}" if key.namespace else key.name


def folded_view(view: RolloutView) -> Sentence:
    """The name, the first effect and the end of a rollout, in an entry that folds several."""
    p, hold = view.prediction, plain(view.hold)
    shown_hold = hold if p.hold == STUCK else hold.partition("  ")[0]  # without the next command
    end = f", then {shown_hold}" if hold else ""
    return Span(f"{_spaced(p.key)}: "), *view.effect[0], Span(f"{about(p.lasts, '  ')}{end}")


def source_of(entry: ReportEntry, report: PlanReport) -> str:
    """Position in git, and the reason for the entry when that is not a change in git."""
    if entry.kind is ChangeKind.PRUNE:
        earlier = "by an earlier commit, and still live"
        gone = f"deleted {earlier if entry.pending else f'in {_the_planned(report)}'}"
        return gone if entry.stays else f"{gone}   prune"
    where = entry.sources[0]
    if entry.replaced:
        return f"{where}   cannot change, so it is deleted and created again"
    if entry.drift:
        return f"{where}   live differs from git and is corrected"
    if entry.pending:
        return f"{where}   of an earlier commit, and not live"
    return f"{where} …" if entry.folded else where


def not_of_commit(entry: ReportEntry) -> str:
    """Return the words before a change in a table that is not one of the commit."""
    return "drift: " if entry.drift else "earlier commit: " if entry.pending else ""


def change_words(entry: ReportEntry) -> str:
    """The change in short: `containers[app].image v1 → v2, partition 0 → 60%`."""
    if entry.replaced:
        return "deleted and created again"
    if entry.kind is not ChangeKind.CONFIGURE:
        return {ChangeKind.CREATE: "created", ChangeKind.PRUNE: "deleted"}[entry.kind]
    changes = [f"{_last(row.path)} {row.words}" for row in entry.rows[:_FIELDS]]
    more = len(entry.rows) - len(changes)
    return ", ".join(changes) + (f" and {many(more, 'more field')}" if more else "")


def _last(path: str) -> str:
    head, _, last = path.rpartition(".")
    before = head.rpartition(".")[2]
    return f"{before}.{last}" if before.endswith("]") else last


def pods_words(pods: PodEffects) -> tuple[str, ...]:
    """`4 in place`, `10 recreated`, …"""
    amounts = (
        (pods.gone, "gone"),
        (pods.recreated, "recreated"),
        (pods.rolled, "replaced"),
        (pods.in_place, "in place"),
        (pods.added, "added"),
        (pods.removed, "removed"),
    )
    words = [f"{number} {what}" for number, what in amounts if number]
    return (*words, *(["all of a DaemonSet"] if pods.uncounted else []))


def afterwards(entry: ReportEntry) -> str:
    """State after the rollout: held, stuck, done; "" without a rollout."""
    if entry.kind is ChangeKind.PRUNE:
        return "kept" if entry.stays else "waits for approval" if entry.notes else "pruned"
    ends = sorted({view.prediction.hold or "done" for view in entry.rollouts})
    words = {"PartitionReached": "held", "CanaryReached": "held", "OnDelete": "held",
             "Paused": "paused", "Stuck": "stuck"}  # fmt: skip
    return ", ".join(dict.fromkeys(words.get(end, end) for end in ends))


def step_words(number: int, step: StepView) -> str:
    return f"step {number}: {step.moves}, then {step.done} of {step.total}{about(step.lasts, ', ')}"


def about(span: timedelta, lead: str = "") -> str:
    return f"{lead}≈ {format_duration(span)}" if span else ""


def summary(report: PlanReport) -> str:
    """`2 changed · 4 pods in place   ≈ 6s, then 1 held`."""
    totals, pods = report.totals, report.totals.pods
    objects = (
        (totals.created, "created"),
        (totals.changed, "changed"),
        (totals.deleted, "deleted"),
        (totals.drifted, "drifted"),
        (totals.pending, "of earlier commits"),
    )
    moved = (
        (pods.in_place, "in place"),
        (pods.recreated, "recreated"),
        (pods.rolled, "replaced"),
        (pods.added, "added"),
        (pods.removed, "removed"),
        (pods.gone, "gone"),
    )
    parts = [f"{number} {what}" for number, what in objects if number]
    parts += [f"{many(number)} {what}" for number, what in moved if number]
    end = f", then {totals.held} held" if totals.held else ""
    end += f", {totals.stuck} stuck" if totals.stuck else ""
    return f"{' · '.join(parts or ['nothing'])}{about(totals.lasts, '   ')}{end}"
