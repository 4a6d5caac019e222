"""Charts and remote bases for one command: those that were fetched, and those it fetches."""

from __future__ import annotations

import atexit
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.context.cluster import ClusterChoice, connected
from gitkruise.gitops.build.base_mirrors import BASES, BaseMirrors
from gitkruise.gitops.charts.cache import CHARTS, ChartCache, wanted_of

if TYPE_CHECKING:
    from gitkruise.errors import Finding
    from gitkruise.gitops.charts.fetcher import ChartFetcher
    from gitkruise.kube.client.transport import Transport
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.config import Config, Unit


def kept_charts() -> None:
    """Let plans of this process use the charts and bases that were fetched before."""
    ChartCache.shared = ChartCache(read_environment().state_dir / CHARTS)
    BaseMirrors.shared = _base_mirrors().kept


def fetch_bases() -> None:
    """Let plans of this process fetch the remote bases that they meet."""
    BaseMirrors.shared = _base_mirrors()


def _base_mirrors() -> BaseMirrors:
    return _mirrors_in(read_environment().state_dir / BASES)


@cache
def _mirrors_in(folder: Path) -> BaseMirrors:
    """One for all plans of a process: each open mirror has a program that reads it."""
    mirrors = BaseMirrors(folder)
    atexit.register(mirrors.close)
    return mirrors


def chart_fetcher(clock: Clock) -> ChartFetcher:
    """Return the fetcher of this process."""
    from gitkruise.gitops.charts.fetcher import open_charts  # noqa: PLC0415  imports aiohttp

    return open_charts(read_environment().state_dir, clock)


async def fetch_charts(config: Config, choice: ClusterChoice | None) -> tuple[Finding, ...]:
    """Fetch the charts that units of a configuration name; return why some may be old.

    Plans of this process use them, and those that were fetched before; remote bases are fetched
    when a plan meets one. Secrets are read in the
    chosen cluster, and only if a unit names one; without a cluster the charts of such units are
    left out. Raises what `build.post_build.chart_of` raises, and ClusterFailed.
    """
    kept_charts()
    fetch_bases()
    secret = {unit.id for unit in config.units.values() if (w := wanted_of(unit)) and w.secret}
    units = [unit for unit in config.units.values() if wanted_of(unit) is not None]
    if choice is None:
        units = [unit for unit in units if unit.id not in secret]
    if not units:
        return ()
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  only for charts

    fetcher = chart_fetcher(SystemClock())
    if choice is None or not secret:
        return await _fetched(units, None, fetcher)
    async with connected(choice, read_environment()) as chosen:
        return await _fetched(units, chosen.transport, fetcher)


async def _fetched(
    units: Iterable[Unit], transport: Transport | None, fetcher: ChartFetcher
) -> tuple[Finding, ...]:
    from gitkruise.gitops.build.post_build import chart_of  # noqa: PLC0415  only for charts

    answers = [await chart_of(unit, transport, fetcher) for unit in units]
    return tuple(one.stale for one in answers if one is not None and one.stale is not None)
