"""Probes and hooks of simulated containers: their times, and which of them fail.

No command runs. `sleep N` takes N seconds, `false` and `sh -c "exit N"` fail, and every other
command, like every request and connection, succeeds immediately. An image with the marker word
`unhealthy` fails all liveness and startup probes. Source of times and thresholds: SetDefaults_Probe
and prober worker of Kubernetes 1.34.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple

from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.world.kubelet.profiles import ImageFate

LIVENESS, STARTUP, READINESS = "livenessProbe", "startupProbe", "readinessProbe"
POST_START, PRE_STOP = "postStart", "preStop"
LEAST_STOP_S: Final = 2.0  # what a hook leaves to the container, even if it takes all its grace
_PERIOD_S, _THRESHOLD = 10, 3
_EXIT: Final = re.compile(r"\s*(?:exit\s+[1-9]\d*|false)\s*")
_SHELLS: Final = frozenset({"sh", "bash", "ash"})


class ProbeTimes(NamedTuple):
    """Seconds before the first probe and between two of them; failures in a row that count."""

    delay_s: float
    period_s: float
    threshold: int

    def failures(self, since: datetime, now: datetime, speed: float) -> int:
        """The number of failures of a container that started at `since`, one at `now` included."""
        seconds = (now - since).total_seconds() * speed - self.delay_s
        return max(round(seconds / self.period_s), 0) + 1


def probe_times(spec: Obj, probe: str) -> ProbeTimes:
    """The times of a container's probe."""
    found = spec[probe]
    return ProbeTimes(
        delay_s=float(found.get("initialDelaySeconds") or 0),
        period_s=float(found.get("periodSeconds") or _PERIOD_S),
        threshold=int(found.get("failureThreshold") or _THRESHOLD),
    )


def probe_fails(spec: Obj, probe: str, fate: ImageFate | None) -> bool:
    """Return whether a probe that the container has fails each time."""
    if not spec.get(probe):
        return False
    sick = fate is ImageFate.UNHEALTHY and probe != READINESS
    return sick or _fails(get(spec, probe, "exec", "command", default=()))


def hook_s(spec: Obj, hook: str) -> float | None:
    """The seconds that a hook takes; None when the container has none."""
    handler = get(spec, "lifecycle", hook)
    if not handler:
        return None
    if "sleep" in handler:
        return float(handler["sleep"].get("seconds") or 0)
    return sleep_s(get(handler, "exec", "command", default=())) or 0.0


def hook_fails(spec: Obj, hook: str) -> bool:
    return _fails(get(spec, "lifecycle", hook, "exec", "command", default=()))


def kill_grace_s(spec: Obj, *, live: bool, startup: bool | None) -> float | None:
    """The grace period of the probe that kills a container; None: that of the pod."""
    probe = LIVENESS if not live else STARTUP if startup is False else ""
    found = get(spec, probe, "terminationGracePeriodSeconds") if probe else None
    return None if found is None else float(found)


def sleep_s(command: Sequence[str]) -> float | None:
    """The seconds of `sleep N`; None for any other command."""
    if len(command) != 2 or _program(command) != "sleep":
        return None
    return None if (seconds := int_or_none(command[1])) is None else float(seconds)


def _fails(command: Sequence[str]) -> bool:
    if not command:
        return False
    if len(command) == 1:
        return _program(command) == "false"
    shell = len(command) == 3 and command[1] == "-c" and _program(command) in _SHELLS
    return shell and _EXIT.fullmatch(command[2]) is not None


def _program(command: Sequence[str]) -> str:
    return command[0].rpartition("/")[2]
