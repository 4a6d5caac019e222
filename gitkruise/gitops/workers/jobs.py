"""Work on content of strangers, in a worker process or, for one command, in ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from gitkruise.errors import Finding
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.release import knowing
from gitkruise.gitops.build.untrusted import CheckResult, PageRequest
from gitkruise.gitops.workers import frames
from gitkruise.kube.system.cel import BadCelExpression, TooCostly, holds, judged
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.config import Config, Unit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.notify.comment import PLAN_MAX
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey

if TYPE_CHECKING:
    from gitkruise.gitops.preview.cluster_facts import ClusterFacts
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.preview import Preview
    from gitkruise.model.gitops.report import PlanReport

_NAMES: Final[Mapping[str, Obj]] = {"metadata": {}, "spec": {}, "status": {}, "data": {}}


def first_true(
    texts: Sequence[str], obj: bytes, *, every: bool = False, strict: bool = False
) -> CheckResult:
    """Return the number of the first expression that is true of the object.

    With `every`, all are evaluated for one that fails, and -1 means that none does. A missing field
    makes an expression false; with `strict` it makes it fail.
    """
    variables = {**_NAMES, **msgspec.json.decode(obj)}
    evaluate = judged if strict else holds
    for number, text in enumerate(texts):
        try:
            if text and evaluate(text, variables) and not every:
                return CheckResult(number)
        except BadCelExpression as error:
            return CheckResult(number, str(error), isinstance(error, TooCostly))
    return CheckResult(-1)


def plan_text(
    repository: Repository, config: Config, catalog: Catalog, gates: Gates,
    facts: ClusterFacts | None, *, base: str, head: str,
) -> frames.PlanText:  # fmt: skip
    """Plan a pull request from its base ("" for none) to its head, from the live objects; without
    facts of the cluster, which no stranger sees, from git alone. Raises SourceFailed."""
    from gitkruise.gitops.preview.rejection import as_taken, rejecting  # noqa: PLC0415  seldom needed
    from gitkruise.gitops.preview.render_markdown import plan_markdown  # noqa: PLC0415  as above
    from gitkruise.planner.report.report_text import summary  # noqa: PLC0415  as above

    with knowing(facts.known if facts else None):
        before, after = _sides(repository, config, catalog, gates, base=base, head=head)
    after = _with_approvals(as_taken(before, after), repository, head, facts)
    errors = [e for found in after.rejected.values() for e in found]
    refusing = rejecting(before, after)
    if refusing and after.rejected.keys() == after.everyone.keys():
        return frames.PlanText(findings=tuple(errors))
    found = _foreseen(before, after, catalog, gates, facts)
    changed = [c for c in found.preview.changes if c.kind is not ChangeKind.UNCHANGED]
    units = found.units_of(change.key for change in changed)
    wrong = errors_of(found.preview.unplayed)
    refused = found.refused()
    if wrong and set(units) <= refused:
        return frames.PlanText(units=units, findings=wrong)
    report = found.of_others(refused).report(facts)
    takers = found.units_of(c.key for c in changed if not c.drift and not c.pending)
    return frames.PlanText(
        plan=plan_markdown(report, limit=PLAN_MAX), moved=bool(takers), units=units,
        summary=summary(report), findings=(*errors, *wrong),
        rejecting=tuple(sorted({*refusing, *refused})), takers=takers,
    )  # fmt: skip


def page(
    repository: Repository, config: Config, catalog: Catalog, gates: Gates, request: PageRequest
) -> frames.PlanPage:
    """Return the plan of `plan_text` for a page; rollouts that cannot be played are findings of it.

    A diff is of manifests, by git alone. Raises SourceFailed, InvalidManifests.
    """
    from gitkruise.gitops.preview.rejection import taken_by_some  # noqa: PLC0415  seldom needed

    base, head, facts = request.base, request.head, request.facts
    with knowing(facts.known if facts else None):
        before, after = _sides(repository, config, catalog, gates, base=base, head=head)
    after = _with_approvals(taken_by_some(before, after), repository, head, facts)
    if not request.part.diff:
        found = _foreseen(before, after, catalog, gates, facts)
        return page_of(found.report(facts, request.part.shown))
    from gitkruise.gitops.preview.changes import changes_between  # noqa: PLC0415  seldom needed

    changes = changes_between(before.objects if before else (), after.objects, catalog)
    return diff_of(changes, request.part.shown)


def diff_of(
    changes: Iterable[ObjectChange], shown: Set[ObjectKey] | None = None
) -> frames.PlanPage:
    """Return manifests that differ as a page shows them; with `shown`, of those objects only."""
    from gitkruise.gitops.preview.render_page import diff_document  # noqa: PLC0415  seldom needed

    mine = [change for change in changes if shown is None or change.key in shown]
    return frames.PlanPage(diff_document(mine))


def page_of(report: PlanReport) -> frames.PlanPage:
    """Return a report as a page shows it."""
    from gitkruise.gitops.preview.render_page import plan_document  # noqa: PLC0415  seldom needed

    keys = tuple(key for entry in report.entries for key in entry.keys)
    return frames.PlanPage(plan_document(report), keys, report.findings)


class _Foreseen(NamedTuple):
    """A plan that was made, and the two commits that it is between."""

    preview: Preview
    before: PlanSide | None
    after: PlanSide

    def report(self, facts: ClusterFacts | None, shown: Set[ObjectKey] | None = None) -> PlanReport:
        from gitkruise.gitops.preview.report import report_of  # noqa: PLC0415  seldom needed

        cluster = facts.cluster if facts else ""
        return report_of(self.preview, self.before, self.after, cluster=cluster, shown=shown)

    def refused(self) -> Set[str]:
        """Return the units with an object that the cluster would refuse."""
        from gitkruise.gitops.preview.rejection import refusing  # noqa: PLC0415  seldom needed

        return refusing(self.preview.unplayed, self._units()).keys()

    def of_others(self, refused: Set[str]) -> _Foreseen:
        """Return the plan without these units and the errors of their objects."""
        left = {key for key, unit in self._units().items() if unit.id in refused}
        changes = tuple(c for c in self.preview.changes if c.key not in left)
        unplayed = tuple(f for f in self.preview.unplayed if not f.is_error)
        return self._replace(preview=replace(self.preview, changes=changes, unplayed=unplayed))

    def units_of(self, keys: Iterable[ObjectKey]) -> tuple[str, ...]:
        """Return the units that have these objects before or after, in order."""
        units = self._units()
        return tuple(sorted({units[key].id for key in keys if key in units}))

    def _units(self) -> Mapping[ObjectKey, Unit]:
        before = self.before.units if self.before is not None else {}
        return {**before, **self.after.units}


def _foreseen(
    before: PlanSide | None, after: PlanSide, catalog: Catalog, gates: Gates,
    facts: ClusterFacts | None,
) -> _Foreseen:  # fmt: skip
    from gitkruise.gitops.preview.preview import (  # noqa: PLC0415  seldom needed
        live_changes,
        live_outcome,
        offline_preview,
        sent_sides,
    )

    if facts is None:
        return _Foreseen(offline_preview(before, after, catalog, gates), before, after)
    before, after = sent_sides(before, after, catalog, facts)
    owned = live_changes(before, after, catalog, gates, facts)
    return _Foreseen(live_outcome(owned, after, catalog, gates, facts), before, after)


def _sides(
    repository: Repository, config: Config, catalog: Catalog, gates: Gates, *, base: str, head: str
) -> tuple[PlanSide | None, PlanSide]:
    """Read both commits, each as the units read it that it leaves."""
    from gitkruise.gitops.build.builder import ReadBefore  # noqa: PLC0415  as above
    from gitkruise.gitops.preview.brought_units import with_brought_units  # noqa: PLC0415  as above
    from gitkruise.gitops.preview.inputs import read_base, read_side  # noqa: PLC0415  as above

    rules, before = (config, catalog, gates), ReadBefore()
    start = read_base(repository, base, config, *rules, before=before) if base else None
    end = read_side(repository, head, *rules, before=before)
    return with_brought_units(repository, *rules, start, end, before=before)


def _with_approvals(
    after: PlanSide, repository: Repository, head: str, facts: ClusterFacts | None
) -> PlanSide:
    """Return the planned side with the deletions that its history approves: of live objects only.
    Raises SourceFailed."""
    from gitkruise.gitops.reconcile.approval import approvals  # noqa: PLC0415  seldom needed

    return after if facts is None else replace(after, approved=approvals(repository, head))


def errors_of(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings that are errors."""
    return tuple(f for f in findings if f.is_error)
