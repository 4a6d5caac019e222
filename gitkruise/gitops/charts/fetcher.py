"""Charts for units: fetched when they are new, and kept while their repository is away."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Final, Protocol

import msgspec

from gitkruise.errors import (
    ClusterFailed,
    Finding,
    InvalidManifests,
    Severity,
    SourceFailed,
    Unavailable,
)
from gitkruise.git.helm.release import FetchedChart
from gitkruise.gitops.charts import registry, repository
from gitkruise.gitops.charts.cache import CHARTS, ChartCache, WantedChart, wanted_of
from gitkruise.gitops.charts.repository import ChartIndex
from gitkruise.gitops.charts.versions import ChartVersion, chosen
from gitkruise.gitops.config.registry_checks import address_of
from gitkruise.gitops.http_get import Access, Fetch, fetch
from gitkruise.gitops.registry.requests import ContentHost
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.private_files import unusable_state
from gitkruise.model.gitops.config import OCI, Helm, Unit
from gitkruise.model.gitops.record import ChartRecord
from gitkruise.printable import shown
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.values.semver_range import version_of

log = logging.getLogger(__name__)
_SILENT_S: Final = 20.0  # in which a repository that failed is not asked again
_KNOWN_S: Final = 20.0  # in which what it said is taken for all units


class Charts(Protocol):
    """Everything that brings charts for units."""

    async def fetched(self, unit: Unit, access: Access) -> ChartAnswer:
        """Return the chart of a repository that a unit names. Raises SourceFailed, and
        InvalidManifests for a chart or a version that is not there."""
        ...

    @property
    def kept(self) -> Charts:
        """Those that were fetched before, without a request."""
        ...


@dataclass(frozen=True, slots=True)
class ChartAnswer:
    """A chart; `stale` says why it may be older than the newest one."""

    chart: FetchedChart
    stale: Finding | None = None


@dataclass(frozen=True, slots=True)
class KeptCharts:
    """The charts of a cache. A chart that it lacks is not known: nothing is asked."""

    cache: ChartCache

    async def fetched(self, unit: Unit, access: Access) -> ChartAnswer:
        """Return the chart that was fetched last. Raises SourceFailed GK3413 without one."""
        del access
        wanted = wanted_of(unit)
        assert wanted is not None, "of a unit with a chart of a repository"
        found = await asyncio.to_thread(self.cache.find, wanted)
        if found is None:
            raise SourceFailed(_silent(wanted, "it was not fetched yet"))
        return ChartAnswer(found)

    @property
    def kept(self) -> KeptCharts:
        return self


@dataclass(frozen=True, slots=True)
class LiveCharts:
    """The charts that records of units name, by their digest: a range may mean another version by
    now, and a version may have been published again. Others are as `charts` has them."""

    charts: Charts
    cache: ChartCache
    live: Mapping[str, ChartRecord]

    async def fetched(self, unit: Unit, access: Access) -> ChartAnswer:
        """Return the chart that is live. Raises as `Charts.fetched`, and SourceFailed GK3413 for
        an archive that is neither kept nor published any more."""
        wanted, live = wanted_of(unit), self.live.get(unit.id)
        if wanted is None or live is None or not _may_be(wanted, live):
            return await self.charts.fetched(unit, access)
        digest = live.digest.removeprefix("sha256:")
        kept = await asyncio.to_thread(self.cache.archived, wanted, live.version, digest)
        if kept is not None:
            return ChartAnswer(kept)
        answer = await self.charts.fetched(_at_version(unit, live.version), access)
        if answer.chart.digest != digest:
            raise SourceFailed(_not_kept(unit, live, digest, answer.chart))
        return answer

    @property
    def kept(self) -> Charts:
        return self.charts.kept


def _may_be(wanted: WantedChart, live: ChartRecord) -> bool:
    same = (wanted.repository, wanted.name) == (live.repository, live.name)
    return same and (version_of(wanted.version) is None or wanted.version == live.version)


def _at_version(unit: Unit, version: str) -> Unit:
    replaced = msgspec.structs.replace
    helm = replaced(unit.spec.render.helm or Helm(), version=version)
    render = replaced(unit.spec.render, helm=helm)
    return replaced(unit, spec=replaced(unit.spec, render=render))


@dataclass(slots=True)
class _KnownHost:
    """A repository of charts as one Secret reads it."""

    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    index: ChartIndex = field(default_factory=ChartIndex)
    versions: dict[str, tuple[float, tuple[ChartVersion, ...]]] = field(default_factory=dict)
    tags: registry.ReadTags = field(default_factory=dict)
    failed: dict[str, tuple[float, str]] = field(
        default_factory=dict
    )  # until when, and why, by scope
    unread_since: dict[str, datetime] = field(default_factory=dict)  # by the innermost scope


def _scopes(wanted: WantedChart) -> tuple[str, str, str]:
    """Return the scopes of a failure: the repository, a chart of it, and the version of a unit."""
    return "", wanted.name, f"{wanted.name} {wanted.version}"


class ChartFetcher:
    """Fetches charts into a cache. Units of one repository wait for each other, and only they."""

    def __init__(self, cache: ChartCache, clock: Clock, get: Fetch = fetch) -> None:
        self._cache, self._clock, self._get = cache, clock, get
        self._known: defaultdict[str, _KnownHost] = defaultdict(_KnownHost)
        self.kept = KeptCharts(cache)

    async def fetched(self, unit: Unit, access: Access) -> ChartAnswer:
        """Return the chart of a unit that names one of a repository.

        A kept exact version is taken without a request. A repository that is away leaves the last
        version in use. Raises SourceFailed GK3413 or GK3416 without one, and InvalidManifests
        GK3414.
        """
        wanted = wanted_of(unit)
        assert wanted is not None, "of a unit with a chart of a repository"
        kept = await asyncio.to_thread(self._cache.find, wanted)
        if kept is not None and version_of(wanted.version) is not None:
            return ChartAnswer(kept)
        known, scope = self._known[wanted.scope], _scopes(wanted)[-1]
        async with known.turn:
            try:
                found = await self._asked(unit, wanted, access, known, kept)
            except SourceFailed as error:
                log.warning(log_line("chart-not-fetched", unit=unit.id, error=error))
                since = known.unread_since.setdefault(scope, self._clock.now())
                if kept is None:
                    raise
                return ChartAnswer(kept, _stale(kept, since, error))
            except InvalidManifests:
                known.unread_since.pop(scope, None)  # it answered
                raise
        known.unread_since.pop(scope, None)
        return ChartAnswer(found)

    async def _asked(
        self, unit: Unit, wanted: WantedChart, access: Access, known: _KnownHost,
        kept: FetchedChart | None,
    ) -> FetchedChart:  # fmt: skip
        """Ask the repository, unless it, or the chart, failed a moment ago. Raises SourceFailed."""
        scopes = _scopes(wanted)
        for scope in scopes:
            until, why = known.failed.get(scope, (0.0, ""))
            if why and self._clock.monotonic() < until:
                raise SourceFailed(_silent(wanted, why))
        host = ContentHost(
            home=address_of(wanted.repository), access=access, namespace=unit.namespace,
            guarded=unit.custom, fetch=self._get,
        )  # fmt: skip
        listed = False
        try:
            versions = await self._versions(host, wanted, known)
            listed = True
            found = await self._current(host, chosen(wanted, versions), wanted, known, kept)
        except Unavailable as error:
            # An index is of all charts; a registry has a list for each, and may refuse one alone.
            scope = scopes[2 if listed else int(host.answered and _is_registry(wanted))]
            why = access.cover(error.message)
            pause = max(_SILENT_S, error.details.retry_after_s)
            known.failed[scope] = self._clock.monotonic() + pause, why
            raise SourceFailed(_silent(wanted, why)) from error
        for scope in scopes:
            known.failed.pop(scope, None)
        return found

    async def _current(
        self, host: ContentHost, version: ChartVersion, wanted: WantedChart, known: _KnownHost,
        kept: FetchedChart | None,
    ) -> FetchedChart:  # fmt: skip
        """Return the version that is chosen now, which may be the one that was kept."""
        oci = _is_registry(wanted)
        if oci and not version.digest:
            version = await self._with_digest(host, wanted, version, known)
        same = kept is not None and kept.version == version.version
        if kept is not None and same and version.digest in {"", kept.digest}:
            return kept
        if version.digest and self._cache.archived(wanted, version.version, version.digest):
            return self._cache.note(wanted, version.version, version.digest)
        if oci:
            data = await registry.archive_of(host, wanted, version)
        else:
            data = await repository.archive_of(host, version)
        digest = hashlib.sha256(data).hexdigest()
        if version.digest not in {"", digest}:
            raise SourceFailed(_other_digest(wanted, version, digest))
        try:
            return await asyncio.to_thread(self._cache.keep, wanted, version.version, data)
        except OSError as error:
            raise ClusterFailed(unusable_state(self._cache.folder, error)) from error

    async def _versions(
        self, host: ContentHost, wanted: WantedChart, known: _KnownHost
    ) -> tuple[ChartVersion, ...]:
        """Return the versions of a chart, as the repository listed them a moment ago or now."""
        at, versions = known.versions.get(wanted.name, (0.0, ()))
        if not versions or self._clock.monotonic() >= at + _KNOWN_S:
            if _is_registry(wanted):
                versions = tuple(await registry.versions_of(host, wanted))
            else:
                versions = tuple(await repository.versions_of(host, wanted, known.index))
            known.versions[wanted.name] = self._clock.monotonic(), versions
        return versions

    async def _with_digest(
        self, host: ContentHost, wanted: WantedChart, version: ChartVersion, known: _KnownHost
    ) -> ChartVersion:
        """Return a version of a registry, whose list has no digests, with that of its archive: a
        tag may be pushed again. All units share the answer as long as the list."""
        digest = await registry.digest_of(host, wanted, version, known.tags)
        found = replace(version, digest=digest)
        at, versions = known.versions[wanted.name]
        listed = tuple(found if one is version else one for one in versions)
        known.versions[wanted.name] = at, listed
        return found


def open_charts(state_dir: Path, clock: Clock) -> ChartFetcher:
    """Return the fetcher of a process; its plans use what was fetched."""
    ChartCache.shared = ChartCache(state_dir / CHARTS)
    return ChartFetcher(ChartCache.shared, clock)


def _is_registry(wanted: WantedChart) -> bool:
    return wanted.repository.lower().startswith(OCI)


def _silent(wanted: WantedChart, why: str) -> Finding:
    return Finding(
        code="GK3413",
        message=f"chart {shown(wanted.name)} cannot be read from {shown(wanted.repository)}: {why}",
        notes=(
            ("unchanged", "what runs stays as it is; it is tried again"),
            ("next", "correct render.helm.repository or its Secret, or wait for the server"),
        ),
    )


def _other_digest(wanted: WantedChart, version: ChartVersion, digest: str) -> Finding:
    return Finding(
        code="GK3416",
        message=f"the archive of chart {shown(wanted.name)} {shown(version.version)} is not the one"
        f" that {shown(wanted.repository)} names",
        notes=(
            ("named", f"sha256:{version.digest}"),
            ("received", f"sha256:{digest}"),
            ("unchanged", "what runs stays as it is; it is tried again"),
            ("next", "ask the operator of the repository of charts"),
        ),
    )


def _not_kept(unit: Unit, live: ChartRecord, digest: str, found: FetchedChart) -> Finding:
    return Finding(
        code="GK3413",
        message=f"unit {unit.id}: the archive of {live} that is live is not kept here, and"
        f" {shown(live.repository)} has another one under this version",
        notes=(
            ("live", f"sha256:{digest}"),
            ("found", f"sha256:{found.digest}"),
            ("next", "gitkruise drift, without a cluster, shows what the controller recorded"),
        ),
    )


def _stale(chart: FetchedChart, since: datetime, error: SourceFailed) -> Finding:
    first = error.findings[0]
    return Finding(
        code="GK3417",
        message=f"chart {shown(chart.name)} of {shown(chart.repository)} has not been readable"
        f" since {format_time(since)}: {chart} stays in use",
        notes=(("why", f"{first.code}: {first.message}"), *first.notes[-1:]),
        severity=Severity.WARNING,
    )
