"""Dispatch of pushes: the sources that a push concerns, and the rate of polls it may trigger."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitkruise.gitops.forges.webhook_payloads import Push
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import GitRef, GitSource

_OURS: Final = "refs/heads/gitkruise/status/"
WINDOW_S: Final = 0.5  # hints within it after a look become one look at its end
_SCP: Final = re.compile(r"(?:[^@/:]+@)?([^/:@]+):(?!//)(.+)")


def place_of(url: str) -> str:
    """Return host and path of a repository's address: the parts that https, ssh and web URLs share.

    "" for an invalid address. No connection is ever opened because of it.
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
    """Return the places of a source's repository; for a local one also the resolved path.
    Blocking."""
    place = place_of(source.spec.url)
    if not place.startswith("/"):
        return frozenset({place})
    path = source.spec.url.removeprefix("file://")
    return frozenset({place, place_of(str(Path(path).resolve()))})


def concerns(push: Push, ref: GitRef) -> bool:
    """Return whether `push` may move the commit of a source that follows `ref`."""
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


class Debounce:
    """Calls `look` on the first trigger, and then at most once per window."""

    def __init__(self, look: Callable[[], None], clock: Clock) -> None:
        self._look, self._clock = look, clock
        self._rung = asyncio.Event()

    def trigger(self) -> None:
        self._rung.set()

    async def run(self) -> None:
        """Answer triggers until cancelled."""
        while True:
            await self._rung.wait()
            self._rung.clear()
            self._look()
            await self._clock.sleep(WINDOW_S)


def _branches(push: Push) -> bool:
    """Return whether a branch that others write may have moved; our own status branches do not
    count."""
    return not push.refs or any(
        ref.startswith("refs/heads/") and not ref.startswith(_OURS) for ref in push.refs
    )


class Followed:
    """One source of a Receiver; with `any_ref`, every ref of its repository counts."""

    __slots__ = ("_debounce", "_places", "_ref")

    def __init__(self, source: GitSource, debounce: Debounce, *, any_ref: bool = False) -> None:
        self._places, self._debounce = places_of(source), debounce
        self._ref = None if any_ref else source.spec.ref

    def receive(self, push: Push, *, named: bool) -> bool:
        """Trigger a poll if the push concerns this source; a `named` one accepts any repository."""
        here = named or not self._places.isdisjoint(map(place_of, push.urls))
        if here and (_branches(push) if self._ref is None else concerns(push, self._ref)):
            self._debounce.trigger()
            return True
        return False


def dispatch(push: Push, followed: Sequence[Followed], *, named: bool) -> int:
    """Dispatch a push to every source; return how many poll."""
    return sum([one.receive(push, named=named) for one in followed])
