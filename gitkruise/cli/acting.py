"""Acts through git: the edit is computed, played ahead, shown, and only then committed."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.asking import confirm_push
from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, connected
from gitkruise.cli.nouns import parse_object
from gitkruise.cli.output import API_VERSION, say, say_json, tell
from gitkruise.cli.style import Style
from gitkruise.errors import Finding, InvalidManifests, UsageProblem
from gitkruise.git.publish import Branch, Publisher
from gitkruise.git.repo import Repository
from gitkruise.git.status_branch import edit_tree
from gitkruise.git.worktree import commit_id
from gitkruise.gitops.acting import (
    Aim,
    Edit,
    Verb,
    Wish,
    act_message,
    check_outcome,
    check_reach,
    compute,
    earlier_stages,
)
from gitkruise.gitops.aiming import Sought, Stand, find_aim, read_stand, units_by_branch
from gitkruise.gitops.holding import action_of
from gitkruise.gitops.plan_report import report_of
from gitkruise.gitops.planning import config_at, read_side
from gitkruise.gitops.prospect import Preview, live_preview, offline_preview
from gitkruise.kube.data import load_catalog
from gitkruise.model.labels import CLONESET, SIDECARSET
from gitkruise.model.settings import Gates

if TYPE_CHECKING:
    from gitkruise.gitops.planning import Side
    from gitkruise.model.config import Config, Sink
    from gitkruise.model.report import PlanReport

_SECRET: Final = re.compile(rb"kind[\"']?\s*:\s*[\"']?Secret")
_GATES: Final = Gates()
_MOVED: Final = {"rollouts": CLONESET, "clonesets": CLONESET, "sidecarsets": SIDECARSET}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The command line of one act."""

    verb: str
    object_name: str
    to: str
    namespace: str
    unit: str
    repo: str
    config_path: Path | None
    directly: bool
    pr: bool
    branch: str
    message: str
    dry_run: bool
    yes: bool
    force: bool
    wait: bool
    timeout: str
    output: str
    cluster: ClusterChoice


@dataclass(frozen=True, slots=True, kw_only=True)
class _Draft:
    """A commit that no branch has yet, and what it would do."""

    asked: Asked
    aim: Aim
    edit: Edit
    base: Side
    target: Side
    branch: Branch
    onto: str  # a branch for a pull request, or ""
    earlier: str  # where that one is, when the same was asked before
    sink: Sink | None
    preview: Preview
    cluster: str
    diff: tuple[str, ...]

    @property
    def commit(self) -> str:
        return self.target.commit.id

    @property
    def report(self) -> PlanReport:
        return report_of(self.preview, self.base, self.target, cluster=self.cluster)


def act(asked: Asked) -> int:
    """Compute, show, ask, commit, push; the exit code."""
    publisher = Publisher(Path(asked.repo), read_environment().variables)
    with Repository.open(str(publisher.folder)) as repository:
        draft = asyncio.run(_draft(publisher, repository, asked))
        _show(draft)
        if asked.dry_run:
            return 0
        _confirm(draft)
        if draft.commit != draft.earlier:
            publisher.publish(draft.branch, draft.commit, onto=draft.onto, over=draft.earlier)
        pull = _proposed(draft, publisher, repository) if draft.onto else ("", "")
    _published(draft, pull)
    return _wait(draft) if asked.wait and not draft.onto else 0


async def _draft(publisher: Publisher, repository: Repository, asked: Asked) -> _Draft:
    branch, stand, aim = _aim(publisher, repository, asked)
    wish = await _wish(repository, aim, asked)
    edit = compute(Verb(asked.verb), repository, aim, wish)
    sink = stand.config.sink_of(aim.unit)
    onto = _onto(asked, aim, sink)
    earlier = _earlier(publisher, repository, asked, aim, (branch, onto)) if onto else ""
    commit = _commit((publisher, repository), asked, aim, edit, earlier)
    target = read_side(repository, commit, stand.config, load_catalog(), _GATES)
    errors = [f for f in target.findings if f.severity == "error"]
    if errors:
        raise InvalidManifests(*errors)
    preview, cluster = await _preview(repository, stand, aim, target, asked)
    check_reach(edit, aim, preview.changes)
    if not asked.force:
        check_outcome(edit, aim, preview)
    return _Draft(
        asked=asked,
        aim=aim,
        edit=edit,
        base=stand.side,
        target=target,
        branch=branch,
        onto=onto,
        earlier=earlier,
        sink=sink,
        preview=preview,
        cluster=cluster,
        diff=tuple(_diff(repository, aim, edit)),
    )


