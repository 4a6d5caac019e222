"""Actions through git: the edit is computed, simulated, shown, and only then committed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.signals import result_of
from gitkruise.cli.context.charts import fetch_charts
from gitkruise.cli.context.cluster import connected, kinds_with
from gitkruise.cli.context.commit_draft import (
    CommitContent,
    CommitDraft,
    CommitOptions,
    branch_states,
    commit,
    config_of,
    drafted,
    given_config,
    publishing,
)
from gitkruise.cli.context.local_repository import fetch_records
from gitkruise.cli.context.resource_args import named_workload
from gitkruise.errors import Finding, UsageProblem
from gitkruise.git.edit.edit_diff import edit_diff
from gitkruise.git.push.user_push import Publisher
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import (
    LIVE_SETTINGS,
    ActionArgs,
    ActionTarget,
    ActionVerb,
    FileEdit,
    act_message,
    compute,
)
from gitkruise.gitops.actions.hold import same_action
from gitkruise.gitops.actions.proof import check_outcome, check_reach, earlier_stages
from gitkruise.gitops.actions.target import ObjectQuery, check_in_git, find_target
from gitkruise.gitops.runtime.foreseen_edits import ForeseenEdit
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.rollout_kinds import ROLLING_KINDS
from gitkruise.planner.report.rollout_steps import failed_commits
from gitkruise.wire.primitives.names import noun

if TYPE_CHECKING:
    from gitkruise.gitops.status.reader import PodsToGo


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOptions(CommitOptions):
    """The command line of one action."""

    verb: str
    object_name: str
    namespace: str
    unit: str
    to: str = ""  # a commit, for a rollback
    partition: str = ""
    updated: str = ""


def act(options: ActionOptions) -> int:
    """Compute, show, confirm, commit and push; return the exit code."""
    return commit(options, options.verb, partial(_draft, options))


def foreseen(options: ActionOptions) -> ForeseenEdit:
    """Return the edit of an action and its preview, for a page. Nothing is pushed.

    Blocking. Raises NothingToDo where git asks for it already, and GitkruiseError.
    """
    with publishing(options.repo) as (publisher, repository):
        draft = result_of(_draft(options, publisher, repository))
        tip, files = draft.after.commit.parents[0], draft.content.files
        bare = tuple(edit_diff(repository, tip, files, context=0))
    return ForeseenEdit(
        diff=draft.diff, changed_lines=bare, base=draft.base, after=draft.after,
        preview=draft.preview, cluster=draft.cluster,
    )  # fmt: skip


async def _draft(
    options: ActionOptions, publisher: Publisher, repository: Repository
) -> CommitDraft:
    query = query_of(options.verb, options.object_name, options.namespace, options.unit)
    given = await given_config(repository, options)
    config = config_of(repository, given, "HEAD")
    check_in_git(config, query)
    old = await fetch_charts(config, options.cluster if options.cluster.given else None)
    kinds = await kinds_with(options.cluster)
    branches = [*branch_states(publisher, repository, config, given, kinds)]
    state, target = find_target([state for _, state in branches], query)
    args = await _action_args(repository, target, options)
    edit = compute(ActionVerb(options.verb), repository, target, args)
    draft = await drafted(
        publisher, repository, options, _content(repository, options, target, edit),
        branch=next(branch for branch, one in branches if one is state), state=state,
        earlier=lambda objects: earlier_stages(repository, target, objects),
    )  # fmt: skip
    draft = replace(draft, base=replace(draft.base, warnings=(*old, *draft.base.warnings)))
    check_reach(edit, target, draft.base.objects, draft.after.objects, load_catalog())
    if not options.force:
        check_outcome(edit, target, draft.preview)
    return draft


def _content(
    repository: Repository, options: ActionOptions, target: ActionTarget, edit: FileEdit
) -> CommitContent:
    key = target.key
    return CommitContent(
        verb=options.verb,
        unit=target.unit,
        files=edit.files,
        message=act_message(edit, target, subject=options.message),
        why=edit.why,
        branch=f"{options.verb}-{key.name}-{target.commit[:7]}",
        details={"object": key._asdict(), "file": edit.file},
        same_action=lambda commit: same_action(repository, commit, key, options.verb, edit.files),
    )  # fmt: skip


def query_of(verb: str, object_name: str, namespace: str, unit: str = "") -> ObjectQuery:
    """Return the object that a command line names. Raises UsageProblem GK7040."""
    kind, name = named_workload(object_name)
    if kind not in ROLLING_KINDS or not name:
        known = ", ".join(sorted(noun(kind) for kind in ROLLING_KINDS))
        raise UsageProblem(
            Finding(
                code="GK7040",
                message=f"{verb} requires TYPE/NAME, such as cloneset/NAME or deployment/NAME",
                notes=(("known", known),),
            )
        )
    return ObjectQuery(kind=kind, name=name, namespace=namespace, unit=unit)


async def _action_args(
    repository: Repository, target: ActionTarget, options: ActionOptions
) -> ActionArgs:
    if options.verb == ActionVerb.ROLLBACK:
        return _way_back(repository, target, options)
    given = ActionArgs(partition=options.partition, updated=options.updated)
    if options.verb in LIVE_SETTINGS and options.cluster.given:
        return given.over(await _now(target, options))
    if options.verb != ActionVerb.HOLD or options.partition or options.updated:
        return given
    if not options.cluster.given:
        from gitkruise.gitops.status.reader import pods_to_go  # noqa: PLC0415

        fetch_records(options.repo, options.cluster.name)
        left = pods_to_go(repository, options.cluster.name, target.key)
    else:
        left = await _now(target, options)
    return ActionArgs.keeping(left)


def _way_back(repository: Repository, target: ActionTarget, options: ActionOptions) -> ActionArgs:
    """Return the commit to go back to, otherwise those to step over: a template that failed in any
    cluster has failed, unless one is named."""
    from gitkruise.gitops.status.reader import status_branches, steps_of  # noqa: PLC0415

    if options.to:
        return ActionArgs(to=repository.named(options.to))
    named = options.cluster.name
    fetch_records(options.repo, named)
    names = [named] if named else sorted(status_branches(repository))
    recorded = (steps_of(repository, name, target.key) for name in names)
    return ActionArgs(failed=tuple(id_ for steps in recorded for id_ in failed_commits(steps)))


async def _now(target: ActionTarget, options: ActionOptions) -> PodsToGo | None:
    from gitkruise.gitops.inspect.cluster_view import pods_now  # noqa: PLC0415  the schemas

    async with connected(options.cluster, read_environment()) as chosen:
        now = chosen.clock.now()
        return await pods_now(chosen.transport, load_catalog(), target.key, now)
