"""Commits that gitkruise itself proposes: computed, played ahead and proven as people's are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gitkruise.errors import InvalidManifests
from gitkruise.git.commits import Identity, format_commit
from gitkruise.git.refs import full_ref
from gitkruise.git.repo import Repository
from gitkruise.git.status_branch import edit_tree
from gitkruise.gitops.acting import (
    Aim,
    Edit,
    Verb,
    Wish,
    act_message,
    check_outcome,
    check_reach,
    compute,
)
from gitkruise.gitops.aiming import Sought, Stand, find_aim, read_stand
from gitkruise.gitops.holding import held_by
from gitkruise.gitops.live import LiveView
from gitkruise.gitops.planning import Side, read_side
from gitkruise.gitops.prospect import live_preview
from gitkruise.kube.clock import Clock
from gitkruise.model.config import Config
from gitkruise.model.document import Commit
from gitkruise.model.settings import Gates
from gitkruise.wire.names import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What is to be done: a verb, to what, how far, and what its commit says besides."""

    verb: Verb
    key: ObjectKey
    wish: Wish
    trailers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A commit on top of `base` that no branch has yet."""

    commit: str
    base: str
    key: ObjectKey
    edit: Edit
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposer:
    """Makes commits for one unit in the repository that may be written.

    `config` has the unit alone, `branch` is what its source follows.
    """

    repository: Repository
    branch: str
    config: Config
    live: LiveView
    gates: Gates
    clock: Clock
    identity: Identity

    @property
    def ref(self) -> str:
        return full_ref(self.branch)

    async def propose(self, act: Act, tip: str) -> Proposal | None:
        """The commit that does it on top of `tip`; None when the branch is elsewhere by now.

        Raises UsageProblem GK704x when it makes no sense or would not end as asked, and
        InvalidManifests, SourceFailed and ApiError.
        """
        drafted = await asyncio.to_thread(self._draft, act, tip)
        if drafted is None:
            return None
        (base, target), aim, edit = drafted
        where, catalog = (self.live.transport, self.clock.now()), self.live.catalog
        preview = await live_preview(where, base, target, catalog, self.gates)
        check_reach(edit, aim, preview.changes)
        check_outcome(edit, aim, preview)
        commit = target.commit
        return Proposal(commit=commit.id, base=tip, key=act.key, edit=edit, subject=commit.subject)

    def _draft(self, act: Act, tip: str) -> tuple[tuple[Side, Side], Aim, Edit] | None:
        repository = self.repository
        if repository.fetch(self.ref) != tip:
            return None
        stand, aim = self._aim(act.key, tip)
        edit = compute(act.verb, repository, aim, act.wish)
        tree = edit_tree(repository, repository.tree_id(tip), {edit.file: edit.data}, [])
        message = act_message(edit, aim, trailers=act.trailers)
        data = format_commit(tree, [tip], self.identity, self.clock.now(), message)
        commit = repository.write_object("commit", data)
        target = read_side(repository, commit, stand.config, self.live.catalog, self.gates)
        errors = [f for f in target.findings if f.severity == "error"]
        if errors:
            raise InvalidManifests(*errors)
        return (stand.side, target), aim, edit

    def _aim(self, key: ObjectKey, tip: str) -> tuple[Stand, Aim]:
        rules = (self.live.catalog, self.gates)
        stand = read_stand(self.repository, self.branch, tip, self.config, rules)
        return find_aim(
            [stand], Sought(kind=key.group_kind, name=key.name, namespace=key.namespace)
        )

    def push(self, proposal: Proposal, onto: str = "") -> None:
        """Put it on the branch that is followed, or on a new one. Blocking; never forced.

        Raises RefMoved when somebody was faster, SourceFailed when it is refused.
        """
        ref, old = (full_ref(onto), None) if onto else (self.ref, proposal.base)
        self.repository.push_ref(ref, proposal.commit, old=old)

    def held_by(self, key: ObjectKey, commit: str) -> Commit | None:
        """The `gitkruise hold` that stops a promotion where it is at `commit`. Blocking."""
        self.repository.fetch(self.ref)
        _, aim = self._aim(key, commit)
        return held_by(self.repository, commit, aim.key, aim.desired.document.file)
