"""Two commits of a repository read for a plan, and the plan of one commit from git alone."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.context.charts import kept_charts
from gitkruise.errors import InvalidManifests, UsageProblem
from gitkruise.git.plumbing.refs import full_ref
from gitkruise.git.repository.merge import merged
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import ReadBefore
from gitkruise.gitops.preview.brought_units import with_brought_units
from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.inputs import (
    PlanSide,
    changed_outside,
    config_at,
    followed_branch,
    read_base,
    read_side,
    whole_repository,
)
from gitkruise.gitops.preview.preview import offline_preview
from gitkruise.gitops.preview.rejection import check_taken, taken_by_some
from gitkruise.gitops.preview.report import report_of
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.printable import visible

if TYPE_CHECKING:
    from gitkruise.gitops.build.untrusted import PagePart
    from gitkruise.gitops.notify.pull_request_plan import ProposedCommit
    from gitkruise.gitops.workers.frames import PlanPage
    from gitkruise.model.gitops.config import Config
    from gitkruise.wire.catalog.catalog import Catalog


def page_of_commit(path: str, commit: str, given: Config | None, asked: PagePart) -> PlanPage:
    """Return the plan of a commit against its first parent, as `plan COMMIT --offline` prints it,
    or its diff.

    `given` is a configuration that is not in the repository. Blocking. Raises InvalidManifests and
    SourceFailed.
    """
    with Repository.open(path) as repository:
        parents = repository.commit(commit).parents
        return page_between(repository, (parents[0] if parents else "", commit), given, asked)


def page_between(
    repository: Repository, ends: tuple[str, str], given: Config | None, asked: PagePart
) -> PlanPage:
    """Return the plan between two commits, as `plan --offline` prints it, or their diff.

    Blocking. Raises InvalidManifests and SourceFailed.
    """
    from gitkruise.gitops.workers.jobs import diff_of, page_of  # noqa: PLC0415  the model

    kept_charts()
    config, catalog, gates = given or config_between(repository, *ends), load_catalog(), Gates()
    base, target = read_sides(repository, ends, config, catalog, gates, given=given)
    if asked.diff:
        before = base.objects if base else ()
        return diff_of(changes_between(before, target.objects, catalog), asked.shown)
    preview = offline_preview(base, target, catalog, gates)
    return page_of(report_of(preview, base, target, shown=asked.shown))


def config_between(repository: Repository, old: str, new: str) -> Config:
    """Return the configuration at the newer of two commits, ids; where it has none, that at `old`.

    A controller keeps the units of a file that is removed. Raises InvalidManifests, UsageProblem
    for a broken one at `new`.
    """
    found = config_at(repository, new)
    if old and found == whole_repository():
        with suppress(InvalidManifests, UsageProblem):  # a plan says it of the base
            return config_at(repository, old)
    return found


def fetched_head(path: str, kind: str, place: str) -> str:
    """Fetch and return the head of a branch, or of a pull request (`pr`) by its number.

    Blocking. Raises SourceFailed.
    """
    from gitkruise.git.push.user_push import Publisher  # noqa: PLC0415  not needed by `plan`
    from gitkruise.gitops.forges.provider import MERGE_REQUEST_REF, PULL_REF  # noqa: PLC0415  aiohttp

    numbered = [ref.format(place) for ref in (PULL_REF, MERGE_REQUEST_REF)]
    refs = numbered if kind == "pr" else [full_ref(f"refs/heads/{place}")]
    return Publisher(Path(path), read_environment().variables).head_of(refs)


def proposed_commit(path: str, name: str, head: str, given: Config | None) -> ProposedCommit:
    """Return what a fetched head proposes: its merge into the branch that `plan` without arguments
    would take. Blocking. Raises SourceFailed, InvalidManifests."""
    import asyncio  # noqa: PLC0415  slow to import, and not needed by `plan`

    from gitkruise.gitops.notify.pull_request_plan import ProposedCommit  # noqa: PLC0415  the model

    with Repository.open(path) as repository:
        into, base = followed_branch(repository, given or config_at(repository, head), head)
        title = repository.commit(head).subject

    def planned(part: PagePart) -> PlanPage:
        with Repository.open(path) as repository:
            ends = (base, merged(repository, base, head)) if into else (base, head)
            return page_between(repository, ends, given, part)

    async def page(part: PagePart) -> PlanPage:
        return await asyncio.to_thread(planned, part)

    return ProposedCommit(
        name=visible(name), title=visible(title), url="", into=into, base=base, head=head,
        live=False, page=page,
    )  # fmt: skip


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

    The plan is of the units that take the second, the errors of the others are among its findings.
    Raises InvalidManifests when each unit rejects it.
    """
    (old, new), before = ends, ReadBefore()
    target = read_side(repository, new, config, catalog, gates, before=before)
    check_taken(target, target.rejected)  # a base may take a look at many earlier commits
    base = read_base(repository, old, given, config, catalog, gates, before=before) if old else None
    base, target = with_brought_units(
        repository, config, catalog, gates, base, target, before=before
    )
    if base is not None and given is None:
        units = [*base.everyone.values(), *target.everyone.values()]
        target = replace(target, outside=changed_outside(repository, old, new, units))
    return base, taken_by_some(base, target)
