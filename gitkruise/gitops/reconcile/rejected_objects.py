"""Objects that the API server rejected: not sent again until git or some time has moved on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import Finding
from gitkruise.gitops.build.base_mirrors import listed_bases
from gitkruise.gitops.build.builder import BuiltCommit
from gitkruise.gitops.build.post_build import wants
from gitkruise.gitops.reconcile.applier import Sent
from gitkruise.model.gitops.config import Unit, duration
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.times import RetryPause

SOON: Final = timedelta(seconds=5)  # API servers read policies and quotas from caches
# Rights, quotas, webhooks and namespaces change without a commit, and without an event for us.
AGAIN: Final = timedelta(seconds=30)
_BASES: Final = timedelta(minutes=2)  # before remote repositories are asked again


@dataclass(frozen=True, slots=True)
class _Refusal:
    digest: str
    finding: Finding
    pause: RetryPause
    final: bool  # not because of what the unit may have changed just now


class RejectedObjects:
    """Rejections by object: the finding, and the pause before the next try.

    `replacing` are to be deleted and created again; `present` are create-only and exist already;
    `causes` are the objects of the unit because of which something was rejected since the last
    dry run.
    """

    def __init__(self) -> None:
        self.replacing: set[ObjectKey] = set()
        self.present: set[ObjectKey] = set()
        self.causes: frozenset[ObjectKey] = frozenset()
        self._rejected: dict[ObjectKey, _Refusal] = {}

    def note(self, sent: Sent, now: datetime) -> bool:
        """Record a request that was not accepted; return whether the API server rejected it for
        good."""
        key = sent.desired.key
        if sent.replace:
            self.replacing.add(key)
        elif sent.present:
            self.present.add(key)
        elif sent.finding is not None:
            final = not self.causes or key in self._rejected
            pause = RetryPause(now, now + (AGAIN if final else SOON))
            self._rejected[key] = _Refusal(sent.desired.digest, sent.finding, pause, final)
            return True
        return False

    def forget(self, key: ObjectKey) -> None:
        self._rejected.pop(key, None)
        self.replacing.discard(key)
        self.present.discard(key)

    def clear(self) -> None:
        self._rejected.clear()
        self.replacing.clear()
        self.present.clear()

    def standing(self, now: datetime) -> Mapping[ObjectKey, str]:
        """Return the digests that must not be sent at `now`."""
        return {
            key: rejection.digest
            for key, rejection in self._rejected.items()
            if rejection.pause.rests(now)
        }

    @property
    def findings(self) -> tuple[Finding, ...]:
        """Return the findings in key order; each is kept until its object is applied.

        The first one because of an object of the unit is left out: it is tried again soon.
        """
        rejections = (self._rejected[key] for key in sorted(self._rejected))
        return tuple(one.finding for one in rejections if one.final)

    def wake_at(self, now: datetime) -> datetime | None:
        pauses = (rejection.pause for rejection in self._rejected.values())
        return min((pause.until for pause in pauses if pause.rests(now)), default=None)


def look_again(unit: Unit, built: BuiltCommit, now: datetime) -> tuple[str, RetryPause] | None:
    """Return a commit to read again, and the pause before: the cluster may decide differently then,
    or the tag of a remote base may be there."""
    if built.by_cluster:
        return built.commit.id, RetryPause(now, now + AGAIN)
    if built.desired is None and listed_bases([unit]):
        return built.commit.id, RetryPause(now, now + _BASES)
    if not wants(unit):
        return None
    every = duration(unit.spec.interval)
    return built.commit.id, RetryPause(now, now + (every if built.desired else min(every, _BASES)))
