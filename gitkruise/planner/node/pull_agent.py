"""Node agent's side of a NodeImage: which tags to pull, when to try again, and what to report.

Every tag has a run of its own: attempts with a time limit each, pauses of 1, 2, 4 … 30 s between
them, and a deadline for all of them. The agent keeps runs in memory only; after a restart a tag
without a final status of its version is pulled again, which an image that is present ends early.

Source: IMG-31, IMG-34 to IMG-36. OpenKruise pauses after the last attempt, too, and joins digests
with a colon, which no runtime can pull.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple, TypeAlias

from gitkruise.model.node.containers import HeldImage
from gitkruise.model.node.node_image import (
    BACKOFF_LIMIT,
    TIMEOUT_S,
    ImageTag,
    NodeImage,
    PullPhase,
    TagStatus,
    counted_status,
)
from gitkruise.model.planning.plan import Event
from gitkruise.wire.primitives.backoff import backoff
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.values.images import familiar_parts, image_of_parts, is_image

PAUSE_FIRST_S, PAUSE_MAX_S = 1.0, 30.0
PULLED_BY: Final = ("apps.kruise.io/pulling-image-by", "kruise-daemon")
IF_NOT_PRESENT: Final = "IfNotPresent"
DEADLINE: Final = "pulling exceeds the activeDeadlineSeconds"


class PullTask(NamedTuple):
    """One version of a tag on this node; the key of its run."""

    name: str
    tag: str
    version: int

    @property
    def image(self) -> str:
        """The reference for the runtime."""
        return image_of_parts(self.name, self.tag)


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRun:
    """Progress of a task. `began` None: it waits for a worker; `retry` is the end of a pause."""

    wanted: ImageTag
    began: datetime | None = None
    attempts: int = 0
    retry: datetime | None = None
    error: str = ""
    ended: datetime | None = None
    image_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """Pull now, for at most `timeout_s` seconds. `if_absent`: unless the image is present."""

    timeout_s: float
    if_absent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    """Nothing to do before `until`."""

    until: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class GiveUp:
    """No attempt is left: the run fails with `error`."""

    error: str


Move: TypeAlias = Attempt | Pause | GiveUp


def open_tasks(node_image: NodeImage) -> dict[PullTask, ImageTag]:
    """Return the tags without a final status of their version, in name order.

    A run whose task is not among them is over or no longer wanted: the agent cancels it.
    """
    found = {}
    for name, tag in node_image.tags():
        status = node_image.current_status(name, tag)
        if status is None or status.completed is None:
            found[PullTask(name, tag.tag, tag.version)] = tag
    return found


def next_move(run: PullRun, now: datetime) -> Move:
    """Return what a run that has a worker does now."""
    policy = run.wanted.pull_policy
    left = None
    if policy.active_deadline_s is not None and run.began is not None:
        left = policy.active_deadline_s - (now - run.began).total_seconds()
        if left <= 0:
            return GiveUp(error=DEADLINE)
    if run.attempts > 0 and run.attempts >= attempts_of(run.wanted):
        return GiveUp(error=run.error)
    # One further away than the longest pause is of a clock that was set back since.
    if run.retry is not None and 0 < (run.retry - now).total_seconds() <= PAUSE_MAX_S:
        return Pause(until=run.retry)
    seconds = float(TIMEOUT_S if policy.timeout_s is None else policy.timeout_s)
    return Attempt(
        timeout_s=seconds if left is None else min(seconds, left),
        if_absent=run.wanted.image_pull_policy == IF_NOT_PRESENT,
    )


def attempts_of(tag: ImageTag) -> int:
    """The attempts of a tag: backoffLimit and one more; a negative limit counts as the default."""
    limit = tag.pull_policy.backoff_limit
    return 1 + (BACKOFF_LIMIT if limit is None or limit < 0 else limit)


def begun(run: PullRun, now: datetime) -> PullRun:
    """`run` once a worker took it."""
    return replace(run, began=run.began or now)


def pulled(run: PullRun, image_id: str, now: datetime) -> PullRun:
    """`run` once the image is present; `image_id` is the runtime's."""
    return replace(run, ended=now, image_id=image_id, error="", retry=None)


