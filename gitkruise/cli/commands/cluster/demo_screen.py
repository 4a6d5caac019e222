"""The screen of the demo: bars that move on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import click

from gitkruise.cli.console.style import Style, wrapped
from gitkruise.cli.console.viewport import RedrawnLines
from gitkruise.cli.views.progress import rollout_bar
from gitkruise.model.gitops.record import Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey


class DemoScreen:
    """Prints finished lines above the current rollouts, which are redrawn while it is open."""

    def __init__(self, style: Style, *, live: bool) -> None:
        self.style = style
        self._live = RedrawnLines(style) if live else None
        self._printed: dict[ObjectKey, tuple[State | None, float, str]] = {}

    @property
    def live(self) -> bool:
        """Return whether it is a terminal, on which progress moves."""
        return self._live is not None

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.__exit__()

    def say(self, text: str = "") -> None:
        """Print one finished line, over as many lines of the terminal as it needs."""
        lines = list(map(self.style.line, self._wrapped(text)))
        if self._live is not None:
            self._live.print("\n".join(lines))
        else:
            click.echo("\n".join(lines))

    def _wrapped(self, text: str) -> list[str]:
        if self._live is None:
            return [text]  # a file or a pipe: programs read whole lines
        return wrapped(text, self.style.width, indent=2)

    def show(self, rollouts: Sequence[Rollout], now: float, ends: State) -> None:
        """Show the current rollouts (`now` in seconds); the result shows the state `ends`.

        Without a terminal one line per rollout and second, and one for each new state.
        """
        lines = ["         " + rollout_bar(rollout, self.style) for rollout in rollouts]
        if self._live is not None:
            self._live.draw([part for line in lines for part in self._wrapped(line)])
            return
        for rollout, line in zip(rollouts, lines, strict=True):
            if rollout.state is ends or not rollout.generation_seen:
                continue  # unseen: its counts are still those of the previous commit
            state, at, text = self._printed.get(rollout.key, (None, 0.0, ""))
            news = rollout.state is not state or now - at >= 1.0
            if line != text and news:
                self._printed[rollout.key] = (rollout.state, now, line)
                click.echo(self.style.line(line))
