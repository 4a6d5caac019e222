"""Actions through git: the edit is computed, simulated, shown, and only then committed."""

from __future__ import annotations

import asyncio
import difflib
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json, tell
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.charts import fetch_charts
from gitkruise.cli.context.cluster import ClusterChoice, connected, units_of_cluster
from gitkruise.cli.context.confirm import confirm_push
from gitkruise.cli.context.local_repository import fetch_records
from gitkruise.cli.context.next_commands import joined, lines_carrying
from gitkruise.cli.context.resource_args import parse_object
from gitkruise.errors import Finding, InvalidManifests, NothingToDo, UsageProblem
from gitkruise.git.plumbing.commits import CommitAuthor, format_commit
from gitkruise.git.push.status_branch import edit_tree
from gitkruise.git.push.user_push import Branch, Publisher
from gitkruise.git.push.worktree import commit_id
from gitkruise.git.repository.mirror import local_folder
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import (
    ActionArgs,
    ActionTarget,
    ActionVerb,
    FileEdit,
    act_message,
    compute,
)
from gitkruise.gitops.actions.hold import action_of
from gitkruise.gitops.actions.proof import check_outcome, check_reach, earlier_stages
from gitkruise.gitops.actions.target import (
    BranchState,
    ObjectQuery,
    find_target,
    read_branch,
)
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.inputs import (
    base_of,
    config_at,
    name_in_config,
    read_side,
    units_by_branch,
)
from gitkruise.gitops.preview.preview import Preview, live_preview, offline_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    SIDECARSET,
    STATEFULSET,
)

if TYPE_CHECKING:
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.model.gitops.config import Config, Sink
    from gitkruise.model.gitops.report import PlanReport

