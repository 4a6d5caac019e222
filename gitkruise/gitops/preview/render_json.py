"""A plan as a versioned JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from gitkruise.model.gitops.change import MISSING, Redacted
from gitkruise.wire.primitives.names import OWN_API
from gitkruise.wire.primitives.secret_names import concealed

if TYPE_CHECKING:
    from gitkruise.model.gitops.report import FieldRow, PlanReport, ReportEntry
    from gitkruise.model.planning.forecast import RolloutForecast, Sidecars

_POD_NAMES: Final = {"in_place": "inPlace"}


def plan_obj(report: PlanReport) -> dict[str, Any]:
    """Changes without the unchanged ones, worst first, and the forecasts of their rollouts.

    Objects whose change is the same have the same `fold`. A redacted value is
    `{"redacted": fingerprint}`. Findings are the caller's to add.
    """
    totals = report.totals
    return {
        "apiVersion": OWN_API,
        "kind": "Plan",
        "from": report.base.id if report.base else None,
        "to": report.target.id,
        "live": report.live,
        "blast": [span.text for span in report.blast],
        "totals": {
            "created": totals.created,
            "changed": totals.changed,
            "deleted": totals.deleted,
            "drifted": totals.drifted,
            "unchanged": totals.unchanged,
            "pods": {_POD_NAMES.get(k, k): v for k, v in asdict(totals.pods).items()},
            "held": totals.held,
            "stuck": totals.stuck,
            "seconds": totals.lasts.total_seconds(),
        },
        "changes": [
            change for fold, e in enumerate(report.entries) for change in _changes(fold, e)
        ],
        "unchanged": totals.unchanged,
        "rollouts": [rollout_obj(v.prediction) for e in report.entries for v in e.rollouts],
    }


def _changes(fold: int, entry: ReportEntry) -> list[dict[str, Any]]:
    fields = [_field(row) for row in entry.rows]
    return [
        {
            "change": str(entry.kind),
            **key._asdict(),
            "source": source,
            "drift": entry.drift,
            "pending": entry.pending,
            "stays": entry.stays,
            "replaced": entry.replaced,
            "unknown": entry.unknown,
            "rejected": entry.rejected,
            "fold": fold,
            "fields": fields,
            "notes": list(entry.notes),
        }
        for key, source in zip(entry.keys, entry.sources, strict=True)
    ]


def _field(row: FieldRow) -> dict[str, Any]:
    return {
        "path": ".".join(str(part) for part in concealed(row.field)),
        **({} if row.before is MISSING else {"before": _value(row.before)}),
        **({} if row.after is MISSING else {"after": _value(row.after)}),
    }


def _value(value: Any) -> Any:
    if isinstance(value, Redacted):
        return {"redacted": value.fingerprint}
    if isinstance(value, Mapping):
        return {name: _value(item) for name, item in value.items()}
    return [_value(item) for item in value] if isinstance(value, list | tuple) else value


def rollout_obj(p: RolloutForecast) -> dict[str, Any]:
    """Return a forecast rollout, for JSON."""
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
                "moves": [
                    {"anyOf": list(m.of), "how": m.how} if m.of else {"pod": m.pod, "how": m.how}
                    for m in s.moves
                ],
                **({} if s.counts is None else {"pods": asdict(s.counts)}),
            }
            for s in p.steps
        ],
        "held": [{"pod": pod, "why": why} for pod, why in p.held],
        **({"canary": p.canary} if p.canary else {}),
        **({"unavailableBudgets": list(p.budgets)} if p.budgets else {}),
        **({"workloadSpread": p.division.obj()} if p.division is not None else {}),
        **({} if p.sidecars is None else {"sidecars": _sidecars(p.sidecars)}),
    }


def _sidecars(sidecars: Sidecars) -> dict[str, Any]:
    return {
        "cannotFollow": [{"pod": pod, "why": why} for pod, why in sidecars.barred],
        "notSelected": sidecars.left_out,
        "newPods": {
            "revision": sidecars.born_with,
            "containers": [{"name": name, "image": image} for name, image in sidecars.born],
        },
    }
