"""Commits that gitkruise itself proposes: computed, played ahead and proven as people's are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from gitkruise.git.plumbing.commits import CommitAuthor
from gitkruise.git.plumbing.refs import full_ref
from gitkruise.git.push.worktree import move_branch
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
from gitkruise.gitops.actions.image_update import ImageUpdate, compute_update, not_taken_back
from gitkruise.gitops.actions.proof import (
    check_images,
    check_outcome,
    check_reached,
)
from gitkruise.gitops.actions.target import (
    BranchState,
    ObjectQuery,
    commit_over,
    find_target,
    read_branch,
    readers_of,
)
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.images.references import references_to
from gitkruise.gitops.images.survey import ImageState
from gitkruise.gitops.images.tags import SeenTags
from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.inputs import PlanSide, read_side
from gitkruise.gitops.preview.preview import Preview, live_preview
from gitkruise.gitops.preview.rejection import taken_by
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.change import ObjectChange
from gitkruise.model.gitops.config import Config, Unit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import ObjectKey


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionRequest:
    """An automatic action: verb, object, partition, and further lines of its commit."""

    verb: ActionVerb
    key: ObjectKey
    args: ActionArgs
    trailers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A commit on top of `base` that no branch has yet."""

    commit: str
    base: str
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionProposal(Proposal):
    """The commit of an action on one object."""

    key: ObjectKey
    edit: FileEdit


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageProposal(Proposal):
    """The commit of newer images of a unit."""

    update: ImageUpdate


async def _unchanged() -> None:
    """Keep credentials and keys as they are."""