_SECRET: Final = re.compile(rb"kind[\"']?\s*:\s*[\"']?Secret")
_GATES: Final = Gates()
_MOVED: Final = {
    "rollouts": CLONESET,
    "clonesets": CLONESET,
    "sidecarsets": SIDECARSET,
    "deployments": DEPLOYMENT,
    "statefulsets": STATEFULSET,
    "advancedstatefulsets": ADVANCED_STATEFULSET,
    "daemonsets": DAEMONSET,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionOptions:
    """The command line of one action."""

    verb: str
    object_name: str
    namespace: str
    unit: str
    repo: str
    config_path: Path | None
    cluster: ClusterChoice
    dry_run: bool
    directly: bool = False
    pr: bool = False
    branch: str = ""
    message: str = ""
    yes: bool = False
    force: bool = False
    wait: bool = False
    timeout: str = ""
    output: str = "text"
    to: str = ""  # a commit, for a rollback
    partition: str = ""
    updated: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _CommitDraft:
    """A commit that is on no branch yet, and its preview."""

    options: ActionOptions
    target: ActionTarget
    edit: FileEdit
    base: PlanSide
    after: PlanSide
    branch: Branch
    onto: str  # branch for a pull request, or ""
    earlier: str  # its tip, if the same action was proposed before
    sink: Sink | None
    preview: Preview
    cluster: str
    diff: tuple[str, ...]

    @property
    def commit(self) -> str:
        return self.after.commit.id

    @property
    def report(self) -> PlanReport:
        return report_of(self.preview, self.base, self.after, cluster=self.cluster)


def act(options: ActionOptions) -> int:
    """Compute, show, confirm, commit and push; return the exit code."""
    publisher = Publisher(local_folder(options.repo), read_environment().variables)
    with Repository.open(str(publisher.folder)) as repository:
        try:
            draft = asyncio.run(_draft(publisher, repository, options))
        except NothingToDo as nothing:
            _print_nothing(options, nothing)
            return 0
        _show(draft)
        if options.dry_run:
            return 0
        _confirm(draft)
        if draft.commit != draft.earlier:
            publisher.publish(draft.branch, draft.commit, onto=draft.onto, over=draft.earlier)
        pull, page = _proposed(draft, publisher, repository) if draft.onto else ("", "")
    _print_result(draft, pull, page)
    return _wait(draft) if options.wait and not draft.onto else 0


def foreseen(options: ActionOptions) -> dict[str, Any]:
    """Return the edit of an action and its plan, as the document of a page. Nothing is pushed.

    {"message"} where git asks for it already. Blocking. Raises GitkruiseError.
    """
    from gitkruise.cli.views.plan_page import plan_document  # noqa: PLC0415  only for pages

    publisher = Publisher(local_folder(options.repo), read_environment().variables)
    with Repository.open(str(publisher.folder)) as repository:
        try:
            draft = asyncio.run(_draft(publisher, repository, options))
        except NothingToDo as nothing:
            return {"message": nothing.findings[0].message}
        return {"diff": list(draft.diff), "plan": plan_document(draft.report)}


async def _draft(
    publisher: Publisher, repository: Repository, options: ActionOptions
) -> _CommitDraft:
    query = _query(options)
    given = await _given(repository, options)
    config = _config(repository, given, "HEAD")
    old = await fetch_charts(config, options.cluster if options.cluster.given else None)
    branch, state, target = _target(publisher, repository, query, config, given)
    args = await _action_args(repository, target, options)
    edit = compute(ActionVerb(options.verb), repository, target, args)
    sink = state.config.sink_of(target.unit)
    onto = _onto(options, target, sink)
    earlier = (
        _earlier(publisher, repository, options, target, branch=branch, onto=onto) if onto else ""
    )
    commit = _commit(publisher, repository, options, target, edit=edit, earlier=earlier)
    after = read_side(repository, commit, state.config, load_catalog(), _GATES)
    errors = [f for f in after.findings if f.is_error]
    if errors:
        raise InvalidManifests(*errors)
    base = base_of(repository, state.side, state.config, load_catalog(), _GATES)
    base = replace(base, warnings=(*old, *base.warnings))
    preview, cluster = await _preview(repository, target, base, after, options)
    # By git alone: the cluster may have the value already.
    check_reach(edit, target, changes_between(base.objects, after.objects, load_catalog()))
    if not options.force:
        check_outcome(edit, target, preview)
    return _CommitDraft(
        options=options,
        target=target,
        edit=edit,
        base=base,
        after=after,
        branch=branch,
        onto=onto,
        earlier=earlier,
        sink=sink,
        preview=preview,
        cluster=cluster,
        diff=tuple(_diff(repository, target, edit)),
    )


def _query(options: ActionOptions) -> ObjectQuery:
    wanted = parse_object(options.object_name)
    kind = _MOVED.get(wanted.noun)
    if kind is None or not wanted.name:
        message = f"{options.verb} requires TYPE/NAME, such as cloneset/NAME or deployment/NAME"
        raise UsageProblem(Finding(code="GK7040", message=message))
    return ObjectQuery(kind=kind, name=wanted.name, namespace=options.namespace, unit=options.unit)


def _target(
    publisher: Publisher, repository: Repository, query: ObjectQuery, config: Config,
    given: Config | None,
) -> tuple[Branch, BranchState, ActionTarget]:  # fmt: skip
    """Find the object on the branches that units of `config`, that of HEAD, follow."""
    default = publisher.current() or "main"
    catalog = load_catalog()
    branches: dict[str, Branch] = {}
    states = []
    for name in units_by_branch(config, default):
        branches[name] = publisher.branch(name)
        tip = branches[name].tip
        there = units_by_branch(_config(repository, given, tip), default).get(name)
        if there is not None:
            states.append(read_branch(repository, name, tip, there, catalog, _GATES))
    state, target = find_target(states, query)
    return branches[state.branch], state, target


async def _given(repository: Repository, options: ActionOptions) -> Config | None:
    """The configuration that is not in the repository: a file, or objects of the cluster."""
    if options.config_path is None:
        head = commit_id(repository.git_dir, "HEAD")
        return await units_of_cluster(options.cluster, repository, head)

    return load_config(options.config_path)


def _config(repository: Repository, given: Config | None, revision: str) -> Config:
    return given or config_at(repository, commit_id(repository.git_dir, revision))


async def _action_args(
    repository: Repository, target: ActionTarget, options: ActionOptions
) -> ActionArgs:
    if options.verb == ActionVerb.ROLLBACK and options.to:
        return ActionArgs(to=commit_id(repository.git_dir, options.to))
    if options.verb != ActionVerb.HOLD or options.partition or options.updated:
        return ActionArgs(partition=options.partition, updated=options.updated)
    if not options.cluster.given:
        from gitkruise.gitops.status.reader import pods_to_go  # noqa: PLC0415

        fetch_records(options.repo, options.cluster.name)
        left = pods_to_go(repository, options.cluster.name, target.key)
        return ActionArgs() if left is None else ActionArgs(keep=left.to_go, pods=left.replicas)
    from gitkruise.gitops.inspect.cluster_view import Survey  # noqa: PLC0415  imports the schemas

    async with connected(options.cluster, read_environment()) as chosen:
        kinds, space = (target.key.group_kind,), target.key.namespace
        survey = Survey(chosen.transport, load_catalog(), kinds, namespace=space)
        await survey.look()
        found = survey.managed(chosen.clock.now(), name=target.key.name)
    rollouts = [m.rollout for m in found if m.key == target.key and m.rollout]
    if not rollouts:
        return ActionArgs()
    replicas = rollouts[0].replicas
    return ActionArgs(keep=max(replicas - rollouts[0].updated, 0), pods=replicas)


def _earlier(
    publisher: Publisher,
    repository: Repository,
    options: ActionOptions,
    target: ActionTarget,
    *,
    branch: Branch,
    onto: str,
) -> str:
    """Return the tip of the branch on which the same action was proposed before, or "".

    A branch with commits of others, or with another base, is not reused.
    """
    if options.dry_run:
        return ""
    tip = publisher.beside(branch, onto)
    if not tip or not repository.is_ancestor(target.commit, tip):
        return ""
    return tip if action_of(repository, tip, target.key) == options.verb else ""


def _commit(
    publisher: Publisher,
    repository: Repository,
    options: ActionOptions,
    target: ActionTarget,
    *,
    edit: FileEdit,
    earlier: str,
) -> str:
    """Create the commit, on top of `earlier` if there is one; return that if it is the same."""
    from gitkruise.kube.system.wall_clock import wall_time  # noqa: PLC0415

    tree = edit_tree(repository, repository.tree_id(target.commit), edit.files, [])
    message = act_message(edit, target, subject=options.message)
    if earlier and (repository.tree_id(earlier), repository.message(earlier)) == (tree, message):
        return earlier
    if not options.dry_run:
        return publisher.commit(tree, earlier or target.commit, message)
    # A dry run must not fail for lack of a git identity, nor ask for a signing key.
    author = CommitAuthor(name="dry run", email="")
    data = format_commit(tree, [target.commit], author, wall_time(), message)
    return repository.write_object("commit", data)


async def _preview(
    repository: Repository,
    target: ActionTarget,
    base: PlanSide,
    after: PlanSide,
    options: ActionOptions,
) -> tuple[Preview, str]:
    catalog = load_catalog()
    if not options.cluster.given:
        stages = earlier_stages(repository, target, base.objects)
        made = offline_preview(base, after, catalog, _GATES, earlier=stages)
        return made, ""
    async with connected(options.cluster, read_environment()) as chosen:
        made = await live_preview(
            base, after, catalog, _GATES, transport=chosen.transport, now=chosen.clock.now()
        )
        return made, chosen.name


def _onto(options: ActionOptions, target: ActionTarget, sink: Sink | None) -> str:
    """Return the branch for a pull request; "" for a commit on the unit's own branch."""
    if options.branch:
        return options.branch
    forge = sink is not None and sink.spec.forge is not None
    if not options.pr and (options.directly or not forge):
        return ""
    return f"gitkruise/{options.verb}-{target.key.name}-{target.commit[:7]}"


def _diff(repository: Repository, target: ActionTarget, edit: FileEdit) -> Iterator[str]:
    """Return a unified diff, without context lines in a file that contains Secrets."""
    for file, data in edit.files.items():
        entry = repository.find(target.commit, file)
        assert entry is not None
        old = repository.read_blob(entry.id)
        context = 0 if _SECRET.search(old) else 3
        before, after = (each.decode("utf-8", "replace").splitlines() for each in (old, data))
        names = (f"a/{file}", f"b/{file}")
        yield from difflib.unified_diff(before, after, *names, lineterm="", n=context)


# Showing ------------------------------------------------------------------------------------------


def _show(draft: _CommitDraft) -> None:
    style = Style.of(read_environment())
    if draft.options.output == "json":
        if draft.options.dry_run:
            say_json(_action_obj(draft), style)
        return
    from gitkruise.cli.views.plan import plan_lines  # noqa: PLC0415

    paints = {"+": ["green"], "-": ["red"], "@": ["blue"]}
    for line in draft.diff:
        say(style.paint(line.expandtabs(4), *paints.get(line[:1], [])), style)
    if draft.diff:
        say("", style)
    options = draft.options
    again = joined(options.cluster.flags, repo=options.repo, config_path=options.config_path)
    say(lines_carrying(plan_lines(draft.report, style), again), style)


def _confirm(draft: _CommitDraft) -> None:
    """Ask before a push to a followed branch. Raises UsageProblem GK7045."""
    if not (draft.onto or draft.options.yes):
        confirm_push(draft.branch.shown)


def _proposed(draft: _CommitDraft, publisher: Publisher, repository: Repository) -> tuple[str, str]:
    """Open the pull request, if there is a forge; return (its URL, URL of the page to open it)."""
    from gitkruise.cli.context.pull_request import Pushed, open_pull  # noqa: PLC0415  only with a forge
    from gitkruise.planner.report.report_text import summary  # noqa: PLC0415

    def same_action(branch: str) -> bool:
        tip = publisher.beside(draft.branch, branch)
        return bool(tip) and action_of(repository, tip, draft.target.key) == draft.options.verb

    pushed = Pushed(
        branch=draft.onto,
        base=draft.branch.name,
        title=draft.after.commit.subject,
        body="\n\n".join(filter(None, [draft.edit.why, summary(draft.report)])),
        same_action=same_action,
    )
    return open_pull(pushed, draft.sink, draft.options.cluster)


def _print_nothing(options: ActionOptions, nothing: NothingToDo) -> None:
    """Print that git asks for it already."""
    message = nothing.findings[0].message
    if options.output == "json":
        document = {"apiVersion": API_VERSION, "kind": "Action", "verb": options.verb,
                    "commit": "", "pushed": False, "message": message}  # fmt: skip
        say_json(document, Style.of(read_environment()))
        return
    tell(f"{Style.of_errors(read_environment()).paint('✓', 'green')} {message}")


def _print_result(draft: _CommitDraft, pull: str, page: str) -> None:
    """Print the commit, its pull request and the next step."""
    if draft.options.output == "json":
        say_json({**_action_obj(draft), "pullRequest": pull}, Style.of(read_environment()))
    style = Style.of_errors(read_environment())
    name, remote = draft.onto or draft.branch.name, draft.branch.remote
    pushed = f", pushed to {remote}" if remote else ""
    short = draft.after.commit.short
    tell(f"{style.paint('✓', 'green')} {short} on {name}{pushed}: {draft.after.commit.subject}")
    if pull:
        tell(f"  pull request: {pull}")
        tell("  next: merge it")
    elif draft.onto:
        where = f": {page}" if page else ""
        tell(f"  next: open a pull request from {name} into {draft.branch.name}{where}")
    elif not draft.options.wait:
        tell(f"  next: {_waiting(draft)}")


def _waiting(draft: _CommitDraft) -> str:
    options, cluster = draft.options, draft.options.cluster.name or draft.cluster
    named = f"--cluster {shlex.quote(cluster)}" if cluster else ""
    again = joined(named, repo=options.repo, config_path=options.config_path)
    unit = name_in_config(draft.target.unit)
    wait = f"gitkruise wait{' ' * bool(unit)}{unit} --commit {draft.after.commit.short} --for held"
    return f"{wait} {again}".rstrip()


def _action_obj(draft: _CommitDraft) -> dict[str, Any]:
    from gitkruise.gitops.preview.render_json import plan_obj  # noqa: PLC0415

    key, published = draft.target.key, not draft.options.dry_run
    return {
        "apiVersion": API_VERSION,
        "kind": "Action",
        "verb": draft.options.verb,
        "object": {
            "group": key.group,
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
        },
        "unit": name_in_config(draft.target.unit),
        "branch": draft.onto or draft.branch.name,
        "base": draft.base.commit.id,
        "commit": draft.commit if published else "",
        "pushed": published,
        "remote": draft.branch.remote,
        "subject": draft.after.commit.subject,
        "file": draft.edit.file,
        "diff": "\n".join(draft.diff),
        "plan": plan_obj(draft.report),
    }


def _wait(draft: _CommitDraft) -> int:
    from gitkruise.cli.context.wait import WaitOptions, wait_for  # noqa: PLC0415

    options = draft.options
    awaited = WaitOptions(
        commit=draft.commit,
        goal="held",
        unit=name_in_config(draft.target.unit),
        repo=options.repo,
        config_path=options.config_path,
        cluster=options.cluster.name or draft.cluster,
        timeout=options.timeout,
        output="text",
    )
    return wait_for(awaited)
