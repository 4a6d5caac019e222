"""Screen of one rollout: requested and current pods, the reason, one character per pod."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from gitkruise.cli.console.style import Style, cell_width, clip, wrapped
from gitkruise.cli.console.tables import Column, fit_table
from gitkruise.model.gitops.record import Rollout
from gitkruise.wire.primitives.names import short_name

if TYPE_CHECKING:
    from gitkruise.gitops.inspect.cluster_view import Managed
    from gitkruise.model.workloads.pod import PodFacts

_MARKS = ("●", "◍", "✗", "○", "⌫")  # new ready, new not ready, failing, old, going
_ASCII_MARKS = ("*", "%", "x", "o", "<")
_FAILING_SHOWN = 3
_PODS_LABEL = "pods  "
_WHY: Final = len("why    ")  # under the first word of the reason


def rollout_block(m: Managed, style: Style) -> list[str]:
    """Return lines that fit the width of the window."""
    r = m.rollout
    assert r is not None
    width = min(style.width, 120)
    title = f"{style.paint(short_name(m.key), 'bold')}  {m.key.namespace}"
    state = style.state(r.state)
    gap = max(2, width - cell_width(title) - cell_width(state))
    how = "in place if possible" if r.in_place else "recreate"
    lines = [
        f"{title}{' ' * gap}{state}",
        f"commit   {m.commit[:7] or '-'}   {m.path}",
        *([f"artifact {m.artifact}"] if m.artifact else ()),
        f"update   {r.update_revision or '-'}   {how}   budget {r.budget} unavailable",
        "",
        *_counts(r, style),
        *wrapped(f"  why    {r.message}", width, indent=_WHY),
        "",
        *_revisions(r, style),
        *_pods(m.pods, r, style, width),
    ]
    failing = [f"  {pod}: {why}" for pod, why in r.failing[:_FAILING_SHOWN]]
    reasons = [line for text in failing for line in wrapped(text, width, indent=2)]
    return [*(clip(line, style.width) for line in lines), *reasons]


def _counts(r: Rollout, style: Style) -> Iterator[str]:
    total = max(r.replicas, 1)
    kept = f"   ({r.gate} keeps {r.kept})" if r.kept else ""
    updating = r.updated - r.updated_ready
    moving = f"  {updating} updating" if updating else ""
    yield f"  asked  {style.bar(r.asked, total)}  {r.asked} new / {r.replicas - r.asked} old{kept}"
    yield (
        f"  now    {style.bar(r.updated_ready, total)}  {r.updated_ready} new{moving}  "
        f"{r.total - r.updated} old    {r.total} pods · {r.ready} ready"
    )


def _revisions(r: Rollout, style: Style) -> list[str]:
    new, old = (_MARKS[0], _MARKS[3]) if style.unicode else (_ASCII_MARKS[0], _ASCII_MARKS[3])
    rows = [
        (
            f"{new if c.role == 'update' else old} {c.hash}",
            c.role,
            c.commit[:7] or "-",
            str(c.pods),
            str(c.available),
            ", ".join(f"{name}:{image.rpartition('/')[2]}" for name, image in c.images),
        )
        for c in r.revisions
    ]
    heads = (
        Column(name="  REVISION"),
        *(Column(name=name) for name in ("ROLE", "COMMIT", "PODS", "AVAILABLE")),
        Column(name="IMAGES", least=12),
    )
    return fit_table(heads, rows, style.width)


def _pods(pods: Sequence[PodFacts], r: Rollout, style: Style, width: int) -> Iterator[str]:
    """Yield one character per pod: the fill is the revision, the shape the condition."""
    marks = _MARKS if style.unicode else _ASCII_MARKS
    failing = {pod for pod, _ in r.failing}
    ranks = sorted(_rank(pod, r.update_revision, failing) for pod in pods)
    room = width - len(_PODS_LABEL)
    for start in range(0, len(ranks), room):
        row = "".join(
            style.paint(marks[rank], "red") if rank == 2 else marks[rank]
            for rank in ranks[start : start + room]
        )
        yield (_PODS_LABEL if start == 0 else " " * len(_PODS_LABEL)) + row


def _rank(pod: PodFacts, update: str, failing: set[str]) -> int:
    if pod.deleting is not None:
        return 4
    if not pod.on_revision(update):
        return 3
    if pod.name in failing:
        return 2
    return 0 if pod.ready else 1
