"""After the writes: what their outcomes add to the status."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gitkruise.model.planning.plan import Action, Applied, Create, Delete, Outcome, Patch, Refused
from gitkruise.model.workloads import conditions as rule
from gitkruise.model.workloads.revision import REVISION
from gitkruise.planner.cloneset.status import differs
from gitkruise.wire.primitives.names import Obj

_POD_KINDS: Final = frozenset({"Pod", "PersistentVolumeClaim"})


@dataclass(frozen=True, slots=True)
class Conclusion:
    """Turns outcomes into the status to write; a value, so that plans compare.

    `before` is the status as observed, `after` the one this round computed. FailedScale and
    FailedUpdate say what the server refused, and are False again once it refuses no more
    (OpenKruise never takes them back). A write that met a newer object is no failure.
    """

    before: Obj
    after: Obj
    now: datetime

    def __call__(self, outcomes: Sequence[Outcome]) -> Mapping[str, Any] | None:
        """The whole status, or None when nothing worth writing changed.

        Without counts yet, which its schema requires, that is left to the next round.
        """
        if not self.after:
            return None
        conditions = tuple(self.after.get("conditions") or ())
        for type_, concerns in ((rule.FAILED_SCALE, _scales), (rule.FAILED_UPDATE, _updates)):
            found = [o for o in outcomes if concerns(o.action)]
            conditions = self._judged(conditions, type_, found)
        status = {key: value for key, value in self.after.items() if key != "conditions"}
        if conditions:
            status["conditions"] = [dict(c) for c in conditions]
        return status if differs(self.before, status) else None

    def _judged(
        self, conditions: tuple[Obj, ...], type_: str, outcomes: Sequence[Outcome]
    ) -> tuple[Obj, ...]:
        refused = [o for o in outcomes if isinstance(o, Refused)]
        computed = rule.find(conditions, type_)
        known = rule.find(self.before.get("conditions") or (), type_)
        if refused:
            made = rule.condition(type_, "True", message=refused[0].text)
            base = (*rule.drop(conditions, type_), *([known] if known else []))
            return rule.put(base, made, self.now)
        over = not outcomes or any(isinstance(o, Applied) for o in outcomes)
        if type_ == rule.FAILED_SCALE and over and computed and computed.get("status") == "True":
            return rule.put(conditions, rule.condition(type_, "False"), self.now)
        return conditions


def _scales(action: Action) -> bool:
    match action:
        case Create(obj=obj):
            return obj["kind"] in _POD_KINDS
        case Delete(key=key):
            return key.kind in _POD_KINDS
        case Patch():
            return False


def _updates(action: Action) -> bool:
    match action:
        case Create(obj=obj):
            return bool(obj["kind"] == REVISION.kind)  # pull jobs may fail: nothing waits for them
        case Patch(key=key):
            return key.kind == "Pod"
        case Delete():
            return False
