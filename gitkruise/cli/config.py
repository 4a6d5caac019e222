"""The environment and the terminal, read once: the only place that looks at either."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What this process was started with."""

    variables: Mapping[str, str]
    stdout_tty: bool
    stderr_tty: bool
    unicode: bool
    colour: bool
    width: int

    @property
    def state_dir(self) -> Path:
        """Where the embedded cluster and clones live: GITKRUISE_STATE or the platform's place."""
        chosen = self.variables.get("GITKRUISE_STATE")
        if chosen:
            return Path(chosen).expanduser()
        import platformdirs  # noqa: PLC0415  only some commands need it

        return platformdirs.user_state_path("gitkruise")

    @property
    def kubeconfig(self) -> str:
        return self.variables.get("KUBECONFIG", "")

    @property
    def interactive(self) -> bool:
        """Whether progress may redraw lines: a terminal, and not a build machine's."""
        return self.stderr_tty and not self.variables.get("CI")


def read_environment(colour: str = "auto") -> Environment:
    """`colour` is auto, always or never; auto follows NO_COLOR, FORCE_COLOR and the terminal."""
    variables = dict(os.environ)  # noqa: TID251  the one reader
    stdout_tty, stderr_tty = sys.stdout.isatty(), sys.stderr.isatty()
    return Environment(
        variables=variables,
        stdout_tty=stdout_tty,
        stderr_tty=stderr_tty,
        unicode=_can_print(sys.stdout, "✓⏸◐█░"),
        colour=_colour(colour, variables, tty=stdout_tty),
        width=_width(variables, tty=stdout_tty),
    )


def _colour(wish: str, variables: Mapping[str, str], *, tty: bool) -> bool:
    if wish != "auto":
        return wish == "always"
    if variables.get("NO_COLOR"):
        return False
    if variables.get("FORCE_COLOR") or variables.get("CLICOLOR_FORCE"):
        return True
    return tty and variables.get("TERM") != "dumb"


def _width(variables: Mapping[str, str], *, tty: bool) -> int:
    if variables.get("COLUMNS", "").isdigit():
        return max(40, int(variables["COLUMNS"]))
    return max(40, os.get_terminal_size(sys.stdout.fileno()).columns) if tty else 120


def _can_print(stream: TextIO, text: str) -> bool:
    try:
        text.encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
