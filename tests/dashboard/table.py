"""A source of rows that a test writes."""

from __future__ import annotations

import asyncio
from typing import Any

from gitkruise.dashboard.gate import Viewer


class Table:
    """A source whose rows a test writes."""

    def __init__(self) -> None:
        self.changed = asyncio.Event()
        self.topics: dict[str, dict[str, Any]] = {}
        self.reads = 0
        self.failure: Exception | None = None
        self.answers: dict[str, Any] = {}  # to questions, by path
        self.known = True  # whether objects have an explanation
        self.explained: dict[str, Any] = {}  # more of each explanation

    def rows(self, topic: str) -> dict[str, Any]:
        self.reads += 1
        return self.topics.get(topic, {})

    async def why(self, noun: str, namespace: str, name: str) -> Any:
        if self.failure is not None:
            raise self.failure
        reasons = [f"{noun} {namespace} {name}"]
        found = {"reasons": reasons, "next": [f"gitkruise promote {name}"], **self.explained}
        return found if self.known else None

    async def find_out(self, about: str, viewer: Viewer) -> Any:
        if self.failure is not None:
            raise self.failure
        return self.answers.get(about)
