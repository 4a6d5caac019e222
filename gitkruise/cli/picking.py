"""Which of the things there are `get` shows: -l, --state and --commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import click

from gitkruise.errors import BadRequest

if TYPE_CHECKING:
    from gitkruise.cli.views import Item
    from gitkruise.gitops.survey import Managed
    from gitkruise.model.states import State
    from gitkruise.wire.selectors import Selector

_OBJECTS: Final = ("rollouts", "clonesets", "sidecarsets")
_NOUNS: Final = {
    "-l": (*_OBJECTS, "pods", "revisions"),
    "--state": (*_OBJECTS, "units"),
    "--commit": (*_OBJECTS, "pods", "revisions"),
}


@dataclass(frozen=True, slots=True)
class Picks:
    """What has to be true of a thing to be shown; empty fields ask nothing."""

    selector: Selector
    states: frozenset[State]
    commit: str

    def objects(self, noun: str, found: Iterable[Managed]) -> list[Managed]:
        """The workloads `noun` is to be made from; of pods it is their own labels that count."""
        if noun == "pods":
            return [
                replace(m, pods=tuple(p for p in m.pods if self.selector.matches(p.labels)))
                for m in found
            ]
        return [m for m in found if self.selector.matches(m.obj["metadata"].get("labels") or {})]

    def items(self, items: Iterable[Item]) -> list[Item]:
        return [
            i
            for i in items
            if (not self.states or i["state"] in self.states)
            and (not self.commit or i["commit"].startswith(self.commit))
        ]


def picks(noun: str, selector: str, states: str, commit: str) -> Picks:
    """The wishes of a command line. Raises click.BadParameter."""
    from gitkruise.wire.selectors import parse_label_selector  # noqa: PLC0415  not for --help

    for flag, text in (("-l", selector), ("--state", states), ("--commit", commit)):
        if text and noun not in _NOUNS[flag]:
            raise click.BadParameter(f"{flag} is for {', '.join(_NOUNS[flag])}, not for {noun}")
    try:
        parsed = parse_label_selector(selector)
    except BadRequest as error:
        raise click.BadParameter(f"-l: {error.message}") from None
    return Picks(parsed, parse_states(states), commit.lower())


def parse_states(text: str) -> frozenset[State]:
    """`stuck,held` as states. Raises click.BadParameter."""
    from gitkruise.model.states import State  # noqa: PLC0415

    by_word = {state.lower(): state for state in State}
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in by_word:
            raise click.BadParameter(f'"{word}" is none of {", ".join(by_word)}')
    return frozenset(by_word[word] for word in words)
