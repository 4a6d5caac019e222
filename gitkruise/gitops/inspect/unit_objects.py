"""Units that are objects of the cluster: their status, for commands without their records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gitkruise.errors import Forbidden, NotFound
from gitkruise.gitops.status.reader import RecordedUnit
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.unit_state import CHOSEN, State
from gitkruise.planner.health.builtin import condition_of
from gitkruise.wire.primitives.names import OWN_GROUP, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ResourceRef
from gitkruise.wire.primitives.times import parse_time

UNRECORDED: Final = "its record is not known here: a newer or rejected commit does not show"
_RECORD_IT: Final = (
    "name --repo and --cluster; give it a Sink with git; or see in the log of run why that fails"
)
_UNITS: Final = ResourceRef(OWN_GROUP, "v1alpha1", "units")
_UNSEEN: Final = "it has no status: no controller has looked at it yet"
_WAITS: Final = "waits for "


@dataclass(frozen=True, slots=True)
class UnitObjects:
    """The states of units that are objects; `unread` is why they are not known.

    Those `without_sink` write no record: what a repository has of them is from earlier.
    """

    units: tuple[RecordedUnit, ...] = ()
    unread: str = ""
    without_sink: frozenset[str] = frozenset()

    def beside(self, recorded: Iterable[RecordedUnit]) -> tuple[RecordedUnit, ...]:
        """Return the records of a repository, and these units where it has none, or not the newest
        one."""
        found = {news.unit: news for news in recorded}
        found |= {
            n.unit: n
            for n in self.units
            if n.unit not in found or n.outdated or n.unit in self.without_sink
        }
        return tuple(found.values())


async def read_unit_objects(transport: Transport, cluster: str, namespace: str = "") -> UnitObjects:
    """Read the Units of all namespaces, or of `namespace` where no others may be read. Raises
    ApiError."""
    unread, found = "", []
    for scope in dict.fromkeys(("", namespace)):
        try:
            found = await listed(transport, _UNITS, namespace=scope)
            break
        except NotFound:  # not served: there are none
            break
        except Forbidden as error:
            unread = unread or error.message
    units = [(recorded_unit(obj, cluster), get(obj, "spec", "sinkRef")) for obj in found]
    return UnitObjects(
        tuple(news for news, _ in units),
        unread,
        frozenset(news.unit for news, sink in units if sink is None),
    )


def unrecorded_in(units: Iterable[str], recorded: Sequence[RecordedUnit]) -> tuple[str, ...]:
    """Return the units among the marks of live objects of which nothing is recorded."""
    known = {news.unit for news in recorded}
    return tuple(sorted({unit for unit in units if unit} - known))


def record_it(elsewhere: Sequence[str]) -> str:
    """Return the step that makes the record of a unit known; `elsewhere` are other clusters of
    which the repository has a record of it."""
    if not elsewhere:
        return _RECORD_IT
    reason = f"the repository has its record of cluster {' and '.join(elsewhere)}"
    return f"{reason}: --cluster {elsewhere[0]}, if that is this one"


def recorded_unit(obj: Obj, cluster: str) -> RecordedUnit:
    """Return what the status of a Unit says."""
    status: Mapping[str, Any] = obj.get("status") or {}
    ready: Mapping[str, Any] = condition_of(obj, "Ready") or {}
    phase = str(status.get("phase", ""))
    state = State(phase) if phase in set(State) else State.UNKNOWN
    message = str(ready.get("message", _UNSEEN))
    failed = ready.get("status") == "False" and ready.get("reason") not in CHOSEN
    published: Mapping[str, Any] = condition_of(obj, "StatusPublished") or {}
    unwritten = published.get("status") == "False"
    waits = message.removeprefix(_WAITS) if message.startswith(_WAITS) else ""
    news = RecordedUnit(
        unit=f"{obj['metadata']['namespace']}/{obj['metadata']['name']}",
        cluster=cluster,
        source=str(get(obj, "status", "lastAttemptedRevision", default="")).partition("@")[0],
        state=state,
        message=message,
        since=parse_time(ready.get("lastTransitionTime")),
        attempted=_commit(status, "lastAttemptedRevision"),
        applied=_commit(status, "lastAppliedRevision"),
        causal=_commit(status, "causalRevision"),
        waits=waits,
        objects_known=False,
        outdated=f"its record is not in git: {published.get('message')}" if unwritten else "",
        path=str(get(obj, "spec", "path", default="")),
    )
    return replace(news, problems=(message,)) if (failed and not waits) or news.obstacle else news


def _commit(status: Mapping[str, Any], field: str) -> GitCommit | None:
    """Return the commit of a revision such as `main@sha1:<hex>`; of an artifact its digest."""
    revision = str(status.get(field) or "")
    if not revision:
        return None
    return GitCommit(id=revision.rpartition(":")[2], artifact=str(status.get("artifact", "")))
