"""`get --watch`: draws the items whenever the cluster changes, until the user quits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeAlias

from gitkruise.cli.console.keyboard import on_signal
from gitkruise.cli.console.output import say, say_json
from gitkruise.cli.console.style import Style
from gitkruise.cli.views.progress import rollout_line
from gitkruise.errors import Finding, TimedOut
from gitkruise.model.gitops.unit_state import SETTLED, State
from gitkruise.wire.primitives.names import GroupKind, named
from gitkruise.wire.primitives.names import noun as kind_noun
from gitkruise.wire.primitives.times import format_time

if TYPE_CHECKING:
    from gitkruise.cli.views.resources import Item
    from gitkruise.gitops.inspect.cluster_view import Managed, Survey
    from gitkruise.kube.system.clock import Clock

_LOOK_S: Final = 1.0
GATHER_S: Final = 0.1  # changes that come together are shown together
_ENDED: Final = frozenset({State.STUCK, State.REJECTED})  # nothing moves until somebody acts
_SHOWN: Final = ("phase", "ready", "revision", "role", "pods", "available", "state", "workloads",
                 "updated", "total", "commit", "type", "reason", "message")  # fmt: skip

Picture: TypeAlias = "Callable[[datetime], tuple[Sequence[Managed], Sequence[Item]]]"


class Printer(Protocol):
    """Shows one picture after another, until `ended` is set to the exit code."""

    ended: int | None

    def show(self, found: Sequence[Managed], items: Sequence[Item], now: datetime) -> None: ...


class LineOutput:
    """Prints a line for each changed item, for jsonl a JSON document; not for terminals."""

    def __init__(self, noun: str, style: Style, *, json: bool) -> None:
        self.ended: int | None = None
        self._noun, self._style, self._json = noun, style, json
        self._seen: dict[tuple[str, str, str, str], Item] = {}

    def show(self, found: Sequence[Managed], items: Sequence[Item], now: datetime) -> None:
        noun = self._noun
        rollouts = {(*m.key.group_kind, m.key.namespace, m.key.name): m for m in found if m.rollout}
        fresh = {_identity(item): item for item in items}
        for key, item in fresh.items():
            if self._seen.get(key) == item:
                continue
            m = rollouts.get(key) if noun in {"rollouts", "clonesets"} else None
            if self._json:
                say_json(item, self._style, line=True)
            elif m is not None and m.rollout is not None:
                say(rollout_line(m.rollout, m.commit, now), self._style)
            else:
                say(item_line(noun, item, now), self._style)
        for key in self._seen.keys() - fresh.keys():
            self._gone(self._seen[key], now)
        self._seen = fresh

    def _gone(self, item: Item, now: datetime) -> None:
        if self._json:
            say_json({**item, "gone": True}, self._style, line=True)
        else:
            where = f"{_kind_word(self._noun, item)}/{item['name']} -n {item['namespace']}"
            say(f"{format_time(now)} {where} gone", self._style)


def item_line(noun: str, item: Item, now: datetime) -> str:
    """Return one line that a program can split: time, object, then key=value."""
    pairs = " ".join(_pairs(item))
    kind = _kind_word(noun, item)
    return f"{format_time(now)} {kind}/{item['name']} -n {item['namespace']} {pairs}"


def _identity(item: Item) -> tuple[str, str, str, str]:
    """Return what no other item of its list has; workloads of several kinds share names."""
    return item.get("group", ""), item.get("kind", ""), item["namespace"], item["name"]


def _kind_word(noun: str, item: Item) -> str:
    """Return the kind of an item as command lines name it."""
    return kind_noun(GroupKind(item["group"], item["kind"])) if "kind" in item else noun[:-1]


def _pairs(item: Item) -> Iterator[str]:
    for key in _SHOWN:
        value = item.get(key, "")
        if value != "":
            text = str(value).lower() if isinstance(value, bool) else str(value)
            yield f'{key}="{text}"' if " " in text else f"{key}={text}"


class Outage:
    """Since when, and why, the cluster of a survey cannot be followed."""

    def __init__(self, survey: Survey) -> None:
        self._survey, self._why = survey, ""
        self._since: datetime | None = None

    @property
    def notes(self) -> list[str]:
        """Return the lines for a picture that stays on the screen meanwhile."""
        if self._since is None:
            return []
        since = format_time(self._since)
        return [f"cannot read the cluster since {since}: this is from then", self._why, ""]

    async def follow(self, clock: Clock) -> None:
        """Notice its beginning and its end, until cancelled; both change the picture."""
        while True:
            before, self._why = self._why, self._survey.problem
            if bool(before) != bool(self._why):
                self._since = clock.now() if self._why else None
                self._survey.changed.set()
            await clock.sleep(_LOOK_S)


async def watch(
    survey: Survey,
    clock: Clock,
    picture: Picture,
    printer: Printer,
    until: Until | None,
    *also: Coroutine[Any, Any, None],
) -> int:
    """Show `picture` now and after every change; return the answer of `until`. Raises TimedOut.

    `also` runs with it, and sets `survey.changed` where it changes the picture.
    """
    async with asyncio.TaskGroup() as tasks:
        following = [tasks.create_task(one) for one in (survey.follow(clock), *also)]
        try:
            async with clock.timeout(until.limit_s if until else None):
                return await _show(survey, clock, picture, printer, until)
        except TimeoutError:
            assert until is not None
            raise TimedOut(_late(until, _awaited(*picture(clock.now())))) from None
        finally:
            for task in following:
                task.cancel()


async def _show(
    survey: Survey, clock: Clock, picture: Picture, printer: Printer, until: Until | None
) -> int:
    on_signal("SIGWINCH", survey.changed.set)
    while printer.ended is None:
        survey.changed.clear()
        now = clock.now()
        found, items = picture(now)
        printer.show(found, items, now)
        answer = until.answer([a.state for a in _awaited(found, items)]) if until else None
        if answer is not None:
            return answer
        await survey.changed.wait()
        if printer.ended is None:
            await clock.sleep(GATHER_S)
    return printer.ended


class _Awaited(NamedTuple):
    name: str
    asked: str  # as `why` takes it
    state: State
    message: str


def _awaited(found: Sequence[Managed], items: Sequence[Item]) -> list[_Awaited]:
    """Return what --exit-when-done waits for: workloads, or units, which are items alone."""
    if found:
        return [_Awaited(m.key.name, named(m.key), m.state, m.message) for m in found]
    return [
        _Awaited(
            i["name"], f"unit/{i['name']} -n {i['namespace']}", State(i["state"]), i["message"]
        )
        for i in items
        if "state" in i
    ]


@dataclass(frozen=True, slots=True)
class Until:
    """--exit-when-done: how long to wait, as given and in seconds."""

    limit: str
    limit_s: float

    def answer(self, states: Sequence[State]) -> int | None:
        """Return 0 if all are settled, 1 if nothing moves and one is stuck or rejected."""
        if states and all(state in SETTLED for state in states):
            return 0
        ended = bool(states) and all(s in SETTLED or s in _ENDED for s in states)
        return 1 if ended else None


def _late(until: Until, awaited: Sequence[_Awaited]) -> Finding:
    open_ = [a for a in awaited if a.state not in SETTLED]
    shown = "; ".join(f"{a.name} is {a.state}: {a.message}" for a in open_[:3])
    longer = "wait longer with --timeout"
    return Finding(
        code="GK7019",
        message=f"not done after {until.limit}",
        notes=(
            ("seen", shown or "nothing"),
            ("unchanged", "git and the cluster; only the wait ended"),
            ("next", f"gitkruise why {open_[0].asked}, or {longer}" if open_ else longer),
        ),
    )