def _aim(publisher: Publisher, repository: Repository, asked: Asked) -> tuple[Branch, Stand, Aim]:
    wanted = parse_object(asked.object_name)
    kind = _MOVED.get(wanted.noun)
    if kind is None or not wanted.name:
        message = f"{asked.verb} is for cloneset/NAME and sidecarset/NAME"
        raise UsageProblem(Finding(code="GK7040", message=message))
    sought = Sought(kind=kind, name=wanted.name, namespace=asked.namespace, unit=asked.unit)
    default = publisher.current() or "main"
    rules = (load_catalog(), _GATES)
    branches: dict[str, Branch] = {}
    stands = []
    for name in units_by_branch(_config(repository, asked, "HEAD"), default):
        branches[name] = publisher.branch(name)
        tip = branches[name].tip
        there = units_by_branch(_config(repository, asked, tip), default).get(name)
        if there is not None:
            stands.append(read_stand(repository, name, tip, there, rules))
    stand, aim = find_aim(stands, sought)
    return branches[stand.branch], stand, aim


def _config(repository: Repository, asked: Asked, revision: str) -> Config:
    if asked.config_path is not None:
        from gitkruise.gitops.config import load_config  # noqa: PLC0415  only where it is given

        return load_config(asked.config_path)
    return config_at(repository, commit_id(repository.git_dir, revision))


async def _wish(repository: Repository, aim: Aim, asked: Asked) -> Wish:
    if asked.verb == Verb.ROLLBACK and asked.to:
        return Wish(to=commit_id(repository.git_dir, asked.to))
    if asked.verb != Verb.HOLD or asked.to:
        return Wish(to=asked.to)
    if not asked.cluster.given:
        from gitkruise.gitops.recorded import pods_to_go  # noqa: PLC0415

        return Wish(keep=pods_to_go(repository, asked.cluster.name, aim.key))
    from gitkruise.gitops.survey import Survey  # noqa: PLC0415  imports the schemas

    async with connected(asked.cluster, read_environment()) as chosen:
        kinds, space = (aim.key.group_kind,), aim.key.namespace
        survey = Survey(chosen.transport, load_catalog(), kinds, namespace=space)
        await survey.look()
        found = survey.managed(chosen.clock.now(), name=aim.key.name)
    rollouts = [m.rollout for m in found if m.key == aim.key and m.rollout]
    return Wish(keep=max(rollouts[0].replicas - rollouts[0].updated, 0) if rollouts else None)


def _earlier(
    publisher: Publisher, repository: Repository, asked: Asked, aim: Aim, to: tuple[Branch, str]
) -> str:
    """Where the branch is that the same act was proposed on before; "" without one.

    One that somebody else committed to, or that began elsewhere, is not ours to go on with.
    """
    branch, onto = to
    if asked.dry_run:
        return ""
    tip = publisher.beside(branch, onto)
    if not tip or not repository.is_ancestor(aim.commit, tip):
        return ""
    return tip if action_of(repository, tip, aim.key) == asked.verb else ""


def _commit(
    at: tuple[Publisher, Repository], asked: Asked, aim: Aim, edit: Edit, earlier: str
) -> str:
    """The commit that does it, on top of `earlier` if there is one; that itself, if it does."""
    from gitkruise.git.commits import Identity, format_commit  # noqa: PLC0415
    from gitkruise.kube.wall import wall_time  # noqa: PLC0415

    publisher, repository = at
    tree = edit_tree(repository, repository.tree_id(aim.commit), {edit.file: edit.data}, [])
    message = act_message(edit, aim, subject=asked.message)
    if earlier and (repository.tree_id(earlier), repository.message(earlier)) == (tree, message):
        return earlier
    if not asked.dry_run:
        return publisher.commit(tree, earlier or aim.commit, message)
    nobody = Identity(name="dry run", email="")  # nobody is asked who they are, nor for a key
    data = format_commit(tree, [aim.commit], nobody, wall_time(), message)
    return repository.write_object("commit", data)


async def _preview(
    repository: Repository, stand: Stand, aim: Aim, target: Side, asked: Asked
) -> tuple[Preview, str]:
    catalog = load_catalog()
    if not asked.cluster.given:
        stages = earlier_stages(repository, aim, stand.side.objects)
        made = offline_preview(stand.side, target, catalog, _GATES, earlier=stages)
        return made, ""
    async with connected(asked.cluster, read_environment()) as chosen:
        where = (chosen.transport, chosen.clock.now())
        made = await live_preview(where, stand.side, target, catalog, _GATES)
        return made, chosen.name


def _onto(asked: Asked, aim: Aim, sink: Sink | None) -> str:
    """The branch a pull request is made from; "" for a commit on the unit's own."""
    if asked.branch:
        return asked.branch
    forge = sink is not None and sink.spec.forge is not None
    if not asked.pr and (asked.directly or not forge):
        return ""
    return f"gitkruise/{asked.verb}-{aim.key.name}-{aim.commit[:7]}"


