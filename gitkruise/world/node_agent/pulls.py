"""Image pulls of simulated nodes: each NodeImage's tags, pulled in the profile's time."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ApiError
from gitkruise.model.node.node_image import NODE_IMAGE, NodeImage, PullPhase, node_image
from gitkruise.planner.node.pull_agent import (
    Attempt,
    GiveUp,
    Pause,
    PullRun,
    PullTask,
    agent_status,
    begun,
    given_up,
    next_move,
    not_pulled,
    open_tasks,
    pulled,
    result_event,
    timed_out,
)
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.world.controllers import event_recorder as event_log
from gitkruise.world.controllers.client import ObjectWriter
from gitkruise.world.controllers.object_backoff import earliest
from gitkruise.world.kubelet.profiles import ImageFate, Profile
from gitkruise.world.kubelet.runtime import canonical_image, image_id

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

COMPONENT: Final = "kruise-daemon-imagepuller"
_WRITER: Final = ObjectWriter("kruise-daemon")
MOVES_MAX: Final = 100


@dataclass(slots=True)
class _Pull:
    """A run with its attempt: `ends` is the attempt's end, `error` its outcome then."""

    run: PullRun
    ends: datetime | None = None
    error: str = ""


@dataclass(slots=True)
class PullAgents:
    """Memory of the agents of all nodes about pulls, by node."""

    profile: Profile
    pulls: dict[str, dict[PullTask, _Pull]] = field(default_factory=dict)

    def run(self, world: World, key: ObjectKey, now: datetime) -> datetime | None:
        """Go on with the pulls of a node; the instant of the next step."""
        raw = world.get(key)
        if raw is None:
            self.pulls.pop(key.name, None)
            return None
        image = node_image(raw)
        wanted, known = open_tasks(image), self.pulls.get(key.name, {})
        pulls = self.pulls[key.name] = {
            task: known.get(task) or _Pull(begun(PullRun(wanted=tag), now))
            for task, tag in wanted.items()
        }
        dues = [self._go_on(image, task, pull, now) for task, pull in pulls.items()]
        self._write(world, raw, image, now)
        return earliest(*dues)

    def _go_on(
        self, image: NodeImage, task: PullTask, pull: _Pull, now: datetime
    ) -> datetime | None:
        for _ in range(MOVES_MAX):
            if pull.run.ended is not None:
                return None
            if pull.ends is not None:
                if now < pull.ends:
                    return pull.ends
                pull.run = self._attempted(task, pull, now)
                pull.ends = None
                continue
            match next_move(pull.run, now):
                case Pause(until=until):
                    return until
                case GiveUp(error=error):
                    pull.run = given_up(pull.run, error, now)
                case Attempt() as attempt:
                    self._begin(image, task, pull, attempt, now)
        raise AssertionError(f"a pull never rests: {task}")

    def _begin(
        self, image: NodeImage, task: PullTask, pull: _Pull, attempt: Attempt, now: datetime
    ) -> None:
        if attempt.if_absent and _was_pulled(image, task):
            pull.run = pulled(pull.run, _digest(task), now)
            return
        seed = f"{image.metadata.uid}/{task.image}/{task.version}/{pull.run.attempts}"
        seconds = self.profile.delay_s(self.profile.pull_s, seed=seed)
        pull.error = ""
        if self.profile.fate_of(task.image) is ImageFate.PULL_FAILS:
            pull.error = f'failed to resolve reference "{canonical_image(task.image)}": not found'
        if seconds > attempt.timeout_s:
            seconds, pull.error = attempt.timeout_s, timed_out(task)
        pull.ends = now + timedelta(seconds=seconds)

    def _attempted(self, task: PullTask, pull: _Pull, now: datetime) -> PullRun:
        if pull.error:
            return not_pulled(pull.run, pull.error, now)
        return pulled(pull.run, _digest(task), now)

    def _write(self, world: World, raw: Obj, image: NodeImage, now: datetime) -> None:
        runs = {task: pull.run for task, pull in self.pulls[image.metadata.name].items()}
        status = agent_status(image, runs)
        if status == (raw.get("status") or {}) or not (runs or raw.get("status")):
            return
        changed = {**raw, "status": status}
        try:
            stored = _WRITER.update(world, changed, now, subresource="status")
        except ApiError:
            return  # the next change of the NodeImage is the next try
        for task, run in runs.items():
            if run.ended is not None:
                event = result_event(task, run)
                event_log.record(world, stored, event, now, component=COMPONENT)


def is_node_image(key: ObjectKey) -> bool:
    return key[:2] == NODE_IMAGE


def _was_pulled(image: NodeImage, task: PullTask) -> bool:
    """Return whether an earlier version of the tag was pulled on this node."""
    status = image.status_of(task.name, task.tag)
    return status is not None and status.phase == PullPhase.SUCCEEDED


def _digest(task: PullTask) -> str:
    return image_id(task.image).partition("@")[2]
