"""How each unit of a process stands, and which of them another unit still waits for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gitkruise.kube.expressions import BadExpression, holds
from gitkruise.model.config import Reference, Unit, resolve_reference
from gitkruise.model.states import State

if TYPE_CHECKING:  # a plan starts sooner without
    from gitkruise.gitops.windows import Windows
    from gitkruise.model.record import UnitRecord

# The phases that `ready` expressions know, as kstatus and Flux name them.
PHASE_OF: Final[Mapping[State, str]] = {
    State.DONE: "Current",
    State.HELD: "Held",
    State.DRIFTED: "Current",  # it differs from git because it may: a mode of the unit
    State.ROLLING: "InProgress",
    State.WAITING: "InProgress",
    State.PAUSED: "Paused",
    State.STUCK: "Failed",
    State.REJECTED: "Failed",
    State.UNKNOWN: "Unknown",
}
READY: Final = frozenset({"Current", "Held"})


class Standings:
    """The newest record of every unit, and which of them have news to look at."""

    def __init__(self) -> None:
        self._records: dict[str, UnitRecord] = {}
        self._busy: set[str] = set()
        self._listeners: dict[str, dict[str, Callable[[], None]]] = {}

    def listen(self, unit: str, by: str, wake: Callable[[], None]) -> None:
        """Call `wake` for the unit `by` whenever `unit` stands otherwise than before."""
        self._listeners.setdefault(unit, {})[by] = wake

    def leave(self, unit: str) -> None:
        """`unit` is no more; whoever depends on it waits."""
        self._records.pop(unit, None)
        self._busy.discard(unit)
        for listeners in self._listeners.values():
            listeners.pop(unit, None)
        self._tell(unit)

    def hear(self, record: UnitRecord) -> None:
        """A unit has a new record."""
        before = self._records.get(record.unit)
        self._records[record.unit] = record
        if before is None or _variables(before) != _variables(record):
            self._tell(record.unit)

    def busy(self, unit: str, *, with_news: bool) -> None:
        """Whether a commit was offered to `unit` that it has not looked at."""
        if with_news is not (unit in self._busy):
            (self._busy.add if with_news else self._busy.discard)(unit)
            self._tell(unit)

    def has_news(self, unit: str) -> bool:
        """Whether a commit was offered to `unit` that it has not looked at, or waits with."""
        return unit in self._busy

    def why_not(self, unit: str, ready: str) -> str:
        """Why `unit` does not count as ready; "" when it does.

        `ready` is an expression over its phase, state, message, updated and total; without one
        a unit is ready when all is current, or held as asked. Raises BadExpression.
        """
        record = self._records.get(unit)
        if record is None:
            return "not looked at yet"
        if unit in self._busy:
            return "has a newer commit to look at"
        variables = _variables(record)
        good = holds(ready, variables) if ready else variables["phase"] in READY
        return "" if good else f"{record.state}, {record.message}"

    def _tell(self, unit: str) -> None:
        for wake in list(self._listeners.get(unit, {}).values()):
            wake()


def _variables(record: UnitRecord) -> dict[str, Any]:
    return {
        "phase": PHASE_OF[record.state],
        "state": str(record.state),
        "message": record.message,
        "updated": record.updated,
        "total": record.total,
    }


SAMPLE: Final[Mapping[str, Any]] = {
    "phase": "Current", "state": "Done", "message": "", "updated": 1, "total": 1,
}  # fmt: skip


class Gate:
    """Tells one unit what it waits for before it takes a commit that changes something."""

    def __init__(self, unit: Unit, standings: Standings, windows: Windows) -> None:
        self._standings, self._unit, self.windows = standings, unit.id, windows
        self.consent = ""  # what a person is to agree to before the newest commit is taken
        self._awaited = tuple(
            (resolve_reference(Reference(other.name, other.namespace), unit.namespace), other.ready)
            for other in unit.spec.depends_on
        )

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` when somebody this unit depends on stands otherwise than before."""
        for name, _ in self._awaited:
            self._standings.listen(name, self._unit, wake)

    def waits_for(self) -> str:
        """`shop/db (Rolling, 1/3 updated)`, several joined by commas; "" when nobody."""
        return ", ".join(self._unready())

    def _unready(self) -> Iterator[str]:
        if closed := self.windows.why():
            yield closed
        if self.consent:
            yield self.consent
        for name, ready in self._awaited:
            try:
                why = self._standings.why_not(name, ready)
            except BadExpression as error:
                why = f"ready: {error}"
            if why:
                yield f"{name} ({why})"
