"""The NodeImage of this node: a task per tag to pull, and one writer of the status.

An image that is pulled for a while is noted before the pull, and removed when its time is over.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from gitkruise.agent.cri.calls import RuntimeCallFailed
from gitkruise.agent.cri.runtime import Runtime
from gitkruise.agent.rounds import Rounds
from gitkruise.errors import ApiError
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.events import Recorder, Subject
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.node.node_image import NODE_IMAGE, NodeImage, SecretRef, node_image
from gitkruise.model.node.wire_shapes import VERSION, OwnerRef
from gitkruise.planner.node.image_removal import (
    PULLED_IMAGES,
    Fate,
    fate,
    names,
    pulled_images,
    removal_event,
    removed_later,
    unwanted,
)
from gitkruise.planner.node.pull_agent import (
    Attempt,
    GiveUp,
    Pause,
    PullRun,
    PullTask,
    agent_status,
    begun,
    given_up,
    held,
    next_move,
    not_pulled,
    open_tasks,
    pulled,
    result_event,
    sandbox_settings,
    timed_out,
)
from gitkruise.planner.node.pull_credentials import (
    BadSecretError,
    Credentials,
    credentials_for,
)
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj, ObjectKey, split_api_version
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef, merge_request

NODE_IMAGES: Final = ResourceRef(NODE_IMAGE.group, VERSION, "nodeimages")
AGAIN: Final = timedelta(minutes=1)  # while a container uses the image
SECRETS: Final = ResourceRef("", "v1", "secrets")
COMPONENT: Final = "kruise-daemon-imagepuller"
WRITE_EVERY: Final = timedelta(milliseconds=500)  # tags that end together share a write
WITHOUT_LIMIT: Final = 1_000_000  # pulls at the same time
log: Final = logging.getLogger(__name__)


class PullFailed(Exception):
    """An attempt without success; its text is the message of the tag."""


def node_image_feed(node: str) -> Feed:
    """The NodeImage of `node`."""
    return Feed(ref=NODE_IMAGES, kind=NODE_IMAGE.kind, field_selector=f"metadata.name={node}")


@dataclass(slots=True)
class PullAgent:
    """Pulls what the NodeImage `node` in `store` names; at most `most` images at the same time."""

    node: str
    store: InformerCache
    transport: Transport
    runtime: Runtime
    recorder: Recorder
    clock: Clock
    most: int = 0  # 0: without limit
    _runs: dict[PullTask, PullRun] = field(default_factory=dict)
    _workers: dict[PullTask, asyncio.Task[None]] = field(default_factory=dict)
    _pulls: asyncio.TaskGroup = field(default_factory=asyncio.TaskGroup)
    _slots: asyncio.Semaphore = field(init=False)
    _rounds: Rounds = field(init=False)
    _removal: ImageRemoval = field(init=False)

    def __post_init__(self) -> None:
        self._slots = asyncio.Semaphore(self.most or WITHOUT_LIMIT)
        self._removal = ImageRemoval(self.store, self.transport, self.runtime, self.clock)
        self._rounds = Rounds(
            self.store, self.clock, NODE_IMAGE, self._look, event="pull-status-failed"
        )

    async def run(self) -> None:
        """Until cancelled; once."""
        async with self._pulls:
            await self._rounds.run()

    @property
    def _key(self) -> ObjectKey:
        return ObjectKey(*NODE_IMAGE, "", self.node)

    async def _look(self, key: ObjectKey) -> datetime | None:
        """Start and cancel pulls as the spec asks, and report."""
        raw = self.store.get(key)
        if raw is None:
            self._keep(frozenset())
            return None
        try:
            wanted = node_image(raw)
        except msgspec.ValidationError as error:
            log.warning(log_line("node-image-unreadable", node=self.node, error=error))
            return None
        tasks = open_tasks(wanted)
        self._keep(tasks.keys())
        raw = await self._removal.note(raw, wanted, tasks.keys() - self._runs.keys())
        for task, tag in tasks.items():
            if task not in self._runs:
                self._runs[task] = PullRun(wanted=tag)
                self._workers[task] = self._pulls.create_task(self._pull(task))
        if await self._report(raw, agent_status(wanted, self._runs)):
            await self.clock.sleep(WRITE_EVERY.total_seconds())
            return None  # the write is a change, and so brings the next look
        gone, due = await self._removal.clear(raw, wanted)
        for image in gone:
            self.recorder.record(_subject_of(raw), removal_event(image), COMPONENT)
        return due

    def _keep(self, tasks: Any) -> None:
        """Cancel and forget every task but `tasks`; one that has been reported is over."""
        for task in self._runs.keys() - tasks:
            del self._runs[task]
            self._workers.pop(task).cancel()

    async def _report(self, raw: Obj, status: Obj) -> bool:
        """Replace the status where it differs. Raises ApiError."""
        if status == raw.get("status"):
            return False
        meta = raw["metadata"]
        body = {
            "apiVersion": raw["apiVersion"],
            "kind": NODE_IMAGE.kind,
            "metadata": {key: meta[key] for key in ("name", "uid", "resourceVersion")},
            "spec": raw.get("spec", {}),
            "status": status,
        }
        request = ApiRequest(
            verb="update", resource=NODE_IMAGES, name=self.node, subresource="status", body=body
        )
        reply = await self.transport.send(request)
        self.store.note_write(thaw(reply.body))
        return True

    # One tag ----------------------------------------------------------------------------------

    async def _pull(self, task: PullTask) -> None:
        """Try until the image is here or no attempt is left."""
        async with self._slots:
            self._progress(task, begun(self._runs[task], self.clock.now()))
            while (run := self._runs[task]).ended is None:
                match next_move(run, self.clock.now()):
                    case Pause(until=until):
                        await self.clock.sleep((until - self.clock.now()).total_seconds())
                    case GiveUp(error=error):
                        self._progress(task, given_up(run, error, self.clock.now()))
                    case Attempt() as attempt:
                        self._progress(task, await self._attempt(task, run, attempt))
        self._announce(task, run)

    def _progress(self, task: PullTask, run: PullRun) -> None:
        self._runs[task] = run
        self._rounds.wake(self._key)

    async def _attempt(self, task: PullTask, run: PullRun, attempt: Attempt) -> PullRun:
        try:
            async with self.clock.timeout(attempt.timeout_s):
                image_id = await self._fetch(task, attempt)
        except TimeoutError:
            return not_pulled(run, timed_out(task), self.clock.now())
        except (PullFailed, RuntimeCallFailed) as failed:
            return not_pulled(run, str(failed), self.clock.now())
        return pulled(run, image_id, self.clock.now())

    async def _fetch(self, task: PullTask, attempt: Attempt) -> str:
        """Return the id of the image, pulled where need be. Raises PullFailed."""
        if attempt.if_absent and (found := held(task, await self.runtime.images())):
            return found.id
        wanted = self._wanted()
        logins, faults = await self._logins(task, wanted)
        sandbox = sandbox_settings(wanted, task.name)
        reference = ""
        for login in logins or (None,):
            try:
                reference = await self.runtime.pull(
                    task.image,
                    sandbox=sandbox,
                    login=None if login is None else (login.username, login.password),
                    within_s=attempt.timeout_s,
                )
                break
            except RuntimeCallFailed as failed:
                faults.append(str(failed))
        if not reference:
            raise PullFailed(f"Failed to pull image {task.image}: {'; '.join(faults)}")
        found = held(task, await self.runtime.images())
        return reference if found is None else found.id

    def _wanted(self) -> NodeImage:
        """The NodeImage of now. Raises PullFailed when it is gone or cannot be read."""
        raw = self.store.get(self._key)
        if raw is None:
            raise PullFailed("the NodeImage is gone")
        try:
            return node_image(raw)
        except msgspec.ValidationError as error:
            raise PullFailed(f"the NodeImage cannot be read: {error}") from error

    async def _logins(
        self, task: PullTask, wanted: NodeImage
    ) -> tuple[tuple[Credentials, ...], list[str]]:
        """Logins for an image, and why a secret offers none."""
        entry, good, faults = wanted.spec.images.get(task.name), list[Obj](), list[str]()
        for secret in entry.pull_secrets if entry else ():
            try:
                read = await self._secret(secret)
                credentials_for(task.image, [read])
                good.append(read)
            except (ApiError, BadSecretError) as error:
                faults.append(str(error))
                log.warning(log_line("pull-secret-unusable", image=task.image, error=error))
        return credentials_for(task.image, good), faults

    async def _secret(self, ref: SecretRef) -> Obj:
        ask = ApiRequest(verb="get", resource=SECRETS, namespace=ref.namespace, name=ref.name)
        found: Obj = thaw((await self.transport.send(ask)).body)
        return found

    def _announce(self, task: PullTask, run: PullRun) -> None:
        """Record the outcome on the NodeImage, a failure on each owner of the tag, too."""
        event = result_event(task, run)
        raw = self.store.get(self._key)
        subjects = [] if raw is None else [_subject_of(raw)]
        if run.error:
            subjects += [_subject(owner) for owner in run.wanted.owners]
        for subject in subjects:
            self.recorder.record(subject, event, COMPONENT)


def _subject_of(raw: Obj) -> Subject:
    meta = raw["metadata"]
    key = ObjectKey(*NODE_IMAGE, "", meta["name"])
    return Subject(key=key, version=VERSION, uid=meta["uid"])


def _subject(owner: OwnerRef) -> Subject:
    group, version = split_api_version(owner.api_version)
    key = ObjectKey(group, owner.kind, owner.namespace, owner.name)
    return Subject(key=key, version=version, uid=owner.uid)


@dataclass(frozen=True, slots=True)
class ImageRemoval:
    """Keeps the annotation of the images that the agent may remove, and removes them."""

    store: InformerCache
    transport: Transport
    runtime: Runtime
    clock: Clock

    async def note(self, raw: Obj, wanted: NodeImage, tasks: Iterable[PullTask]) -> Obj:
        """Note which of `tasks`, about to begin, pull an image that goes later.

        One that the runtime holds already is not the agent's to remove. Returns the NodeImage as
        it is then. Raises ApiError and RuntimeCallFailed.
        """
        before = pulled_images(raw)
        asked = [t for t in removed_later(wanted, tasks) if t.image not in before]
        if not asked:
            return raw
        store = await self.runtime.images()
        fresh = [task.image for task in asked if held(task, store) is None]
        return await self._write(raw, (*before, *fresh)) if fresh else raw

    async def clear(self, raw: Obj, wanted: NodeImage) -> tuple[list[str], datetime | None]:
        """Remove what no tag names any more.

        Returns the images that went, and when to look again at those that something uses. Raises
        ApiError and RuntimeCallFailed.
        """
        pulled = pulled_images(raw)
        going = unwanted(wanted, pulled)
        if not going:
            return [], None
        store, used = await self.runtime.images(), await self.runtime.images_in_use()
        kept, gone = list[str](), list[str]()
        for image in going:
            match fate(image, store, used, going):
                case Fate.KEEP:
                    kept.append(image)
                case Fate.REMOVE:
                    if not await self._remove(image):
                        kept.append(image)
                        continue
                    gone.append(image)
                    store = [one for one in store if not names(image, one)]
                case Fate.FORGET:
                    pass  # it went with another tag, or kubelet collected it
        left = tuple(i for i in pulled if i in kept or i not in going)
        if left != pulled:
            await self._write(raw, left)
        return gone, self.clock.now() + AGAIN if kept else None

    async def _remove(self, image: str) -> bool:
        try:
            await self.runtime.remove_image(image)
        except RuntimeCallFailed as failed:
            log.warning(log_line("image-not-removed", image=image, error=failed))
            return False
        return True

    async def _write(self, raw: Obj, images: Iterable[str]) -> Obj:
        meta = raw["metadata"]
        held_: dict[str, Any] = {key: meta[key] for key in ("uid", "resourceVersion")}
        notes = {PULLED_IMAGES: " ".join(images) or None}
        body = {"metadata": {**held_, "annotations": notes}}
        patch = merge_request(NODE_IMAGES, meta["name"], body)
        written: Obj = thaw((await self.transport.send(patch)).body)
        self.store.note_write(written)
        return written
