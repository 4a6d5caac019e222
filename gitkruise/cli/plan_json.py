"""A plan as a versioned JSON document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gitkruise.cli.findings import finding_obj
from gitkruise.model.change import MISSING, Change, ChangeKind

if TYPE_CHECKING:
    from gitkruise.gitops.planning import Side
    from gitkruise.gitops.prospect import Preview
    from gitkruise.model.forecast import Prediction


def plan_obj(preview: Preview, base: Side | None, target: Side) -> dict[str, Any]:
    """Changes without the unchanged ones, and the predictions of their rollouts."""
    predictions = preview.forecast.predictions if preview.forecast else ()
    return {
        "apiVersion": "gitkruise.io/v1alpha1",
        "kind": "Plan",
        "from": base.commit.id if base else None,
        "to": target.commit.id,
        "live": preview.live,
        "changes": [_change(c) for c in preview.changes if c.kind is not ChangeKind.UNCHANGED],
        "unchanged": sum(c.kind is ChangeKind.UNCHANGED for c in preview.changes),
        "rollouts": [_prediction(p) for p in predictions],
        "findings": [finding_obj(f) for f in (*target.findings, *preview.unplayed)],
    }


def _change(change: Change) -> dict[str, Any]:
    secret = change.key.kind == "Secret" and not change.key.group
    return {
        "change": str(change.kind),
        "group": change.key.group,
        "kind": change.key.kind,
        "namespace": change.key.namespace,
        "name": change.key.name,
        "source": change.source,
        "drift": change.drift,
        "fields": [
            {
                "path": ".".join(str(part) for part in field.path),
                **({} if secret or field.before is MISSING else {"before": field.before}),
                **({} if secret or field.after is MISSING else {"after": field.after}),
            }
            for field in change.fields
        ],
    }


def _prediction(p: Prediction) -> dict[str, Any]:
    return {
        "kind": p.key.kind,
        "namespace": p.key.namespace,
        "name": p.key.name,
        "revision": p.revision,
        "previous": p.previous,
        "replicas": p.replicas,
        "partition": p.partition,
        "maxUnavailable": p.max_unavailable,
        "maxSurge": p.max_surge,
        "updatedBefore": p.updated_before,
        "updatedAfter": p.updated_after,
        "hold": p.hold,
        "seconds": p.lasts.total_seconds(),
        "steps": [
            {
                "startsAfterSeconds": s.starts.total_seconds(),
                "seconds": s.lasts.total_seconds(),
                "moves": [{"pod": m.pod, "how": m.how} for m in s.moves],
            }
            for s in p.steps
        ],
        "held": [{"pod": pod, "why": why} for pod, why in p.held],
    }
