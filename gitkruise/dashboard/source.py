"""Source of the rows that pages show."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

if TYPE_CHECKING:
    from gitkruise.dashboard.gate import Viewer

# A topic as a path: `fleet`, `commit/4f2c9e1`, or `pods/cloneset/shop/checkout`.
Topic: TypeAlias = str
# JSON objects by a key of their own; HEAD is what the whole topic has once.
Rows: TypeAlias = Mapping[str, Any]
HEAD: Final = ""
TOPIC_MAX: Final = 600  # characters: a kind, a namespace and a name


class Source(Protocol):
    """State of a cluster as its readers see it."""

    @property
    def changed(self) -> asyncio.Event:
        """Return what is set when rows may have changed."""
        ...

    def rows(self, topic: Topic) -> Rows:
        """Return the rows of a topic as of now; none for a topic that does not exist."""
        ...

    async def why(self, noun: str, namespace: str, name: str) -> Any:
        """Return the explanation of an object, None when it is gone. Raises GitkruiseError."""
        ...

    async def find_out(self, about: str, viewer: Viewer) -> Any:
        """Return the answer to a question that takes a computation, by its path: `plan/4f2c9e1`.

        It has only what the viewer may see, and counts the rest. None for what does not exist.
        Raises GitkruiseError, and RightsUnknown.
        """
        ...
