"""The filters of `get`: -l, --state and --commit."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from string import hexdigits
from typing import TYPE_CHECKING, Final

import click

from gitkruise.errors import BadRequest

if TYPE_CHECKING:
    from gitkruise.cli.views.resources import Item
    from gitkruise.gitops.inspect.cluster_view import Managed
    from gitkruise.model.gitops.unit_state import State
    from gitkruise.wire.values.selectors import Selector

_OBJECTS: Final = (
    "rollouts", "clonesets", "deployments", "statefulsets", "advancedstatefulsets", "daemonsets",
    "sidecarsets",
)  # fmt: skip
_NOUNS: Final = {
    "-l": (*_OBJECTS, "pods", "revisions"),
    "--state": (*_OBJECTS, "units"),
    "--commit": (*_OBJECTS, "pods", "revisions"),
}


@dataclass(frozen=True, slots=True)
class Filters:
    """Conditions of the items that `get` shows; an empty field is no condition."""

    selector: Selector
    states: frozenset[State]
    commit: str

    def objects(self, noun: str, found: Iterable[Managed]) -> list[Managed]:
        """Return the workloads that match; for pods the labels of each pod are matched."""
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


def parse_filters(noun: str, selector: str, states: str, commit: str) -> Filters:
    """Parse the filter flags of a command line. Raises click.BadParameter."""
    from gitkruise.wire.values.selectors import parse_label_selector  # noqa: PLC0415  not for --help

    for flag, text in (("-l", selector), ("--state", states), ("--commit", commit)):
        if text and noun not in _NOUNS[flag]:
            raise click.BadParameter(f"{flag} is for {', '.join(_NOUNS[flag])}, not for {noun}")
    try:
        parsed = parse_label_selector(selector)
    except BadRequest as error:
        raise click.BadParameter(f"-l: {error.message}") from None
    prefix = commit.lower()
    if not set(prefix) <= set(hexdigits):
        why = "write the beginning of the id of a commit, as git rev-parse prints it"
        raise click.BadParameter(f"--commit {commit}: {why}")
    return Filters(parsed, parse_states(states), prefix)


def parse_states(text: str) -> frozenset[State]:
    """Parse `stuck,held` as states. Raises click.BadParameter."""
    from gitkruise.model.gitops.unit_state import State  # noqa: PLC0415

    by_word = {state.lower(): state for state in State}
    words = [word.strip().lower() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in by_word:
            raise click.BadParameter(f'"{word}": unknown state; known: {", ".join(by_word)}')
    return frozenset(by_word[word] for word in words)
