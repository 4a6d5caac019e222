"""Charts and remote bases for one command: those that were fetched, and those it fetches."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.context.cluster import ClusterChoice, connected
from gitkruise.errors import DiagnosticError, Finding, Severity, SourceFailed
from gitkruise.gitops.build.base_mirrors import BASES, BaseMirrors, listed_bases
from gitkruise.gitops.build.release import KnownData
from gitkruise.gitops.charts.cache import CHARTS, ChartCache, wanted_of

if TYPE_CHECKING:
    from gitkruise.gitops.charts.fetcher import ChartFetcher
    from gitkruise.kube.client.transport import Transport
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.config import Config, Unit


def kept_charts() -> None:
    """Let plans of this process use the charts and bases that were fetched before, and no values of
    a cluster."""
    ChartCache.shared = ChartCache(read_environment().state_dir / CHARTS)
    BaseMirrors.shared = _base_mirrors().kept
    KnownData.shared = None


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
    """Return the fetcher of this process, which fetches remote bases, too."""
    from gitkruise.gitops.charts.fetcher import open_charts  # noqa: PLC0415  imports aiohttp

    fetch_bases()
    return open_charts(read_environment().state_dir, clock)


def is_read_ahead(unit: Unit, choice: ClusterChoice | None) -> bool:
    """Return whether a unit needs `fetch_charts` before a plan: for its chart, or for what it names
    in the chosen cluster."""
    return wanted_of(unit) is not None or (choice is not None and _asks_cluster(unit))


def _asks_cluster(unit: Unit) -> bool:
    from gitkruise.gitops.build.post_build import wants  # noqa: PLC0415  imports the model

    return wants(unit) or _names_secret(unit)


def _names_secret(unit: Unit) -> bool:
    wanted = wanted_of(unit)
    chart = wanted is not None and bool(wanted.secret)
    return chart or any(listed.secret for listed in listed_bases([unit]))


async def fetch_charts(config: Config, choice: ClusterChoice | None) -> tuple[Finding, ...]:
    """Fetch the charts that units of a configuration name; return why some may be old or unknown.

    Plans of this process use them, and those that were fetched before; remote bases are fetched
    when a plan meets one. Secrets and values are read in the chosen cluster; without a cluster the
    charts of units that name a Secret are left out. Raises what `build.post_build` raises for
    Secrets and values, and ClusterFailed.
    """
    ChartCache.shared = ChartCache(read_environment().state_dir / CHARTS)
    fetch_bases()
    units = [unit for unit in config.units.values() if is_read_ahead(unit, choice)]
    if choice is None:
        units = [unit for unit in units if not _names_secret(unit)]
    if not units:
        return ()
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  only for charts

    fetcher = chart_fetcher(SystemClock())
    if choice is None or not any(map(_asks_cluster, units)):
        return await _fetched(units, None, fetcher)
    async with connected(choice, read_environment()) as chosen:
        return await _fetched(units, chosen.transport, fetcher)


async def _fetched(
    units: Sequence[Unit], transport: Transport | None, fetcher: ChartFetcher
) -> tuple[Finding, ...]:
    from gitkruise.gitops.build.post_build import (  # noqa: PLC0415  imports the model
        chart_of,
        read_ahead,
        read_base_secrets,
    )

    if transport is not None:
        for unit in units:
            with _errors_of(unit):
                await read_base_secrets(unit, transport)
                await read_ahead(unit, transport)
    stale: list[Finding] = []
    for unit in units:
        try:
            with _errors_of(unit):
                chart = await chart_of(unit, transport, fetcher)
        except SourceFailed as error:  # its objects are not known: those of other units are
            stale += [replace(f, severity=Severity.WARNING) for f in error.findings]
            continue
        stale += [chart.stale] if chart is not None and chart.stale is not None else []
    return tuple(stale)


@contextmanager
def _errors_of(unit: Unit) -> Iterator[None]:
    """Name the unit in errors about what its document refers to."""
    try:
        yield
    except DiagnosticError as error:
        named = (replace(f, message=f"unit {unit.id}: {f.message}") for f in error.findings)
        raise type(error)(*named) from error