def _none() -> Config:
    return Config({}, {}, {})


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposer:
    """Makes commits for one unit in the repository that may be written.

    `config` has the unit alone, `branch` is what its source follows, and `others` returns the
    other units of the branch. `renew` re-reads what commits are signed and pushed with before each
    of them.
    """

    repository: Repository
    branch: str
    config: Config
    live: LiveView
    gates: Gates
    clock: Clock
    identity: CommitAuthor
    renew: Callable[[], Awaitable[None]] = _unchanged
    others: Callable[[], Config] = _none

    @property
    def ref(self) -> str:
        return full_ref(self.branch)

    async def propose(self, act: ActionRequest, tip: str) -> ActionProposal | None:
        """The commit that does it on top of `tip`; None when the branch is elsewhere by now.

        Raises UsageProblem GK704x when it makes no sense or would not end as asked, and
        InvalidManifests, SourceFailed and ApiError.
        """
        await self.renew()
        drafted = await asyncio.to_thread(self._draft, act, tip)
        if drafted is None:
            return None
        (base, after), target, edit = drafted
        preview = await self._preview(base, after)
        changes = await asyncio.to_thread(self._changes, base, after, edit.files)
        check_reached(edit.file, {target.key: edit.fields}, target.unit, changes)
        check_outcome(edit, target, preview)
        commit = after.commit
        return ActionProposal(
            commit=commit.id, base=tip, key=act.key, edit=edit, subject=commit.subject
        )

    async def propose_images(
        self, unit: Unit, tags: Mapping[str, SeenTags], tip: str, over: str = ""
    ) -> ImageProposal | None:
        """The commit of the newer ones of `tags`, by repository, on top of `tip`; None when the
        branch is elsewhere by now.

        On top of `over`, a commit of an earlier proposal, the branch of that can be moved to it; it
        is `over` itself if that says and does the same. A tag that was written before and taken
        back is not written again. Raises NothingToDo GK7041, and as `propose`.
        """
        await self.renew()
        drafted = await asyncio.to_thread(self._draft_images, unit, tags, tip, over)
        if drafted is None:
            return None
        base, after, update = drafted
        if after is not None:
            preview = await self._preview(base, after)
            changes = await asyncio.to_thread(self._changes, base, after, update.files)
            check_reached(next(iter(update.files)), update.fields, unit, changes)
            check_images(update, preview)
        commit = after.commit.id if after is not None else over
        return ImageProposal(commit=commit, base=tip, subject=update.subject, update=update)

    def _changes(
        self, base: PlanSide, after: PlanSide, files: Collection[str]
    ) -> Sequence[ObjectChange]:
        """Return what the commit of `files` changes, also in other units that read these."""
        repository, catalog, others = self.repository, self.live.catalog, self.others()
        tip = base.commit.id
        units = readers_of(repository, tip, others.units, files)
        config = Config(others.sources, units, others.sinks)
        before, then = (
            [*side.objects, *read_side(repository, commit, config, catalog, self.gates).objects]
            for side, commit in ((base, tip), (after, after.commit.id))
        )
        return changes_between(before, then, catalog)

    async def _preview(self, base: PlanSide, after: PlanSide) -> Preview:
        live = self.live
        return await live_preview(
            base, after, live.catalog, self.gates, transport=live.transport, now=self.clock.now()
        )

    def _draft(
        self, act: ActionRequest, tip: str
    ) -> tuple[tuple[PlanSide, PlanSide], ActionTarget, FileEdit] | None:
        repository = self.repository
        if repository.fetch(self.ref) != tip:
            return None
        state, target = self._target(act.key, tip)
        edit = compute(act.verb, repository, target, act.args)
        message = act_message(edit, target, trailers=act.trailers)
        after = self._committed(state, target.unit, edit.files, message, [tip])
        return (state.side, after), target, edit

    def _draft_images(
        self, unit: Unit, tags: Mapping[str, SeenTags], tip: str, over: str
    ) -> tuple[PlanSide, PlanSide | None, ImageUpdate] | None:
        """Return both sides, the second one None where `over` has the update already."""
        repository = self.repository
        if repository.fetch(self.ref) != tip:
            return None
        state = self._state(tip)
        states = [
            ImageState(
                unit=unit,
                image=image,
                references=tuple(references_to(image.repository, state.side.objects)),
                seen=tags[image.repository],
            )
            for image in unit.spec.images
            if image.repository in tags
        ]
        update = compute_update(repository, tip, unit, not_taken_back(repository, tip, states))
        message = update.message()
        earlier = repository.message(over).strip() if over else ""
        if earlier == message and self._has(over, update.files):
            return state.side, None, update
        parents = [tip]
        if over and not repository.is_ancestor(over, tip):
            parents = [over] if repository.is_ancestor(tip, over) else [over, tip]
        after = self._committed(state, unit, update.files, message, parents)
        return state.side, after, update

    def _has(self, commit: str, files: Mapping[str, bytes]) -> bool:
        """Return whether a commit has files with these contents."""
        entries = {file: self.repository.find(commit, file) for file in files}
        return all(
            entry is not None and self.repository.read_blob(entry.id) == files[file]
            for file, entry in entries.items()
        )

    def _committed(
        self, state: BranchState, unit: Unit, files: Mapping[str, bytes], message: str,
        parents: Sequence[str],
    ) -> PlanSide:  # fmt: skip
        """Write the commit, and read it. Raises InvalidManifests."""
        repository = self.repository
        commit = commit_over(
            repository, state.side.commit.id, files, message,
            author=self.identity, now=self.clock.now(), parents=parents,
        )  # fmt: skip
        after = read_side(
            repository, commit, state.config, self.live.catalog, self.gates, before=state.before
        )
        return taken_by(unit, state.side, after)

    def _state(self, tip: str) -> BranchState:
        return read_branch(
            self.repository, self.branch, tip, self.config, self.live.catalog, self.gates
        )

    def _target(self, key: ObjectKey, tip: str) -> tuple[BranchState, ActionTarget]:
        return find_target(
            [self._state(tip)],
            ObjectQuery(kind=key.group_kind, name=key.name, namespace=key.namespace),
        )

    def push(self, proposal: Proposal, onto: str = "", over: str = "") -> None:
        """Push it to the followed branch, or to another one: a new one, or one that is at `over`.
        Blocking; never forced.

        Raises RefMoved when another push was faster, SourceFailed when it is rejected, or the
        branch is checked out with changes.
        """
        ref, old = (full_ref(onto), over or None) if onto else (self.ref, proposal.base)
        move_branch(self.repository, ref, proposal.commit, old=old)

    def stopped_by(self, key: ObjectKey, commit: str) -> str:
        """Return why users do not want a promotion to go on from `commit`; "" if they do. Blocking.

        A pause is read in git: a workload that is at its canary is Held, paused or not.
        """
        self.repository.fetch(self.ref)
        _, target = self._target(key, commit)
        if target.strategy("paused"):
            return "git has paused: true"
        file, folder = target.desired.document.file, target.kustomized
        held = held_by(self.repository, commit, target.key, file, folder)
        return f"{held.author} holds it there by {held.short}" if held is not None else ""
