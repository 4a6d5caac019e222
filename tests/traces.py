"""A trace of a rollout as text, for goldens."""

from __future__ import annotations

from datetime import datetime

from gitkruise.model.planning.trace import Trace

_WHAT_WIDTH, _OBJECT_WIDTH = 26, 24


def render_text(trace: Trace) -> str:
    """One line of text a Line, seconds from the start first, ending in how the run ended."""
    rows = [
        _row(_since(trace.start, line.at), line.what, line.object, line.why) for line in trace.lines
    ]
    ending = "quiet" if trace.quiet else "stopped"
    return "".join(f"{row}\n" for row in [*rows, _row(_since(trace.start, trace.end), ending)])


def _since(start: datetime, at: datetime) -> str:
    seconds = (at - start).total_seconds()
    text = f"{seconds:.3f}".rstrip("0").rstrip(".")
    return f"t+{text + 's':>9}"


def _row(when: str, what: str, name: str = "", why: str = "") -> str:
    return f"{when}  {what:<{_WHAT_WIDTH}}{name:<{_OBJECT_WIDTH}}{why}".rstrip()
