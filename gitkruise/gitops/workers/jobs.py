"""Work on content of strangers, in a worker process or, for one command, in ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.workers import frames
from gitkruise.kube.system.cel import BadCelExpression, TooCostly, holds, judged
from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.config import Config
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.notify.comment import PLAN_MAX
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj

if TYPE_CHECKING:
    from gitkruise.gitops.preview.cluster_facts import ClusterFacts

_NAMES: Final[Mapping[str, Obj]] = {"metadata": {}, "spec": {}, "status": {}, "data": {}}


def first_true(
    texts: Sequence[str], obj: bytes, *, every: bool = False, strict: bool = False
) -> tuple[int, str, bool]:
    """Return (number of the first expression that is true of the object, "", False), or -1 if none
    is; or (number of the one that failed, why, whether it exceeded its limits).

    With `every`, all are evaluated for one that fails, and -1 means that none does. A missing field
    makes an expression false; with `strict` it makes it fail.
    """
    variables = {**_NAMES, **msgspec.json.decode(obj)}
    evaluate = judged if strict else holds
    for number, text in enumerate(texts):
        try:
            if text and evaluate(text, variables) and not every:
                return number, "", False
        except BadCelExpression as error:
            return number, str(error), isinstance(error, TooCostly)
    return -1, "", False


def plan_text(
    repository: Repository, config: Config, catalog: Catalog, gates: Gates,
    facts: ClusterFacts | None, *, base: str, head: str,
) -> frames.PlanText:  # fmt: skip
    """Plan a pull request from its base ("" for none) to its head, from the live objects; without
    facts of the cluster, which no stranger sees, from git alone. Raises SourceFailed."""
    from gitkruise.gitops.preview.inputs import read_base, read_side  # noqa: PLC0415  as above
    from gitkruise.gitops.preview.preview import (  # noqa: PLC0415  as above
        live_changes,
        live_outcome,
        offline_preview,
        sent_sides,
    )
    from gitkruise.gitops.preview.render_markdown import plan_markdown  # noqa: PLC0415  seldom needed
    from gitkruise.gitops.preview.report import report_of  # noqa: PLC0415  as above
    from gitkruise.planner.report.report_text import summary  # noqa: PLC0415  as above

    rules = (config, catalog, gates)
    try:
        before = read_base(repository, base, config, *rules) if base else None
        after = read_side(repository, head, *rules)
    except InvalidManifests as error:
        return frames.PlanText(findings=error.findings)
    wrong = errors_of(after.findings)
    if not wrong:
        if facts is None:
            preview = offline_preview(before, after, catalog, gates)
        else:
            before, after = sent_sides(before, after, catalog, facts)
            owned = live_changes(before, after, catalog, gates, facts)
            preview = live_outcome(owned, after, catalog, gates, facts)
        wrong = errors_of(preview.unplayed)
        if not wrong:
            report = report_of(preview, before, after, cluster=facts.cluster if facts else "")
            own = (c for c in preview.changes if not c.drift and not c.pending)
            moved = any(c.kind is not ChangeKind.UNCHANGED for c in own)
            plan = plan_markdown(report, limit=PLAN_MAX)
            return frames.PlanText(plan=plan, moved=moved, summary=summary(report))
    return frames.PlanText(findings=wrong)


def errors_of(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that are errors."""
    return tuple(f for f in findings if f.is_error)
