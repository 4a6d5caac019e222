"""Unit readiness and `dependsOn` gating."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from gitkruise.kube.cache.subscriptions import Subscriptions
from gitkruise.model.gitops.config import Reference, Suspend, Unit, resolve_reference
from gitkruise.model.gitops.unit_state import State
from gitkruise.printable import shown

if TYPE_CHECKING:  # a plan starts sooner without
    from datetime import datetime

    from gitkruise.gitops.build.untrusted import CheckResult, Workers
    from gitkruise.gitops.config.sync_windows import Windows
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.record import UnitRecord

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


class UnitStates:
    """The newest record of every unit, and the units with a commit that they have not read."""

    def __init__(self) -> None:
        self._records: dict[str, UnitRecord] = {}
        self._foreign: dict[str, Mapping[str, Any]] = {}  # variables of units of other shards
        self._busy: set[str] = set()
        self._waiting: Subscriptions[str, []] = Subscriptions()  # by the unit they wait for

    def listen(self, by: str, units: Iterable[str], wake: Callable[[], None]) -> None:
        """Call `wake` for the unit `by` whenever the state of one of `units` changes."""
        self._waiting.join(by, wake, units)

    def leave(self, unit: str) -> None:
        """Remove `unit`; units that depend on it wait."""
        self._records.pop(unit, None)
        self._busy.discard(unit)
        self._waiting.leave(unit)
        self._waiting.notify((unit,))

    def receive(self, record: UnitRecord) -> None:
        """Store a new record of a unit."""
        before = self._records.get(record.unit)
        self._records[record.unit] = record
        if before is None or _variables(before) != _variables(record):
            self._waiting.notify((record.unit,))

    def receive_foreign(self, unit: str, variables: Mapping[str, Any], *, late: bool) -> None:
        """Store the state of a unit of another shard; `late`: it has not read the newest commit."""
        before, self._foreign[unit] = self._foreign.get(unit), variables
        self.busy(unit, with_news=late)
        if before != variables:
            self._waiting.notify((unit,))

    def leave_foreign(self, unit: str) -> None:
        """The state of a unit of another shard is not known; units that depend on it wait."""
        if self._foreign.pop(unit, None) is not None:
            self._waiting.notify((unit,))

    def busy(self, unit: str, *, with_news: bool) -> None:
        """Set whether `unit` has been offered a commit that it has not read."""
        if with_news is not (unit in self._busy):
            (self._busy.add if with_news else self._busy.discard)(unit)
            self._waiting.notify((unit,))

    def has_news(self, unit: str) -> bool:
        """Return whether `unit` has been offered a commit that it has not read, or waits with."""
        return unit in self._busy

    def not_ready_reason(self, unit: str) -> str:
        """Return why the readiness of `unit` is unknown; "" if it is known."""
        if unit not in self._records and unit not in self._foreign:
            return "not looked at yet"
        return "has a newer commit to look at" if unit in self._busy else ""

    def variables(self, unit: str) -> dict[str, Any]:
        """Return the variables of a `ready` expression for a unit with a record."""
        foreign = self._foreign.get(unit)
        return _variables(self._records[unit]) if foreign is None else dict(foreign)


def _variables(record: UnitRecord) -> dict[str, Any]:
    return {
        "phase": PHASE_OF[record.state],
        "state": str(record.state),
        "message": record.message,
        "updated": record.updated,
        "total": record.total,
    }


def suspension_details(unit: Unit) -> str:
    """Return ` by dana until 2026-11-21T20:00:00Z (freeze)` with the fields that are set."""
    asked = unit.spec.suspend
    return details_of(asked) if isinstance(asked, Suspend) else ""


def details_of(asked: Suspend) -> str:
    """Return the fields of a suspension that are set, as `suspension_details` does."""
    by = f" by {shown(asked.by, 80)}" if asked.by else ""
    until = f" until {shown(asked.until, 40)}" if asked.until else ""
    why = f" ({shown(asked.reason, 200)})" if asked.reason else ""
    return f"{by}{until}{why}"


class Gate:
    """Decides what one unit waits for before it takes a commit that has an effect."""

    def __init__(
        self, unit: Unit, states: UnitStates, windows: Windows, workers: Workers, clock: Clock
    ) -> None:
        self._states, self._spec, self.windows = states, unit.spec, windows
        self._unit, self._workers, self._clock = unit.id, workers, clock
        self._suspension = f"the end of its suspension{suspension_details(unit)}"
        self._answers: dict[tuple[str, str], tuple[dict[str, Any], CheckResult]] = {}
        self.approval = ""  # what a person is to agree to before the newest commit is taken
        self._awaited = tuple(
            (resolve_reference(Reference(other.name, other.namespace), unit.namespace), other.ready)
            for other in unit.spec.depends_on
        )

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the state of a unit that this one depends on changes."""
        self._states.listen(self._unit, [name for name, _ in self._awaited], wake)

    async def blocked_by(self) -> str:
        """Return `shop/db (Rolling, 1/3 updated)`, several joined by commas; "" when nothing
        blocks."""
        until = self._spec.suspended(self._clock.now())
        reasons = [self.approval, self._suspension if until else "", self.windows.why()]
        for name, ready in self._awaited:
            why = self._states.not_ready_reason(name) or await self._unready(name, ready)
            reasons.append(f"{name} ({why})" if why else "")
        return ", ".join(filter(None, reasons))

    def opens(self) -> Iterator[datetime]:
        """Yield when the suspension ends and a window opens, as far as these are closed now."""
        times = self._spec.suspended(self._clock.now()), self.windows.opens()
        yield from filter(None, times)

    async def _unready(self, name: str, ready: str) -> str:
        """Return why a unit with a record is not ready; "" when it is.

        `ready` is an expression over its phase, state, message, updated and total; without one a
        unit is ready when everything is current, or held as requested.
        """
        variables = self._states.variables(name)
        if ready:
            verdict = await self._asked(name, ready, variables)
            if verdict.why:
                return f"ready: {verdict.why}"
            good = verdict.number == 0
        else:
            good = variables["phase"] in READY
        return "" if good else f"{variables['state']}, {variables['message']}"

    async def _asked(self, name: str, ready: str, variables: dict[str, Any]) -> CheckResult:
        """Evaluate an expression once for the same variables; one that exceeded its limits is not
        evaluated again."""
        known = self._answers.get((name, ready))
        if known is None or (known[0] != variables and not known[1].costly):
            (verdict,) = await self._workers.judge([((ready,), variables)])
            known = self._answers[name, ready] = variables, verdict
        return known[1]
