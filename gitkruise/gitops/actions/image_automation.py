"""Newer images of a unit, written to git by `gitkruise run` as commits or pull requests.

Nothing is remembered: git has the tags, registries have the others, and a pull request is known by
the name of its branch, which stays the same for newer tags.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

from gitkruise.errors import (
    ApiError,
    DiagnosticError,
    Finding,
    InvalidManifests,
    NothingToDo,
    RefMissing,
    Severity,
    UsageProblem,
)
from gitkruise.git.plumbing.errors import RefMoved
from gitkruise.gitops.actions.image_update import updates_images_of
from gitkruise.gitops.actions.loop import error_line, keep_looking
from gitkruise.gitops.actions.proposals import ImageProposal, Proposer
from gitkruise.gitops.actions.pull_requests import ActionPullRequests
from gitkruise.gitops.build.builder import BuiltCommit
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.images.references import references_to
from gitkruise.gitops.images.survey import ImageState
from gitkruise.gitops.images.tags import SeenTags, TagReader
from gitkruise.gitops.reconcile.interventions import COMPONENT
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.kube.client.events import Subject
from gitkruise.model.gitops.config import Unit, duration
from gitkruise.model.gitops.image_policy import FollowedImage
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.planning.plan import Event
from gitkruise.planner.notify.comment import plain
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time

log = logging.getLogger(__name__)
BRANCHES: Final = "images"  # of pull requests that propose newer images
CODE: Final = "GK3508"
_CHANNEL: Final = "images"
_BUSY: Final = timedelta(seconds=1)  # while the unit has a commit to read
_LOOK: Final = timedelta(seconds=30)  # while the branch has a commit that the unit does not take
_MOVED_S: Final = 1.0
_FAILED_S: Final = 5.0
_LEAST_S: Final = 1e-3  # a part of a microsecond would be no pause


class Built(Protocol):
    """The part of UnitReconciler that image automation reads."""

    built: BuiltCommit | None


@dataclass(slots=True)
class _Registry:
    """An image as its registry showed it last."""

    image: FollowedImage
    due: float = 0.0  # of the monotonic clock
    seen: SeenTags | None = None
    silent_since: datetime | None = None
    error: Finding | None = None


class _Note(NamedTuple):
    """Reason for which a newer image is not written, and what people can do."""

    text: str
    next: str
    why: str = ""


@dataclass(slots=True)
class _Delivered:
    """The inputs of the last delivery: the commit, and the references that were to be written."""

    of: tuple[str, tuple[str, ...]] = ("", ())
    note: _Note | None = None


class ImageUpdater:
    """Writes newer images of one unit to git."""

    def __init__(
        self,
        following: Built,
        reporter: Reporter,
        proposer: Proposer,
        *,
        pull_requests: ActionPullRequests | None,
        reader: TagReader,
        branch: str,
        has_news: Callable[[str], bool],
        containment: Containment = UNREPORTED,
    ) -> None:
        """`branch` is that of pull requests; `reader` reads for the unit."""
        unit = reader.unit
        self._unit, self._following, self._reporter = unit, following, reporter
        self._proposer, self._pull_requests, self._reader = proposer, pull_requests, reader
        self._branch, self._has_news = branch, has_news
        self._clock, self._containment = proposer.clock, containment
        self._registries = [_Registry(i) for i in unit.spec.images if i.write != "none"]
        self._delivered = {"commit": _Delivered(), "pullRequest": _Delivered()}
        self._problem: _Note | None = None
        self._seen_commit = ""
        self._wake = asyncio.Event()
        reporter.listen(self._reported)

    async def run(self) -> None:
        """Until cancelled."""
        await keep_looking(
            self._looked, self._failed, self._wake, self._clock,
            seed=self._unit.id, containment=self._containment, part="image updates",
        )  # fmt: skip

    def _reported(self, _: UnitRecord) -> None:
        built = self._following.built
        if built is not None and built.commit.id != self._seen_commit:
            self._wake.set()

    async def _looked(self) -> timedelta | None:
        pause = await self.look()
        self._problem = None
        self._reporter.remark(_CHANNEL, self._finding())
        return pause

    def _failed(self, error: RefMoved | DiagnosticError | ApiError) -> float:
        if isinstance(error, RefMoved):
            return _MOVED_S  # what was pushed meanwhile is looked at first
        text, following = "newer images cannot be written; it is tried again", ""
        if isinstance(error, DiagnosticError):
            following = dict(error.findings[0].notes).get("next", "")
        self._problem = _Note(text, following or f"{self._by_hand} --print", error_line(error))
        self._reporter.remark(_CHANNEL, self._finding())
        return _FAILED_S

    async def look(self) -> timedelta | None:
        """Ask the registries that are due, and write newer tags; how long nothing is to be done
        without news."""
        if self._unit.spec.suspended(self._clock.now()) is not None:
            return _LOOK
        now = self._clock.monotonic()
        async with asyncio.TaskGroup() as asking:
            for registry in self._registries:
                if now >= registry.due:
                    asking.create_task(self._ask(registry))
        built = self._following.built
        if built is None or built.desired is None or self._has_news(self._unit.id):
            return _BUSY
        self._seen_commit = built.commit.id
        for write in ("commit", "pullRequest"):
            if not await self._write(write, built):
                return _LOOK
        left = min(registry.due for registry in self._registries) - self._clock.monotonic()
        return timedelta(seconds=max(left, _LEAST_S))

    async def _ask(self, registry: _Registry) -> None:
        registry.due = self._clock.monotonic() + duration(registry.image.interval).total_seconds()
        try:
            registry.seen = await self._reader.read(registry.image)
        except DiagnosticError as error:
            if registry.silent_since is None:
                registry.silent_since = self._clock.now()
                log.warning(log_line("tags-not-read", unit=self._unit.id, error=error))
            registry.error = error.findings[0]
        else:
            registry.silent_since = registry.error = None

    async def _write(self, write: str, built: BuiltCommit) -> bool:
        """Write what is due by one way; return False while the branch has a commit that the unit
        has not read, or while it has news."""
        states = self._states(write, built)
        tags, chosen = _newer(states)
        if not tags and any(state.seen is None for state in states):
            self._delivered[write] = _Delivered()
            return True  # what an open pull request proposes may still be chosen
        commit = built.commit.id
        if self._delivered[write].of == (commit, chosen):
            return True
        deliver = self._commit if write == "commit" else self._offer
        made: _Delivered | None = _Delivered()
        try:
            if tags:
                made = await deliver(tags, commit)
            elif write == "pullRequest":
                await self._withdraw(states)
        except NothingToDo as nothing:
            why = nothing.findings[0].message
            if write == "pullRequest":
                await self._withdraw(states, why)
            made = _Delivered(note=_Note(why, self._by_hand))
        except (InvalidManifests, UsageProblem) as error:
            note = _Note(
                "newer images cannot be written", f"{self._by_hand} --print", error_line(error)
            )
            self._delivered[write] = _Delivered(note=note)
            return True  # it is tried again with the registries
        if made is None:
            return False
        made.of = (commit, chosen)
        self._delivered[write] = made
        return True

    def _states(self, write: str, built: BuiltCommit) -> list[ImageState]:
        assert built.desired is not None
        objects = built.desired.objects
        return [
            ImageState(
                unit=self._unit, image=image, seen=registry.seen,
                references=tuple(references_to(image.repository, objects)),
            )
            for registry in self._registries
            if (image := registry.image).write == write
        ]  # fmt: skip

    async def _commit(self, tags: Mapping[str, SeenTags], tip: str) -> _Delivered | None:
        proposal = await self._proposer.propose_images(self._unit, tags, tip)
        if proposal is None or self._has_news(self._unit.id):
            return None
        await asyncio.to_thread(self._proposer.push, proposal)
        self._report("ImagesCommitted", proposal, proposal.commit[:7])
        return _Delivered()

    async def _offer(self, tags: Mapping[str, SeenTags], tip: str) -> _Delivered | None:
        """Propose the tags by the pull request of the branch."""
        assert self._pull_requests is not None, "checked"
        over = await asyncio.to_thread(self._head)
        if over is None:
            text = f"a user pushed to {self._branch}"
            return _Delivered(note=_Note(text, "merge that branch, or delete it"))
        pull = await self._pull_requests.found(self._branch)
        proposal = await self._proposer.propose_images(self._unit, tags, tip, over)
        if proposal is None or self._has_news(self._unit.id):
            return None
        same = proposal.commit == over or (pull is not None and pull.title == proposal.subject)
        refused = pull is not None and pull.state == "closed" and pull.title != self._withdrawal
        if pull is not None and refused and same:
            text = f"pull request #{pull.number}, which proposed {proposal.subject}, was closed"
            return _Delivered(note=_Note(text, self._by_hand))
        body = "\n".join(f"- {plain(str(one))}" for one in proposal.update.images)
        body += (
            "\n\nMerge it to roll them out; close it to keep what git has. It is updated when a "
        )
        body += "registry has a newer tag."
        known = pull is not None and pull.state == "open" and proposal.commit == over
        pull = await self._pull_requests.put(self._branch, proposal, body, over=over, pull=pull)
        if not known:
            self._report("ImagesProposed", proposal, pull.url)
        return _Delivered()

    async def _withdraw(self, states: Iterable[ImageState], why: str = "") -> None:
        """Close the open pull request: it proposes tags that git has, or that are no longer chosen.

        Its title says so, because one that a user closed is not opened again.
        """
        if self._pull_requests is None or not await asyncio.to_thread(self._head):
            return
        pull = await self._pull_requests.found(self._branch)
        if pull is None or pull.state != "open":
            return
        reasons = [*map(_compared, states), *([why] if why else ())]
        body = "Withdrawn, because there is no newer image to propose:\n"
        body += "".join(f"\n- {plain(reason)}" for reason in reasons)
        await self._pull_requests.withdraw(pull, self._withdrawal, body)
        log.info(log_line("ImagesWithdrawn", unit=self._unit.id, where=pull.url))

    @property
    def _withdrawal(self) -> str:
        return f"{self._unit.name}: no newer images"

    def _head(self) -> str | None:
        """Return the head of our branch, "" without one; None if it has a commit of others."""
        repository = self._proposer.repository
        try:
            head = repository.fetch(f"refs/heads/{self._branch}")
        except RefMissing:
            return ""
        return head if updates_images_of(repository, head, self._unit) else None

    # Reporting ------------------------------------------------------------------------------

    def _report(self, reason: str, proposal: ImageProposal, where: str) -> None:
        """Log a commit or pull request, and record an Event at each object that it changes."""
        unit, live = self._unit.id, self._proposer.live
        log.info(log_line(reason, unit=unit, subject=proposal.subject, where=where))
        for key in proposal.update.fields:
            obj = live.store.get(key)
            if obj is None:
                continue
            _, version = split_api_version(str(obj["apiVersion"]))
            uid = str(get(obj, "metadata", "uid", default=""))
            text = f"unit {unit}: {proposal.subject}: {where}"
            subject = Subject(key=key, version=version, uid=uid)
            live.events.record(subject, Event("Normal", reason, text), COMPONENT)

    def _finding(self) -> Finding | None:
        notes = list(self._notes())
        if not notes:
            return None
        first, *others = notes
        return Finding(
            code=CODE,
            message=f"images: {first.text}",
            severity=Severity.WARNING,
            notes=(
                *((("why", first.why),) if first.why else ()),
                *(("also", other.text) for other in others),
                ("unchanged", "what runs stays as git asks for it"),
                ("next", first.next),
            ),
        )

    def _notes(self) -> Iterator[_Note]:
        if self._problem is not None:
            yield self._problem
        for registry in self._registries:
            if registry.error is not None and registry.silent_since is not None:
                since, error = format_time(registry.silent_since), registry.error
                what = f"the tags of {registry.image.repository} have not been readable"
                following = dict(error.notes)["next"]
                yield _Note(f"{what} since {since}", following, f"{error.code}: {error.message}")
        for delivered in self._delivered.values():
            if delivered.note is not None:
                yield delivered.note

    @property
    def _by_hand(self) -> str:
        return f"gitkruise images {self._unit.id} --update"


def _newer(states: Iterable[ImageState]) -> tuple[dict[str, SeenTags], tuple[str, ...]]:
    """Return the tags of images with newer ones than git has, and the new references."""
    found: dict[str, SeenTags] = {}
    chosen: list[str] = []
    for state in states:
        if state.seen is not None and state.due:
            found[state.image.repository] = state.seen
            chosen += (text for _, text in state.due)
    return found, tuple(chosen)


def _compared(state: ImageState) -> str:
    current = ", ".join(tag or "no tag" for tag in state.current) or "no reference to it"
    chosen = state.chosen
    policy = f"chooses {chosen.tag}" if chosen.tag else f"chooses none: {chosen.why}"
    return f"{state.image.repository}: git has {current}; the policy {policy}"


def image_branch(cluster: str, unit: Unit) -> str:
    """Return the branch of pull requests with newer images of a unit, as this cluster has it."""
    return f"gitkruise/{BRANCHES}/{cluster}/{unit.id}"
