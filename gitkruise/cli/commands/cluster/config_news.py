"""News of the configuration file of a running controller: it reads the file once, and says so.

A file that was edited or pulled would otherwise look like what runs: plans of the repository use
the new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gitkruise.cli.console.command import logs_json
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.findings import finding_text
from gitkruise.cli.console.log_format import announce, finding_event, print_events
from gitkruise.cli.console.output import say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.errors import Finding, Severity, UsageProblem
from gitkruise.gitops.config.loader import config_files, load_config
from gitkruise.model.gitops.config import FIELDS, Config, Unit
from gitkruise.printable import listing

if TYPE_CHECKING:
    from gitkruise.kube.system.clock import Clock

_LOOK_S: Final = 10.0
_NAMED: Final = 3
_RESTART: Final = "start gitkruise run again, which reads the file"


@asynccontextmanager
async def file_changes_printed(config: Config, clock: Clock) -> AsyncIterator[None]:
    """Print changes of the configuration file, if there is one, while the block runs."""
    if not config.origin:
        yield
        return
    news = ConfigFileWatch(config)
    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(_follow(news, clock, config))
        yield
        following.cancel()


def _print(config: Config, finding: Finding | None) -> None:
    if finding is None:
        text = f"{Path(config.origin).name} is what this process runs again"
        announce(text, "configuration-as-read", file=config.origin)
    elif logs_json():
        print_events([finding_event(finding)])
    else:
        say_on_stderr(finding_text(finding, Style.of_errors(read_environment())).split("\n"))


async def _follow(news: ConfigFileWatch, clock: Clock, config: Config) -> None:
    while True:
        await clock.sleep(_LOOK_S)
        for finding in await asyncio.to_thread(news.look):
            _print(config, finding)


class ConfigFileWatch:
    """Compares the file that `config` was loaded from with it."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._stamp: list[tuple[str, int, int]] | None = None  # of no look yet
        self._reported: Finding | None = None

    def look(self) -> list[Finding | None]:
        """Return what is new: GK7016 for a difference, None once there is none again. Blocking."""
        stamp = self._seen()
        if stamp == self._stamp:
            return []
        self._stamp, before = stamp, self._reported
        self._reported = difference(self._config)
        return [self._reported] if self._reported != before else []

    def _seen(self) -> list[tuple[str, int, int]]:
        """Names, sizes and times of the files; changed content has another stamp."""
        try:
            states = [(file.name, file.stat()) for file in config_files(Path(self._config.origin))]
        except OSError:
            return []  # one of them is gone
        return [(name, state.st_size, state.st_mtime_ns) for name, state in states]


def difference(config: Config) -> Finding | None:
    """Return GK7016 where the file differs from `config`, which it was before. Blocking."""
    path = Path(config.origin)
    try:
        now = load_config(path)
    except UsageProblem as error:
        first = error.findings[0]
        why = f"it cannot be read now: {first.code}: {first.message}"
        return _changed(path.name, why, f"correct it, then {_RESTART}")
    names = [*_differing(config, now)]
    return _changed(path.name, listing(names, _NAMED), _RESTART) if names else None


def _differing(before: Config, after: Config) -> Iterator[str]:
    for kind, field in FIELDS.items():
        old, new = (_without_places(getattr(one, field)) for one in (before, after))
        for name in sorted(old.keys() | new.keys()):
            if old.get(name) != new.get(name):
                verb = "new" if name not in old else "gone" if name not in new else "changed"
                yield f"{kind} {name} ({verb})"


def _without_places(documents: Mapping[str, Any]) -> dict[str, Any]:
    """Documents without the lines where they are written, which a comment moves."""
    return {
        name: msgspec.structs.replace(one, origin=None) if isinstance(one, Unit) else one
        for name, one in documents.items()
    }


def _changed(name: str, why: str, next_: str) -> Finding:
    return Finding(
        code="GK7016",
        message=f"{name} is not what this process runs: {why}",
        notes=(
            ("unchanged", "everything runs as the file said when this process started"),
            ("next", next_),
        ),
        severity=Severity.WARNING,
    )
