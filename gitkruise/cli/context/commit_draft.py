"""Drafts of commits for users: made and previewed, shown, confirmed, pushed, and waited for."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json, say_on_stderr
from gitkruise.cli.console.signals import result_of
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, connected, units_of_cluster
from gitkruise.cli.context.confirm import confirm_push
from gitkruise.cli.context.next_commands import joined, lines_carrying
from gitkruise.cli.context.wait import WaitOptions, wait_for
from gitkruise.cli.views.plan import plan_lines
from gitkruise.errors import NothingToDo
from gitkruise.git.edit.edit_diff import edit_diff
from gitkruise.git.plumbing.commits import NOTED_ACTIONS, closing_trailers
from gitkruise.git.push.status_branch import edit_tree
from gitkruise.git.push.user_push import Branch, Publisher
from gitkruise.git.repository.mirror import local_folder
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.target import DRY_RUN, BranchState, commit_over, read_branch
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.preview.inputs import (
    PlanSide,
    base_of,
    config_at,
    config_here,
    name_in_config,
    read_side,
    units_by_branch,
)
from gitkruise.gitops.preview.preview import Preview, live_preview, offline_preview
from gitkruise.gitops.preview.rejection import taken_by
from gitkruise.gitops.preview.render_json import plan_obj
from gitkruise.gitops.preview.report import report_of
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.kube.system.wall_clock import wall_time
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.notify.comment import plain
from gitkruise.planner.report.report_text import summary

if TYPE_CHECKING:
    from gitkruise.model.gitops.config import Config, Sink, Unit
    from gitkruise.model.gitops.document import Desired
    from gitkruise.model.gitops.report import PlanReport
    from gitkruise.wire.catalog.catalog import Catalog

GATES: Final = Gates()
_SQUASHED: Final = (
    "If you squash it, keep the lines that begin with Gitkruise- in the message: "
    "gitkruise reads there that it is a {verb}."
)
DraftMaker: TypeAlias = "Callable[[Publisher, Repository], Coroutine[Any, Any, CommitDraft]]"
EarlierStages: TypeAlias = "Callable[[Sequence[Desired]], tuple[tuple[Desired, ...], ...]]"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOptions:
    """The options that every command has that commits."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitContent:
    """An edit of one unit: what is written, and how it is named.

    `branch` names the default branch of a pull request, below gitkruise/. `details` are further
    keys of the JSON document; `same_action` returns whether a commit, by its id, is of the same
    action on the same object.
    """

    verb: str
    unit: Unit
    files: Mapping[str, bytes]
    message: str
    why: str
    branch: str
    details: Mapping[str, Any]
    same_action: Callable[[str], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitDraft:
    """A commit that is on no branch yet, and its preview."""

    options: CommitOptions
    content: CommitContent
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


@contextmanager
def publishing(repo: str) -> Iterator[tuple[Publisher, Repository]]:
    """Give what commits to a checkout or a bare repository, and the repository."""
    publisher = Publisher(local_folder(repo), read_environment().variables)
    with Repository.open(str(publisher.folder)) as repository:
        yield publisher, repository


def commit(options: CommitOptions, verb: str, draft: DraftMaker) -> int:
    """Make a draft, show, confirm, commit and push it; return the exit code."""
    with publishing(options.repo) as (publisher, repository):
        try:
            made = result_of(draft(publisher, repository))
        except NothingToDo as nothing:
            _print_nothing(options, verb, nothing)
            return 0
        _deliver(made, publisher)
    return _wait(made) if options.wait and not (made.onto or options.dry_run) else 0


def _deliver(draft: CommitDraft, publisher: Publisher) -> None:
    """Show, confirm and push a draft; a dry run only shows it."""
    _show(draft)
    if draft.options.dry_run:
        return
    _confirm(draft)
    if draft.commit != draft.earlier:
        publisher.publish(draft.branch, draft.commit, onto=draft.onto, over=draft.earlier)
    pull, page = _proposed(draft, publisher) if draft.onto else ("", "")
    _print_result(draft, pull, page)


# Making -------------------------------------------------------------------------------------------


async def drafted(
    publisher: Publisher, repository: Repository, options: CommitOptions, content: CommitContent,
    *, branch: Branch, state: BranchState, earlier: EarlierStages,
) -> CommitDraft:  # fmt: skip
    """Return the draft of a commit on top of `state`, with its preview.

    `earlier` returns objects of the past, which a preview without a cluster plays before. Raises
    InvalidManifests, and whatever a cluster answers.
    """
    sink = state.config.sink_of(content.unit)
    onto = _branch_onto(options, content, sink)
    if branch.unready is not None and not (onto or options.dry_run):
        raise branch.unready
    tip = state.side.commit.id
    reused = bool(onto) and not options.dry_run
    before = _earlier_tip(publisher, repository, content, tip, branch, onto) if reused else ""
    made = _side_after(publisher, repository, state, options, content, before)
    rules = (state.config, state.catalog, GATES)
    base = base_of(repository, state.side, *rules, before=state.before)
    after = taken_by(content.unit, base, made)
    preview, cluster = await _preview(base, after, options.cluster, earlier)
    return CommitDraft(
        options=options,
        content=content,
        base=base,
        after=after,
        branch=branch,
        onto=onto,
        earlier=before,
        sink=sink,
        preview=preview,
        cluster=cluster,
        diff=tuple(edit_diff(repository, tip, content.files)),
    )


async def given_config(repository: Repository, options: CommitOptions) -> Config | None:
    """The configuration that is not in the repository: a file, or objects of the cluster."""
    head = repository.named("HEAD")
    if options.config_path is None:
        return await units_of_cluster(options.cluster, repository, head)
    return config_here(repository, head, load_config(options.config_path))


def config_of(repository: Repository, given: Config | None, revision: str) -> Config:
    return given or config_at(repository, repository.named(revision))


def branch_states(
    publisher: Publisher, repository: Repository, config: Config, given: Config | None,
    catalog: Catalog,
) -> Iterator[tuple[Branch, BranchState]]:  # fmt: skip
    """Yield the branches that units of `config`, that of HEAD, follow, each with its units."""
    default = publisher.current() or "main"
    for name in units_by_branch(config, default):
        branch = publisher.branch(name)
        there = units_by_branch(config_of(repository, given, branch.tip), default).get(name)
        if there is not None:
            state = read_branch(repository, name, branch.tip, there, catalog, GATES)
            yield branch, state


def _earlier_tip(
    publisher: Publisher, repository: Repository, content: CommitContent, tip: str,
    branch: Branch, onto: str,
) -> str:  # fmt: skip
    """Return the tip of the branch on which the same action was proposed before, or "".

    A branch with commits of others, or with another base, is not reused.
    """
    there = publisher.beside(branch, onto)
    if not there or not repository.is_ancestor(tip, there):
        return ""
    return there if content.same_action(there) else ""


def _side_after(
    publisher: Publisher, repository: Repository, state: BranchState, options: CommitOptions,
    content: CommitContent, earlier: str,
) -> PlanSide:  # fmt: skip
    """Create the commit, on top of `earlier` if there is one, and read it; `earlier` is taken if it
    is the same."""
    tip, message = state.side.commit.id, content.message
    tree = edit_tree(repository, repository.tree_id(tip), content.files, [])
    if earlier and (repository.tree_id(earlier), repository.message(earlier)) == (tree, message):
        commit = earlier
    elif options.dry_run:
        # Needs neither an identity of git nor a signing key.
        commit = commit_over(
            repository, tip, content.files, message, author=DRY_RUN, now=wall_time()
        )
    else:
        commit = publisher.commit(tree, earlier or tip, message)
    rules = (state.config, state.catalog, GATES)
    return read_side(repository, commit, *rules, before=state.before)


async def _preview(
    base: PlanSide, after: PlanSide, choice: ClusterChoice,
    earlier: EarlierStages,
) -> tuple[Preview, str]:  # fmt: skip
    """Return the preview, and the name of the cluster or ""."""
    catalog = load_catalog()
    if not choice.given:
        return offline_preview(base, after, catalog, GATES, earlier=earlier(base.objects)), ""
    async with connected(choice, read_environment()) as chosen:
        made = await live_preview(
            base, after, catalog, GATES, transport=chosen.transport, now=chosen.clock.now()
        )
        return made, chosen.name


def _branch_onto(options: CommitOptions, content: CommitContent, sink: Sink | None) -> str:
    """Return the branch for a pull request; "" for a commit on the unit's own branch."""
    if options.branch:
        return options.branch
    forge = sink is not None and sink.spec.forge is not None
    if not options.pr and (options.directly or not forge):
        return ""
    return f"gitkruise/{content.branch}"


# Showing ------------------------------------------------------------------------------------------


def _show(draft: CommitDraft) -> None:
    style = Style.of(read_environment())
    if draft.options.output == "json":
        if draft.options.dry_run:
            say_json(_action_obj(draft), style)
        return

    paints = {"+": ["green"], "-": ["red"], "@": ["blue"]}
    for line in draft.diff:
        say(style.paint(line.expandtabs(4), *paints.get(line[:1], [])), style)
    if draft.diff:
        say("", style)
    options = draft.options
    again = joined(options.cluster.flags, repo=options.repo, config_path=options.config_path)
    say(lines_carrying(plan_lines(draft.report, style), again), style)


def _confirm(draft: CommitDraft) -> None:
    """Ask before a push to a followed branch. Raises UsageProblem GK7045."""
    if not (draft.onto or draft.options.yes):
        confirm_push(draft.branch.shown)


def _proposed(draft: CommitDraft, publisher: Publisher) -> tuple[str, str]:
    """Open the pull request, if there is a forge; return (its URL, URL of the page to open it)."""
    from gitkruise.cli.context.pull_request import Pushed, open_pull  # noqa: PLC0415  only with a forge

    def same_action(branch: str) -> bool:
        tip = publisher.beside(draft.branch, branch)
        return bool(tip) and draft.content.same_action(tip)

    content = draft.content
    words = [content.why, summary(draft.report)]
    if content.verb in NOTED_ACTIONS:
        words.append(_SQUASHED.format(verb=content.verb))
    texts = [*map(plain, filter(None, words)), closing_trailers(content.message)]
    pushed = Pushed(
        branch=draft.onto,
        base=draft.branch.name,
        title=draft.after.commit.subject,
        body="\n\n".join(filter(None, texts)),
        same_action=same_action,
    )
    return open_pull(pushed, draft.sink, draft.options.cluster)


def _print_nothing(options: CommitOptions, verb: str, nothing: NothingToDo) -> None:
    """Print that git asks for it already."""
    message = nothing.findings[0].message
    if options.output == "json":
        document = {"apiVersion": API_VERSION, "kind": "Action", "verb": verb,
                    "commit": "", "pushed": False, "message": message}  # fmt: skip
        say_json(document, Style.of(read_environment()))
        return
    say_on_stderr(f"{Style.of_errors(read_environment()).paint('✓', 'green')} {message}")


def _print_result(draft: CommitDraft, pull: str, page: str) -> None:
    """Print the commit, its pull request and the next step."""
    if draft.options.output == "json":
        say_json({**_action_obj(draft), "pullRequest": pull}, Style.of(read_environment()))
    style = Style.of_errors(read_environment())
    name, remote = draft.onto or draft.branch.name, draft.branch.remote
    pushed = f", pushed to {remote}" if remote else ""
    short = draft.after.commit.short
    say_on_stderr(
        f"{style.paint('✓', 'green')} {short} on {name}{pushed}: {draft.after.commit.subject}"
    )
    if pull:
        say_on_stderr(f"  pull request: {pull}")
        say_on_stderr("  next: merge it")
    elif draft.onto:
        where = f": {page}" if page else ""
        say_on_stderr(f"  next: open a pull request from {name} into {draft.branch.name}{where}")
    elif not draft.options.wait:
        say_on_stderr(f"  next: {_waiting(draft)}")


def _waiting(draft: CommitDraft) -> str:
    options, cluster = draft.options, draft.options.cluster.name or draft.cluster
    named = f"--cluster {shlex.quote(cluster)}" if cluster else ""
    again = joined(named, repo=options.repo, config_path=options.config_path)
    unit = name_in_config(draft.content.unit)
    wait = f"gitkruise wait{' ' * bool(unit)}{unit} --commit {draft.after.commit.short} --for held"
    return f"{wait} {again}".rstrip()


def _action_obj(draft: CommitDraft) -> dict[str, Any]:
    published = not draft.options.dry_run
    return {
        "apiVersion": API_VERSION,
        "kind": "Action",
        "verb": draft.content.verb,
        **draft.content.details,
        "unit": name_in_config(draft.content.unit),
        "branch": draft.onto or draft.branch.name,
        "base": draft.base.commit.id,
        "commit": draft.commit if published else "",
        "pushed": published,
        "remote": draft.branch.remote,
        "subject": draft.after.commit.subject,
        "diff": "\n".join(draft.diff),
        "plan": plan_obj(draft.report),
    }


def _wait(draft: CommitDraft) -> int:
    options = draft.options
    awaited = WaitOptions(
        commit=draft.commit,
        goal="held",
        unit=name_in_config(draft.content.unit),
        repo=options.repo,
        config_path=options.config_path,
        cluster=options.cluster.name or draft.cluster,
        timeout=options.timeout,
        output="text",
    )
    return wait_for(awaited)
