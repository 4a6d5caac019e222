"""Canary of a Deployment: the annotation that a user writes, and the marks of its pause.

Source: the canary-pause design of Kubernetes issues #91276 and #11505; rules CAN-1 to CAN-8 of
docs/behaviour/deployment-canary.md.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

ANNOTATION: Final = "gitkruise.io/canary"
PLAIN: Final = "canary"  # read as well; other programs use that key for purposes of their own
GATE: Final = "gitkruise.io/canary-gate"  # of a ReplicaSet: armed, or passed=VALUE
STABLE: Final = "gitkruise.io/canary-stable"  # of a ReplicaSet: hash of the one that keeps the rest
PAUSED: Final = "gitkruise.io/canary-paused"  # of a Deployment, while its canary paused it
LOCK: Final = "gitkruise.io/canary-lock"  # of a Deployment of a foreign controller
GIT_PAUSE: Final = "gitkruise.io/git-pause"  # "true" while `paused` is git's, not the canary's
BOTH_PAUSE: Final = "canary"  # its value while git pauses as well what a canary paused
MARKS: Final = frozenset({GATE, STABLE, PAUSED, LOCK, GIT_PAUSE})  # of controllers, never git's
BOOKKEEPING: Final = frozenset({ANNOTATION, PLAIN}) | MARKS
CANARIES: Final = frozenset({("metadata", "annotations", key) for key in (ANNOTATION, PLAIN)})
ARMED: Final = "armed"
_VALUE: Final = re.compile(r"[0-9]{1,10}%?")
_MARKER: Final = re.compile(r"([^/]+)/([0-9]{1,10}%?)/([^/]*)")


@dataclass(frozen=True, slots=True)
class Canary:
    """The canary value of one Deployment, as written: a number or a whole percentage."""

    text: str

    def pods(self, replicas: int) -> int | None:
        """Return the new pods at which a rollout pauses; None: nowhere, all pods are updated.

        A percentage is rounded up, but leaves at least one old pod.
        """
        amount = int(self.text.removesuffix("%"))
        if not self.text.endswith("%"):
            return amount if amount < replicas else None
        if amount == 0:
            return 0
        if amount >= 100 or replicas <= 1:
            return None
        return min(-(-amount * replicas // 100), replicas - 1)

    @property
    def passed(self) -> str:
        """The gate mark of a ReplicaSet that was approved at this value."""
        return f"passed={self.text}"


def canary_of(annotations: Mapping[str, str] | None) -> Canary | None:
    """Return the canary that the annotations of a Deployment request.

    The qualified key wins over the plain one. Raises ValueError for a value that is neither a
    number nor a whole percentage.
    """
    found = annotations or {}
    text = found.get(ANNOTATION, found.get(PLAIN))
    if text is None:
        return None
    if not _VALUE.fullmatch(text):
        raise ValueError(f"{text[:40]!r} is neither a number of pods nor a percentage such as 30%")
    return Canary(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryPause:
    """The pause that a canary brought about: hashes of its ReplicaSets, and the value reached."""

    canary: str
    value: str
    stable: str

    @property
    def text(self) -> str:
        return f"{self.canary}/{self.value}/{self.stable}"


def git_pauses(annotations: Mapping[str, str] | None) -> bool:
    """Return whether a pause in git took the place of a canary's (CAN-38)."""
    return (annotations or {}).get(GIT_PAUSE) == "true"


def pause_of(annotations: Mapping[str, str] | None) -> CanaryPause | None:
    """Return the pause in force; None without one, and for a mark of another form."""
    found = _MARKER.fullmatch((annotations or {}).get(PAUSED, ""))
    return CanaryPause(canary=found[1], value=found[2], stable=found[3]) if found else None