def _diff(repository: Repository, aim: Aim, edit: Edit) -> Iterator[str]:
    """A unified diff; next to Secrets without the lines around it."""
    entry = repository.find(aim.commit, edit.file)
    assert entry is not None
    old = repository.read_blob(entry.id)
    around = 0 if _SECRET.search(old) else 3
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (old, edit.data))
    names = (f"a/{edit.file}", f"b/{edit.file}")
    return difflib.unified_diff(before, after, *names, lineterm="", n=around)


# Showing ------------------------------------------------------------------------------------------


def _show(draft: _Draft) -> None:
    style = Style.of(read_environment())
    if draft.asked.output == "json":
        if draft.asked.dry_run:
            say_json(_action_obj(draft), style)
        return
    from gitkruise.cli.plan_text import plan_lines  # noqa: PLC0415

    paints = {"+": ["green"], "-": ["red"], "@": ["blue"]}
    for line in draft.diff:
        say(style.paint(line, *paints.get(line[:1], [])), style)
    if draft.diff:
        say("", style)
    say(plan_lines(draft.report, style), style)


def _confirm(draft: _Draft) -> None:
    """A push to a branch that is followed is asked about. Raises UsageProblem GK7045."""
    if not (draft.onto or draft.asked.yes):
        confirm_push(draft.branch.shown)


def _proposed(draft: _Draft, publisher: Publisher, repository: Repository) -> tuple[str, str]:
    """(its pull request, where to open one): addresses, as far as there is a forge."""
    from gitkruise.cli.proposing import Pushed, open_pull  # noqa: PLC0415  only with a forge
    from gitkruise.planner.sync.report_words import summary  # noqa: PLC0415

    def same_act(branch: str) -> bool:
        tip = publisher.beside(draft.branch, branch)
        return bool(tip) and action_of(repository, tip, draft.aim.key) == draft.asked.verb

    pushed = Pushed(
        branch=draft.onto,
        base=draft.branch.name,
        title=draft.target.commit.subject,
        body="\n\n".join(filter(None, [draft.edit.why, summary(draft.report)])),
        same_act=same_act,
    )
    return open_pull(pushed, draft.sink, draft.asked.cluster)


def _published(draft: _Draft, at: tuple[str, str]) -> None:
    """What was done, and what comes next."""
    pull, page = at
    if draft.asked.output == "json":
        say_json({**_action_obj(draft), "pullRequest": pull}, Style.of(read_environment()))
    style = Style.of_errors(read_environment())
    name, remote = draft.onto or draft.branch.name, draft.branch.remote
    pushed = f", pushed to {remote}" if remote else ""
    short = draft.target.commit.short
    tell(f"{style.paint('✓', 'green')} {short} on {name}{pushed}: {draft.target.commit.subject}")
    if pull:
        tell(f"  pull request: {pull}")
        tell("  next: merge it")
    elif draft.onto:
        where = f": {page}" if page else ""
        tell(f"  next: open a pull request from {name} into {draft.branch.name}{where}")
    elif not draft.asked.wait:
        tell(f"  next: {_waiting(draft)}")


def _waiting(draft: _Draft) -> str:
    return f"gitkruise wait {draft.aim.unit.id} --commit {draft.target.commit.short} --for held"


def _action_obj(draft: _Draft) -> dict[str, Any]:
    from gitkruise.gitops.plan_json import plan_obj  # noqa: PLC0415

    key, published = draft.aim.key, not draft.asked.dry_run
    return {
        "apiVersion": API_VERSION,
        "kind": "Action",
        "verb": draft.asked.verb,
        "object": {
            "group": key.group,
            "kind": key.kind,
            "namespace": key.namespace,
            "name": key.name,
        },
        "unit": draft.aim.unit.id,
        "branch": draft.onto or draft.branch.name,
        "base": draft.base.commit.id,
        "commit": draft.commit if published else "",
        "pushed": published,
        "remote": draft.branch.remote,
        "subject": draft.target.commit.subject,
        "file": draft.edit.file,
        "diff": "\n".join(draft.diff),
        "plan": plan_obj(draft.report),
    }


def _wait(draft: _Draft) -> int:
    from gitkruise.cli.waiting import Awaited, wait_for  # noqa: PLC0415

    asked = draft.asked
    awaited = Awaited(
        commit=draft.commit,
        goal="held",
        unit=draft.aim.unit.id,
        repo=asked.repo,
        config_path=asked.config_path,
        cluster=asked.cluster.name or draft.cluster,
        timeout=asked.timeout,
        output="text",
    )
    return wait_for(awaited)
