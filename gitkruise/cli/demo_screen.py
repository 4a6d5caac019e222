"""What a watcher of the demo sees: bars that move on a terminal, plain lines elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import click
from rich.console import Console
from rich.live import Live
from rich.text import Text

from gitkruise.cli.progress import rollout_bar
from gitkruise.cli.style import Style
from gitkruise.model.record import Rollout
from gitkruise.model.states import State
from gitkruise.wire.names import ObjectKey


class Screen:
    """Prints finished lines above, and keeps the rollouts of the moment below while it is open."""

    def __init__(self, style: Style, *, live: bool) -> None:
        self.style = style
        self._console = Console(highlight=False, no_color=not style.colour) if live else None
        self._live: Live | None = None
        self._told: dict[ObjectKey, tuple[State | None, float, str]] = {}

    def __enter__(self) -> Self:
        if self._console is not None:
            self._live = Live(console=self._console, refresh_per_second=12, transient=True)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def say(self, text: str = "") -> None:
        """One finished line."""
        if self._live is not None:
            self._live.console.print(Text.from_ansi(text))
        else:
            click.echo(text)

    def show(self, rollouts: Sequence[Rollout], now: float, ends: State) -> None:
        """The rollouts of the moment (`now` in seconds); `ends` is told by the chapter's result.

        Without a terminal one line a rollout and second, and one for each state on the way.
        """
        lines = ["         " + rollout_bar(rollout, self.style) for rollout in rollouts]
        if self._live is not None:
            self._live.update(Text.from_ansi("\n".join(lines)))
            return
        for rollout, line in zip(rollouts, lines, strict=True):
            if rollout.state in {State.WAITING, ends}:
                continue  # waiting: its counts still speak of the commit before
            state, at, text = self._told.get(rollout.key, (None, 0.0, ""))
            news = rollout.state is not state or now - at >= 1.0
            if line != text and news:
                self._told[rollout.key] = (rollout.state, now, line)
                click.echo(line)
