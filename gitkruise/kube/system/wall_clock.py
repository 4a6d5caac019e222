"""The machine's wall clock, for callers that read it once and never wait; cheap to import."""

from __future__ import annotations

from datetime import UTC, datetime


def wall_time() -> datetime:
    """Now, aware UTC."""
    return datetime.now(UTC)  # noqa: TID251  this is the clock
