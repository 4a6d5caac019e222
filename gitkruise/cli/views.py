"""Rollouts, pods and revisions as JSON values and as blocks of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gitkruise.cli.style import Style, table
from gitkruise.model.record import Rollout

if TYPE_CHECKING:
    from gitkruise.gitops.survey import Managed
    from gitkruise.model.pod import PodFacts


def rollout_obj(r: Rollout) -> dict[str, Any]:
    """One rollout; amounts are numbers, the partition is as written."""
    return {
        "state": str(r.state),
        "message": r.message,
        "replicas": r.replicas,
        "partition": r.partition,
        "kept": r.kept,
        "asked": r.asked,
        "updated": r.updated,
        "updatedReady": r.updated_ready,
        "ready": r.ready,
        "available": r.available,
        "total": r.total,
        "maxUnavailable": r.budget,
        "inPlace": r.in_place,
        "updateRevision": r.update_revision,
        "currentRevision": r.current_revision,
        "revisions": [
            {
                "hash": c.hash,
                "role": c.role,
                "commit": c.commit,
                "pods": c.pods,
                "available": c.available,
                "images": dict(c.images),
            }
            for c in r.revisions
        ],
        "failing": [{"pod": pod, "why": why} for pod, why in r.failing],
    }


def rollout_block(m: Managed, style: Style) -> list[str]:
    """The screen of `get rollout NAME`: asked, now, revisions, pods."""
    r = m.rollout
    assert r is not None
    how = "in place" if r.in_place else "recreate"
    kept = f"  (partition {r.partition} keeps {r.kept} old)" if r.kept else ""
    updating = r.updated - r.updated_ready
    moving = f"  {updating} updating" if updating else ""
    asked = style.bar(r.asked, max(r.replicas, 1))
    now = style.bar(r.updated_ready, max(r.replicas, 1))
    pods = f"{r.total} pods · {r.ready} ready"
    lines = [
        f"{m.key.kind.lower()}/{m.key.name}  {m.key.namespace}    {style.state(r.state)}",
        f"commit   {m.commit[:7] or '-'}   {m.path}    revision  {r.update_revision or '-'}",
        f"budget   {r.budget} unavailable   {how}",
        "",
        f"  asked  {asked}  {r.asked} new / {r.replicas - r.asked} old{kept}",
        f"  now    {now}  {r.updated_ready} new{moving}  {r.total - r.updated} old    {pods}",
        f"  why    {r.message}",
        "",
        *_revisions(r, style),
        "pods  " + pod_glyphs(m.pods, r, style),
    ]
    return lines + [f"  {pod}: {why}" for pod, why in r.failing[:5]]


def _revisions(r: Rollout, style: Style) -> list[str]:
    new, old = ("●", "○") if style.unicode else ("*", "o")
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
    return table(("REVISION", "ROLE", "COMMIT", "PODS", "AVAILABLE", "IMAGES"), rows)


def pod_glyphs(pods: Sequence[PodFacts], r: Rollout, style: Style) -> str:
    """One character a pod: revision by fill, condition by shape."""
    failing = {pod for pod, _ in r.failing}
    marks = ("●", "◍", "○", "✗", "⌫") if style.unicode else ("*", "%", "o", "x", "<")
    out = []
    for pod in pods:
        if pod.deleting is not None:
            out.append(marks[4])
        elif pod.name in failing:
            out.append(style.paint(marks[3], "red"))
        elif not pod.on_revision(r.update_revision):
            out.append(marks[2])
        else:
            out.append(marks[0] if pod.ready else marks[1])
    return "".join(sorted(out, key=lambda m: [*marks].index(m) if m in marks else 3))


def pod_obj(pod: PodFacts, m: Managed) -> dict[str, Any]:
    """One pod of a rollout: where it runs and which commit's revision."""
    counts = {c.hash: c for c in (m.rollout.revisions if m.rollout else ())}
    found = counts.get(pod.short_revision)
    return {
        "name": pod.name,
        "namespace": pod.namespace,
        "phase": pod.phase,
        "ready": pod.ready,
        "revision": pod.short_revision,
        "commit": found.commit if found else "",
        "node": pod.node,
        "restarts": pod.restarts,
        "images": {c.name: c.image for c in pod.containers},
    }
