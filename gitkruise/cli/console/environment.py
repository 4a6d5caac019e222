"""The environment and the terminal; no other module reads either."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO

import click

from gitkruise.kube.system.lease_terms import SYNC_LEASE

GLYPHS: Final = "✓⏸◐█░●→"
BOUNDLESS: Final = 10_000  # columns of a pipe: nothing is cut for a program
NARROWEST: Final = 40
COLOUR_KEY: Final = "gitkruise.colour"  # where --color and --no-color of a run are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Variables and terminal of this process; `colour` and `width` are those of standard output."""

    variables: Mapping[str, str]
    stdout_tty: bool
    stderr_tty: bool
    unicode: bool
    colour: bool
    width: int
    error_colour: bool = False
    stdin_tty: bool = False

    @property
    def state_dir(self) -> Path:
        """The state directory: GITKRUISE_STATE or the default of the platform."""
        chosen = self.variables.get("GITKRUISE_STATE")
        if chosen:
            return Path(chosen).expanduser()
        import platformdirs  # noqa: PLC0415  only some commands need it

        return platformdirs.user_state_path("gitkruise")

    def controller_dir(self, lease: str) -> Path:
        """State directory of the controller that applies under `lease`, a name without slashes.

        Controllers of different names run side by side, so each has a directory of its own.
        """
        own = lease != SYNC_LEASE
        return self.state_dir / "controllers" / lease if own else self.state_dir

    @property
    def interactive(self) -> bool:
        """Return whether progress may redraw lines: on a terminal that can, but not in CI."""
        return self.stderr_tty and self.redraws and not self.variables.get("CI")

    @property
    def redraws(self) -> bool:
        """Return whether the terminal understands more than lines of text."""
        return self.variables.get("TERM") != "dumb"

    @property
    def attended(self) -> bool:
        """Return whether a person can see a question and type an answer."""
        return self.stderr_tty and self.stdin_tty


def read_environment() -> Environment:
    """Colour follows --color or --no-color, then NO_COLOR, FORCE_COLOR, TERM and the terminal."""
    variables = dict(os.environ)  # noqa: TID251  the one reader
    choice = _colour_choice()
    stdout_tty, stderr_tty = sys.stdout.isatty(), sys.stderr.isatty()
    return Environment(
        variables=variables,
        stdout_tty=stdout_tty,
        stderr_tty=stderr_tty,
        unicode=_speaks_unicode(variables, sys.stdout),
        colour=_colour(choice, variables, tty=stdout_tty),
        width=_width(variables, tty=stdout_tty),
        error_colour=_colour(choice, variables, tty=stderr_tty),
        stdin_tty=sys.stdin.isatty(),
    )


def _colour_choice() -> str:
    context = click.get_current_context(silent=True)
    return str(context.meta.get(COLOUR_KEY, "auto")) if context else "auto"


def _colour(choice: str, variables: Mapping[str, str], *, tty: bool) -> bool:
    if choice != "auto":
        return choice == "always"
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR") or variables.get("CLICOLOR_FORCE", "0") != "0":
        return True
    return tty and variables.get("TERM") != "dumb"


def _width(variables: Mapping[str, str], *, tty: bool) -> int:
    if variables.get("COLUMNS", "").isdigit():
        return max(NARROWEST, int(variables["COLUMNS"]))
    if not tty:
        return BOUNDLESS
    return max(NARROWEST, os.get_terminal_size(sys.stdout.fileno()).columns or 80)


def _speaks_unicode(variables: Mapping[str, str], stream: TextIO) -> bool:
    """Return whether locale and stream can show our glyphs (UTF-8 mode is no proof)."""
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        locale = variables.get(name, "")
        if locale:
            if "utf" not in locale.lower():
                return False
            break
    try:
        GLYPHS.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
