"""The report of a plan that was made: commits, changes, rollouts and findings in one."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Final

from gitkruise.planner.sync.report import Heading, plan_report

if TYPE_CHECKING:
    from gitkruise.gitops.planning import Side
    from gitkruise.gitops.prospect import Preview
    from gitkruise.model.report import PlanReport

# Makes fingerprints of secrets; it never leaves the process, so that nobody can guess values.
_KEY: Final = secrets.token_bytes(32)


def report_of(
    preview: Preview,
    base: Side | None,
    target: Side,
    *,
    cluster: str = "",
    dirty: bool = False,
    key: bytes = _KEY,
) -> PlanReport:
    """What `preview` shows of the way from `base` to `target`; `cluster` is "" offline."""
    heading = Heading(
        target=target.commit,
        base=base.commit if base else None,
        cluster=cluster,
        dirty=dirty,
        live=preview.live,
    )
    return plan_report(
        preview.changes,
        preview.forecast.predictions if preview.forecast else (),
        target.objects,
        heading,
        key=key,
        findings=(*target.findings, *preview.unplayed),
    )