def not_pulled(run: PullRun, error: str, now: datetime) -> PullRun:
    """`run` after an attempt that failed."""
    attempts = run.attempts + 1
    pause = backoff(attempts, first=PAUSE_FIRST_S, cap=PAUSE_MAX_S)
    return replace(run, attempts=attempts, error=error, retry=now + timedelta(seconds=pause))


def given_up(run: PullRun, error: str, now: datetime) -> PullRun:
    """`run` once `next_move` gave up."""
    return replace(run, ended=now, error=error or "no attempt succeeded", retry=None)


def timed_out(task: PullTask) -> str:
    """The error of an attempt that took too long."""
    return f"pulling image {task.name}:{task.tag} is canceled"


def agent_status(node_image: NodeImage, runs: Mapping[PullTask, PullRun]) -> dict[str, Any]:
    """The whole status: final ones as they are, all others from their runs.

    A tag without a run waits for a worker. Tags that the spec no longer names are left out.
    """
    statuses: dict[str, dict[str, Obj]] = {}
    for name, tag in node_image.tags():
        old = node_image.current_status(name, tag)
        if old is not None and old.completed is not None:
            status = status_on_wire(old)
        else:
            run = runs.get(PullTask(name, tag.tag, tag.version)) or PullRun(wanted=tag)
            status = status_on_wire(_status_of(name, run))
        statuses.setdefault(name, {})[tag.tag] = status
    return counted_status(statuses)


def result_event(task: PullTask, run: PullRun) -> Event:
    """The event on the NodeImage (and, for a failure, on each owner) about a run that ended."""
    image = f"{task.name}:{task.tag}"
    if run.error:
        return Event("Warning", "PullImageFailed", f"Image {image} {run.error}")
    seconds = (run.ended - run.began).total_seconds() if run.ended and run.began else 0.0
    return Event("Normal", "PullImageSucceed", f"Image {image}, ecalpsedTime {seconds:.1f}s")


def held(task: PullTask, images: Iterable[HeldImage]) -> HeldImage | None:
    """Return the image of a runtime's store that a task names; None when it holds none.

    A name is compared in its familiar form; a digest with the digests of the same repository.
    """
    wanted = (task.name, task.tag)
    for image in images:
        listed = image.digests if ":" in task.tag else image.tags
        if any(is_image(entry) and familiar_parts(entry) == wanted for entry in listed):
            return image
    return None


def sandbox_settings(node_image: NodeImage, name: str) -> dict[str, dict[str, str]]:
    """Labels and annotations of the sandbox that the pull names; some runtimes crash without."""
    entry = node_image.spec.images.get(name)
    given = entry.sandbox_config if entry is not None else None
    key, value = PULLED_BY
    return {
        "labels": dict((given.labels if given else None) or {}),
        "annotations": {**((given.annotations if given else None) or {}), key: value},
    }


def status_on_wire(status: TagStatus) -> Obj:
    """A tag's status as the NodeImage carries it."""
    out: dict[str, Any] = {"tag": status.tag, "phase": str(status.phase)}
    if status.progress:
        out["progress"] = status.progress
    for field, at in (("startTime", status.started), ("completionTime", status.completed)):
        if at is not None:
            out[field] = format_time(at)
    if status.version:
        out["version"] = status.version
    texts = {"imageID": status.image_id, "message": status.message}
    return {**out, **{field: text for field, text in texts.items() if text}}


def _status_of(name: str, run: PullRun) -> TagStatus:
    phase = PullPhase.WAITING if run.began is None else PullPhase.PULLING
    if run.ended is not None:
        phase = PullPhase.FAILED if run.error else PullPhase.SUCCEEDED
    good = phase == PullPhase.SUCCEEDED
    return TagStatus(
        tag=run.wanted.tag,
        phase=phase,
        progress=100 if good else 0,
        started=run.began,
        completed=run.ended,
        version=run.wanted.version,
        image_id=f"{name}@{run.image_id}" if good else "",
        message=run.error if run.ended is not None else "",
    )
