"""Which sources a push concerns, and how often hints may make somebody look."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitkruise.gitops.forges import Push
from gitkruise.kube.clock import Clock
from gitkruise.model.config import GitRef, GitSource

_OURS: Final = "refs/heads/gitkruise/status/"
WINDOW_S: Final = 0.5  # hints within it after a look become one look at its end
_SCP: Final = re.compile(r"(?:[^@/:]+@)?([^/:@]+):(?!//)(.+)")


def place_of(url: str) -> str:
    """Host and path of a repository's address: what https, ssh and web addresses have in common.

    "" for what is no address. Nothing is ever contacted because of it.
    """
    if url.startswith("/"):
        return _bare(url)
    found = _SCP.fullmatch(url) if "://" not in url else None
    if found:
        return f"{found[1]}/{_bare(found[2]).lstrip('/')}".casefold()
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return ""
    if parts.scheme == "file":
        return _bare("/" + parts.path.lstrip("/"))
    return f"{host}/{_bare(parts.path).lstrip('/')}".casefold() if host else ""


def _bare(path: str) -> str:
    return path.rstrip("/").removesuffix(".git").rstrip("/")


def places_of(source: GitSource) -> frozenset[str]:
    """Where a source's repository is; a local one also by the path behind its links. Blocking."""
    place = place_of(source.spec.url)
    if not place.startswith("/"):
        return frozenset({place})
    path = source.spec.url.removeprefix("file://")
    return frozenset({place, place_of(str(Path(path).resolve()))})


def concerns(push: Push, ref: GitRef) -> bool:
    """Whether a source that follows `ref` may stand elsewhere after `push`."""
    return not push.refs or any(_moves(moved, ref) for moved in push.refs)


def _moves(moved: str, ref: GitRef) -> bool:
    if ref.commit:
        return True  # it may not have been there before
    if ref.name:
        return moved == ref.name
    if ref.semver:
        return moved.startswith("refs/tags/")
    if ref.tag:
        return moved == f"refs/tags/{ref.tag}"
    return moved == f"refs/heads/{ref.branch}" if ref.branch else moved.startswith("refs/heads/")


class Bell:
    """Looks at once when it is rung, and then at most once each window however often it is."""

    def __init__(self, look: Callable[[], None], clock: Clock) -> None:
        self._look, self._clock = look, clock
        self._rung = asyncio.Event()

    def ring(self) -> None:
        self._rung.set()

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            self._look()
            await self._clock.sleep(WINDOW_S)


def _branches(push: Push) -> bool:
    """Whether somebody else's branch may have moved: what we write ourselves is no news."""
    return not push.refs or any(
        ref.startswith("refs/heads/") and not ref.startswith(_OURS) for ref in push.refs
    )


class Followed:
    """One source as a Receiver sees it; with `any_ref`, whatever moves in its repository."""

    __slots__ = ("_bell", "_places", "_ref")

    def __init__(self, source: GitSource, bell: Bell, *, any_ref: bool = False) -> None:
        self._places, self._bell = places_of(source), bell
        self._ref = None if any_ref else source.spec.ref

    def hear(self, push: Push, *, named: bool) -> bool:
        """Look if the push concerns this source; one that is named takes any repository."""
        here = named or not self._places.isdisjoint(map(place_of, push.urls))
        if here and (_branches(push) if self._ref is None else concerns(push, self._ref)):
            self._bell.ring()
            return True
        return False


def tell(push: Push, followed: Sequence[Followed], *, named: bool) -> int:
    """Let every source hear; how many look."""
    return sum([one.hear(push, named=named) for one in followed])
