"""Interventions: corrected drift, takeovers, prunes and replacements: records, logs, Events.

A commit explains what is applied for it. These change what a person or a tool set by other means,
so each is reported with what was changed and, where managedFields show it, with the manager that
had set it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Final, TypeAlias

from gitkruise.errors import ApiError
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.reconcile.applier import Sent
from gitkruise.gitops.status.observer import Observation, drift_records
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.kube.client.events import Recorder, Subject
from gitkruise.model.gitops.change import ObjectChange
from gitkruise.model.gitops.sync_round import Live
from gitkruise.model.planning.plan import Event
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.planner.sync.annotations import PLAN, UNIT, UNIT_REF, annotation
from gitkruise.planner.sync.prune import HOLDS_DATA, holds_data
from gitkruise.printable import listing, shown
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of, split_api_version
from gitkruise.wire.primitives.paths import get

log = logging.getLogger(__name__)
COMPONENT: Final = "gitkruise"
CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
Journal: TypeAlias = Callable[[ObjectKey, str, str], None]  # (object, reason, text)
_FIELDS_MAX: Final = 5  # shown of one object; the others are counted
_NAME_MAX: Final = 80
_DELETED: Final = "put back as git says: it was deleted"
_UNMARKED: Final = f"put back as git says: the label {UNIT} had been removed"


class ObjectsSeenLive:
    """The objects of a unit that were live, by which a deletion by others is noticed."""

    def __init__(self, unit: str, reporter: Reporter) -> None:
        self._unit, self._reporter = unit, reporter
        self._keys: set[ObjectKey] | None = None  # None: not looked yet

    @property
    def keys(self) -> AbstractSet[ObjectKey]:
        return self._keys or frozenset()

    def remember(self, seen: Observation) -> None:
        """Add the live objects of the unit, without those that are being deleted; after a start,
        the recorded ones, as far as the cluster confirms the record."""
        if self._keys is None:
            self._keys = set(self._reporter.had if self._reporter.recorded is not None else ())
        for key, one in seen.live.items():
            going = one.obj["metadata"].get("deletionTimestamp")
            if annotation(one.obj, UNIT_REF) == self._unit and not going:
                self._keys.add(key)

    def lost(self, seen: Observation) -> AbstractSet[ObjectKey]:
        """Return the objects that were live and are not, unless the unit deleted them."""
        return self.keys - seen.live.keys() - seen.unknown.keys()

    def forget(self, keys: Iterable[ObjectKey]) -> None:
        """Expect no more that these objects are live: the unit deletes them."""
        if self._keys is not None:
            self._keys.difference_update(keys)


def report_applied(
    events: Recorder,
    unit: str,
    sent: Iterable[Sent],
    journal: Journal,
    *,
    healing: Sequence[ObjectChange],
    live: Mapping[ObjectKey, Live],
    lost: AbstractSet[ObjectKey],
) -> None:
    """Report the corrections and takeovers among accepted requests of a unit, and log what the API
    server warns of.

    `healing` is the drift that they correct, `live` the objects before; the `lost` ones had been
    in the cluster, and no commit took them away.
    """
    corrected = {change.key: change for change in healing}
    for item in sent:
        key = item.desired.key
        if item.reply is None:
            continue
        if key not in corrected:  # a correction sends what was applied, and warned of, before
            _log_warnings(unit, item)
        before = live.get(key)
        owner = annotation(before.obj, UNIT_REF) if before is not None else ""
        if owner not in {"", unit}:
            text = f"taken over from unit {_name(owner)}"
            _report(events, unit, "TakenOver", text, item.reply, journal)
        elif key in corrected:
            # An admission webhook may set the field again: then the apply changes nothing.
            if before is None or _version(before.obj) != _version(item.reply):
                _report(
                    events, unit, "DriftCorrected", _fields(corrected[key]), item.reply, journal
                )
        elif before is None and key in lost and not item.desired.hook:
            text = _DELETED if item.created else _UNMARKED
            _report(events, unit, "DriftCorrected", text, item.reply, journal)
        elif item.taken:
            names = ", ".join(map(_name, item.taken))
            _report(events, unit, "TakenOver", f"taken over from {names}", item.reply, journal)


def _log_warnings(unit: str, item: Sent) -> None:
    for warning in item.warnings:
        log.warning(log_line("api-warning", unit=unit, text=warning.message))


def report_pruned(events: Recorder, live: Obj, lost: str, why: str, journal: Journal) -> None:
    """Report an object that was deleted because no unit wants it any more, and `why`.

    `lost` names the volumes that go with it.
    """
    unit = _name(annotation(live, UNIT_REF))
    text = "deleted" + (f" with {lost}" if lost else "") + f": {why}"
    _report(events, unit, "Pruned", text, live, journal)


async def lost_with(live: LiveView, obj: Obj) -> str:
    """Return the claims and volumes that the garbage collector deletes with a workload, by name.

    Claims that cannot be listed are said to be unknown: the deletion was approved.
    """
    key = key_of(obj)
    if key.group_kind in HOLDS_DATA or not holds_data(key, obj):
        return ""
    try:
        claims = await live.everything(CLAIM, key.namespace)
    except ApiError as error:
        return f"the volumes of its pods, which could not be listed ({_name(error.message)})"
    names = sorted(_claim(one) for one in claims if _goes_with(key, obj, one))
    return listing(names, _FIELDS_MAX)


def _goes_with(key: ObjectKey, obj: Obj, claim: Obj) -> bool:
    """Return whether a claim belongs to a workload, or to a pod of a StatefulSet, by its name."""
    owners = get(claim, "metadata", "ownerReferences", default=[])
    if key.group_kind == CLONESET:
        return any(ref.get("uid") == get(obj, "metadata", "uid") for ref in owners)
    start, _, ordinal = str(claim["metadata"]["name"]).rpartition("-")
    templates = get(obj, "spec", "volumeClaimTemplates", default=[])
    return ordinal.isdigit() and start in {f"{t['metadata']['name']}-{key.name}" for t in templates}


def _claim(claim: Obj) -> str:
    meta, volume = claim["metadata"], get(claim, "spec", "volumeName", default="")
    key = ObjectKey(*CLAIM, meta["namespace"], meta["name"])  # items of a list name no kind
    return f"{_name(str(key))}" + (f" (volume {_name(volume)})" if volume else "")


def report_replaced(events: Recorder, unit: str, live: Obj, journal: Journal) -> None:
    """Report an object that `unit` deleted to create it again: a hook that runs once more, or one
    with a field that cannot change."""
    text = "deleted, to be created again: git changes a field that cannot change"
    if annotation(live, PLAN):
        text = "deleted, to be created again: a hook runs for each commit that changes its unit"
    _report(events, unit, "Replaced", text, live, journal)


def _fields(change: ObjectChange) -> str:
    """Return the fields that were put back; a possible secret does not show."""
    records = drift_records((change,))
    shown = [
        f"{r.field} {r.live} → {r.git}" + (f" (set by {_name(r.manager)})" if r.manager else "")
        for r in records[:_FIELDS_MAX]
    ]
    more = len(records) - _FIELDS_MAX
    return "put back as git says: " + "; ".join([*shown, *([f"{more} more"] if more > 0 else [])])


def _report(
    events: Recorder, unit: str, reason: str, text: str, obj: Obj, journal: Journal
) -> None:
    key = key_of(obj)
    journal(key, reason, text)
    log.warning(log_line(reason, unit=unit, object=key, text=text))
    _, version = split_api_version(str(obj["apiVersion"]))
    uid = str(get(obj, "metadata", "uid", default=""))
    subject = Subject(key=key, version=version, uid=uid)
    events.record(subject, Event("Normal", reason, f"unit {unit}: {text}"), COMPONENT)


def _version(obj: Obj) -> str:
    return str(get(obj, "metadata", "resourceVersion"))


def _name(text: str) -> str:
    return shown(text, _NAME_MAX)
