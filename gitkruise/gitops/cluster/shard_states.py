"""States of units that units of other shards wait for, in annotations of the shards' Leases.

Replicas look at these Leases all the time, so that a state costs no request of its own: it travels
with the next renewal. A state counts while a replica holds the shard.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.kube.cache.leader_election import Lease
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
STATES: Final = "gitkruise.io/unit-states"  # annotation: by unit, its state and commit
_BYTES_MAX: Final = 200_000  # all annotations of an object have 262144


@dataclass(frozen=True, slots=True)
class SharedState:
    """State of a unit as another shard reports it.

    `variables` are those of `ready` expressions, `commit` the newest one that the unit has read.
    """

    variables: Mapping[str, Any]
    commit: str


@dataclass(frozen=True, slots=True)
class ShardStates:
    """The states that one shard reports in its Lease `own`, and those that the `others` report."""

    own: Lease
    others: Sequence[Lease]

    def publish(self, states: Mapping[str, SharedState]) -> None:
        """Report `states` with the next renewal."""
        text = json.dumps(
            {name: [dict(one.variables), one.commit] for name, one in sorted(states.items())},
            separators=(",", ":"),
        )
        if len(text) > _BYTES_MAX:
            log.warning(
                log_line(
                    "unit-states-not-shared", units=len(states), bytes=len(text),
                    effect="units of other shards that depend on them wait",
                )
            )  # fmt: skip
            text = "{}"
        self.own.note(STATES, text)

    def read(self) -> dict[str, SharedState]:
        """Return the states that other shards report now."""
        found: dict[str, SharedState] = {}
        for lease in self.others:
            if lease.is_held:
                found |= dict(_parsed(lease.annotations.get(STATES, "{}")))
        return found


def _parsed(text: str) -> Iterator[tuple[str, SharedState]]:
    """Yield states by unit; a state that cannot be read is not known."""
    try:
        value = read_json(text)
    except ValueError:
        return
    for name, state in value.items() if isinstance(value, dict) else ():
        match state:
            case [dict(variables), str(commit)]:
                yield name, SharedState(variables, commit)
            case _:
                pass
