"""Two commits of a repository read for a plan, and the plan of one commit from git alone."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.gitops.preview.inputs import PlanSide, config_at, read_base, read_side
from gitkruise.model.workloads.feature_gates import Gates

if TYPE_CHECKING:
    from gitkruise.git.repository.repository import Repository
    from gitkruise.model.gitops.change import ObjectChange
    from gitkruise.model.gitops.config import Config
    from gitkruise.model.gitops.report import PlanReport
    from gitkruise.wire.catalog.catalog import Catalog
    from gitkruise.wire.primitives.names import ObjectKey


def plan_of_commit(
    path: str, commit: str, given: Config | None, shown: Set[ObjectKey] | None = None
) -> PlanReport:
    """Return the plan of a commit against its first parent, as `plan COMMIT --offline` prints it.

    `given` is a configuration that is not in the repository. With `shown` the plan is about those
    objects only. Blocking. Raises InvalidManifests and
    SourceFailed.
    """
    from gitkruise.gitops.preview.preview import offline_preview  # noqa: PLC0415  imports the model
    from gitkruise.gitops.preview.report import report_of  # noqa: PLC0415  imports the model
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    base, target = _sides_of_commit(path, commit, given)
    preview = offline_preview(base, target, load_catalog(), Gates())
    return report_of(preview, base, target, shown=shown)


def changes_of_commit(path: str, commit: str, given: Config | None) -> Sequence[ObjectChange]:
    """Return the changes of objects between a commit and its first parent, by git alone.

    Blocking. Raises InvalidManifests and SourceFailed.
    """
    from gitkruise.gitops.preview.changes import changes_between  # noqa: PLC0415  the model
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    base, target = _sides_of_commit(path, commit, given)
    return changes_between(base.objects if base else (), target.objects, load_catalog())


def _sides_of_commit(
    path: str, commit: str, given: Config | None
) -> tuple[PlanSide | None, PlanSide]:
    from gitkruise.cli.context.charts import kept_charts  # noqa: PLC0415  only for plans
    from gitkruise.git.repository.repository import Repository  # noqa: PLC0415  imports GitPython
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    kept_charts()
    with Repository.open(path) as repository:
        parents = repository.commit(commit).parents
        config = given or config_at(repository, commit)
        ends = (parents[0] if parents else "", commit)
        return read_sides(repository, ends, config, load_catalog(), Gates(), given=given)


def read_sides(
    repository: Repository,
    ends: tuple[str, str],
    config: Config,
    catalog: Catalog,
    gates: Gates,
    *,
    given: Config | None,
) -> tuple[PlanSide | None, PlanSide]:
    """Read both ends of a plan, ids of commits; the first is "" for none.

    Raises InvalidManifests when the second is invalid.
    """
    old, new = ends
    target = read_side(repository, new, config, catalog, gates)
    errors = [f for f in target.findings if f.is_error]
    if errors:
        raise InvalidManifests(*map(_unplanned, errors))
    return read_base(repository, old, given, config, catalog, gates) if old else None, target


def _unplanned(finding: Finding) -> Finding:
    """Add the notes `unchanged` and `next` where the finding lacks them."""
    labels = dict(finding.notes)
    notes = list(finding.notes)
    if "unchanged" not in labels:
        end = next((i for i, (label, _) in enumerate(notes) if label == "next"), len(notes))
        notes.insert(end, ("unchanged", "nothing was planned, and a plan applies nothing"))
    if "next" not in labels and finding.places:
        notes.append(("next", f"gitkruise validate {finding.places[0].file}"))
    return replace(finding, notes=tuple(notes))
