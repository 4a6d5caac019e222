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


class Screen:
    """Prints finished lines above, and keeps the rollouts of the moment below while it is open."""

    def __init__(self, style: Style, *, live: bool) -> None:
        self.style, self._lines_only = style, not live
        self._console = Console(highlight=False, no_color=not style.colour) if live else None
        self._live: Live | None = None
        self._last: list[str] = []

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

    def show(self, rollouts: Sequence[Rollout]) -> None:
        """The rollouts of the moment; without a terminal only what changed is printed."""
        lines = ["         " + rollout_bar(rollout, self.style) for rollout in rollouts]
        if self._live is not None:
            self._live.update(Text.from_ansi("\n".join(lines)))
        elif lines != self._last:
            for line in lines:
                if line not in self._last:
                    click.echo(line)
        self._last = lines
