"""Interventions: corrected drift, takeovers, prunes, replacements, as log lines and Events.

A commit explains what is applied for it. These change what a person or a tool set by other means,
so each is reported with what was changed and, where managedFields show it, with the manager that
had set it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gitkruise.gitops.reconcile.applier import Sent
from gitkruise.gitops.status.observer import drift_records
from gitkruise.kube.client.events import Recorder, Subject
from gitkruise.model.gitops.change import Live, ObjectChange
from gitkruise.model.planning.plan import Event
from gitkruise.planner.sync.annotations import UNIT_REF, annotation
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.printable import shown

log = logging.getLogger(__name__)
COMPONENT: Final = "gitkruise"
_FIELDS_MAX: Final = 5  # shown of one object; the others are counted
_NAME_MAX: Final = 80


def report_applied(
    events: Recorder,
    unit: str,
    sent: Iterable[Sent],
    healing: Sequence[ObjectChange],
    live: Mapping[ObjectKey, Live],
) -> None:
    """Report the corrections and takeovers among accepted requests of a unit.

    `healing` is the drift that they correct, `live` the objects before.
    """
    corrected = {change.key: change for change in healing}
    for item in sent:
        key = item.desired.key
        if item.reply is None:
            continue
        before = live.get(key)
        owner = annotation(before.obj, UNIT_REF) if before is not None else ""
        if owner not in {"", unit}:
            _tell(events, unit, "TakenOver", f"taken over from unit {_name(owner)}", item.reply)
        elif key in corrected:
            _tell(events, unit, "DriftCorrected", _fields(corrected[key]), item.reply)
        elif item.taken:
            names = ", ".join(map(_name, item.taken))
            _tell(events, unit, "TakenOver", f"taken over from {names}", item.reply)


def report_pruned(events: Recorder, live: Obj) -> None:
    """Report an object that was deleted because its unit does not want it any more."""
    unit = _name(annotation(live, UNIT_REF))
    _tell(events, unit, "Pruned", "deleted: git does not name it any more", live)


def report_replaced(events: Recorder, live: Obj) -> None:
    """Report an object that was deleted to be created again with a field that cannot change."""
    unit = _name(annotation(live, UNIT_REF))
    text = "deleted, to be created again: git changes a field that cannot change"
    _tell(events, unit, "Replaced", text, live)


def _fields(change: ObjectChange) -> str:
    """Return the fields that were put back; a possible secret does not show."""
    records = drift_records((change,))
    told = [
        f"{r.field} {r.live} → {r.git}" + (f" (set by {_name(r.manager)})" if r.manager else "")
        for r in records[:_FIELDS_MAX]
    ]
    more = len(records) - _FIELDS_MAX
    return "put back as git says: " + "; ".join([*told, *([f"{more} more"] if more > 0 else [])])


def _tell(events: Recorder, unit: str, reason: str, text: str, obj: Obj) -> None:
    key = key_of(obj)
    log.warning(log_line(reason, unit=unit, object=key, text=text))
    _, version = split_api_version(str(obj["apiVersion"]))
    uid = str(get(obj, "metadata", "uid", default=""))
    subject = Subject(key=key, version=version, uid=uid)
    events.record(subject, Event("Normal", reason, f"unit {unit}: {text}"), COMPONENT)


def _name(text: str) -> str:
    return shown(text, _NAME_MAX)
