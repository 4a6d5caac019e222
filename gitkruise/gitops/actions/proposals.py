"""Commits that gitkruise itself proposes: computed, played ahead and proven as people's are."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from gitkruise.errors import InvalidManifests
from gitkruise.git.plumbing.commits import CommitAuthor, format_commit
from gitkruise.git.plumbing.refs import full_ref
from gitkruise.git.push.status_branch import edit_tree
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import (
    ActionArgs,
    ActionTarget,
    ActionVerb,
    FileEdit,
    act_message,
    compute,
)
from gitkruise.gitops.actions.hold import held_by
from gitkruise.gitops.actions.proof import check_outcome, check_reach
from gitkruise.gitops.actions.target import BranchState, ObjectQuery, find_target, read_branch
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.preview.inputs import PlanSide, read_side
from gitkruise.gitops.preview.preview import live_preview
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """An automatic action: verb, object, partition, and further lines of its commit."""

    verb: ActionVerb
    key: ObjectKey
    wish: ActionArgs
    trailers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A commit on top of `base` that no branch has yet."""

    commit: str
    base: str
    key: ObjectKey
    edit: FileEdit
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
    identity: CommitAuthor

    @property
    def ref(self) -> str:
        return full_ref(self.branch)

    async def propose(self, act: ActionRequest, tip: str) -> Proposal | None:
        """The commit that does it on top of `tip`; None when the branch is elsewhere by now.

        Raises UsageProblem GK704x when it makes no sense or would not end as asked, and
        InvalidManifests, SourceFailed and ApiError.
        """
        drafted = await asyncio.to_thread(self._draft, act, tip)
        if drafted is None:
            return None
        (base, after), target, edit = drafted
        preview = await live_preview(
            base,
            after,
            self.live.catalog,
            self.gates,
            transport=self.live.transport,
            now=self.clock.now(),
        )
        check_reach(edit, target, preview.changes)
        check_outcome(edit, target, preview)
        commit = after.commit
        return Proposal(commit=commit.id, base=tip, key=act.key, edit=edit, subject=commit.subject)

    def _draft(
        self, act: ActionRequest, tip: str
    ) -> tuple[tuple[PlanSide, PlanSide], ActionTarget, FileEdit] | None:
        repository = self.repository
        if repository.fetch(self.ref) != tip:
            return None
        state, target = self._target(act.key, tip)
        edit = compute(act.verb, repository, target, act.wish)
        tree = edit_tree(repository, repository.tree_id(tip), edit.files, [])
        message = act_message(edit, target, trailers=act.trailers)
        data = format_commit(tree, [tip], self.identity, self.clock.now(), message)
        commit = repository.write_object("commit", data)
        after = read_side(repository, commit, state.config, self.live.catalog, self.gates)
        errors = [f for f in after.findings if f.is_error]
        if errors:
            raise InvalidManifests(*errors)
        return (state.side, after), target, edit

    def _target(self, key: ObjectKey, tip: str) -> tuple[BranchState, ActionTarget]:
        state = read_branch(
            self.repository, self.branch, tip, self.config, self.live.catalog, self.gates
        )
        return find_target(
            [state], ObjectQuery(kind=key.group_kind, name=key.name, namespace=key.namespace)
        )

    def push(self, proposal: Proposal, onto: str = "") -> None:
        """Push it to the followed branch, or to a new one. Blocking; never forced.

        Raises RefMoved when another push was faster, SourceFailed when it is rejected.
        """
        ref, old = (full_ref(onto), None) if onto else (self.ref, proposal.base)
        self.repository.push_ref(ref, proposal.commit, old=old)

    def held_by(self, key: ObjectKey, commit: str) -> GitCommit | None:
        """The `gitkruise hold` that stops a promotion where it is at `commit`. Blocking."""
        self.repository.fetch(self.ref)
        _, target = self._target(key, commit)
        file, folder = target.desired.document.file, target.kustomized
        return held_by(self.repository, commit, target.key, file, folder)
