"""The release of a unit with a chart: names and values of its spec, versions of its cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import ClassVar, Final

from gitkruise.errors import ClusterFailed, Finding, InvalidManifests
from gitkruise.git.helm.release import ClusterValues, FetchedChart, Release, ReleaseInputs
from gitkruise.gitops.charts.cache import WantedChart, kept_chart, wanted_of
from gitkruise.kube.client.discovery import server_version
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.package_data import KUBERNETES
from gitkruise.model.gitops.config import ChartValuesFrom, Helm, Unit
from gitkruise.printable import shown
from gitkruise.wire.catalog.catalog import Catalog

ASSUMED: Final = f"v{'.'.join(KUBERNETES)}.0"  # without a cluster
_VALIDATE: Final = "gitkruise validate"
_CORRECT: Final = "correct the template or the values, and try: gitkruise plan"
_NOT_ASKED: Final = "the cluster was not asked"
# Reads the data of a ConfigMap or Secret by kind and name; None where there is no such object.
ReadData = Callable[[str, str], Awaitable[Mapping[str, str] | None]]


@dataclass(slots=True)
class KnownData:
    """ConfigMaps and Secrets that were read in a cluster before a plan renders without one.

    `data` is by kind, namespace and name: None where there is no such object, or a text that says
    why it was not read. `version` is that of the cluster.
    """

    shared: ClassVar[KnownData | None] = None

    version: str = ""
    data: dict[tuple[str, str, str], Mapping[str, str] | str | None] = field(default_factory=dict)

    @classmethod
    def asked(cls) -> KnownData | None:
        """Return what was read for this job or process; None if no cluster was asked."""
        return _GIVEN.get() or cls.shared

    @classmethod
    def of(cls, kind: str, namespace: str, name: str) -> tuple[Mapping[str, str] | None, str]:
        """Return the data of an object as this process knows it, and why there is none."""
        known = cls.asked()
        found = known.data.get((kind, namespace, name), _NOT_ASKED) if known else _NOT_ASKED
        if found is None:
            return None, f"{kind} {namespace}/{name} {_absent('')}"
        return (None, found) if isinstance(found, str) else (found, "")


_GIVEN: Final[ContextVar[KnownData | None]] = ContextVar("known_data", default=None)


@contextmanager
def knowing(known: KnownData | None) -> Iterator[None]:
    """Render with what a caller read in a cluster, until the block ends."""
    token = _GIVEN.set(known)
    try:
        yield
    finally:
        _GIVEN.reset(token)


def release_of(unit: Unit, catalog: Catalog, inputs: ReleaseInputs | None) -> Release | None:
    """Return the release of a unit whose chart is rendered; None for another unit."""
    render = unit.spec.render
    if render.kind != "helm":
        return None
    helm = render.helm or Helm()
    return Release(
        name=helm.release_name or unit.name,
        namespace=helm.namespace or unit.spec.target.namespace or unit.namespace,
        values=helm.values,
        values_files=helm.values_files,
        include_crds=helm.include_crds,
        skip_tests=helm.skip_tests,
        api_versions=tuple(dict.fromkeys((*_served(catalog), *helm.api_versions))),
        inputs=inputs or offline_release(unit),
    )


def _served(catalog: Catalog) -> Iterator[str]:
    """Yield the custom kinds that are served; helm knows those that are built in."""
    for kind in catalog.kinds():
        if kind.crd and kind.verbs:
            yield f"{kind.group}/{kind.version}"
            yield f"{kind.group}/{kind.version}/{kind.kind}"


def offline_release(unit: Unit) -> ReleaseInputs:
    """Return what is known without a cluster: the version of the spec, or an assumed one, values
    that were read before, and the chart that was fetched last.
    Raises InvalidManifests GK3418 where none was."""
    helm = unit.spec.render.helm or Helm()
    values, unread = known_values(unit)
    asked = KnownData.asked()
    known = helm.kube_version or (asked.version if asked else "")
    return ReleaseInputs(
        kube_version=known or ASSUMED,
        assumed=not known,
        values=values,
        unread=tuple(unread),
        why="; ".join(dict.fromkeys(unread.values())),
        chart=_kept(unit),
    )


def known_values(unit: Unit) -> tuple[tuple[ClusterValues, ...], Mapping[str, str]]:
    """Return (values for a unit's chart that were read before, objects that were not and why)."""
    helm = unit.spec.render.helm or Helm()
    values, unread = [], {}
    for source in helm.values_from:
        kind, name = _named(source)
        data, why = KnownData.of(kind, unit.namespace, name)
        origin = f"{kind} {unit.namespace}/{name}"
        text = None if data is None else data.get(source.key)
        if text is not None:
            values.append(ClusterValues(origin=origin, text=text, secret=kind == "Secret"))
        elif why == _NOT_ASKED or not source.optional:
            unread[origin] = why or f"{origin} {_absent(source.key)}"
    return tuple(values), unread


def _kept(unit: Unit) -> FetchedChart | None:
    """Return the chart that was fetched last for a unit; None where its chart is in git."""
    wanted = wanted_of(unit)
    if wanted is None:
        return None
    found = kept_chart(unit)
    if found is None:
        raise InvalidManifests(_unknown(unit, wanted))
    return found


def _unknown(unit: Unit, wanted: WantedChart) -> Finding:
    following = "gitkruise plan, without --offline, fetches it when its repository answers"
    if wanted.secret:
        following = "gitkruise plan with a cluster (--context NAME) fetches it with its Secret"
    return Finding(
        code="GK3418",
        message=f"chart {shown(wanted.name)} {shown(wanted.version)} of unit {unit.id} was not"
        " fetched yet: the objects of the unit are not known here",
        notes=(
            ("why", "it is not in the state directory"),
            ("next", following),
        ),
    )


async def gather_release(
    unit: Unit, transport: Transport, read: ReadData, chart: FetchedChart | None
) -> ReleaseInputs:
    """Read the version of a cluster, and the values of its objects. Raises ApiError, and
    ClusterFailed GK4203 for a missing object or entry that is not optional."""
    helm = unit.spec.render.helm or Helm()
    values = []
    for source in helm.values_from:
        kind, name = _named(source)
        data = await read(kind, name)
        text = None if data is None else data.get(source.key)
        origin = f"{kind} {unit.namespace}/{name}"
        if text is not None:
            values.append(ClusterValues(origin=origin, text=text, secret=kind == "Secret"))
        elif not source.optional:
            raise ClusterFailed(_missing(origin, "" if data is None else source.key))
    return ReleaseInputs(
        kube_version=helm.kube_version or await server_version(transport),
        values=tuple(values),
        chart=chart,
    )


def about_templates(unit: Unit, findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings of a unit's objects; where a chart renders them, no next step takes its
    templates for manifests."""
    if unit.spec.render.kind != "helm":
        return tuple(findings)
    return tuple(_about_template(f) if f.is_error else f for f in findings)


def _about_template(finding: Finding) -> Finding:
    following = [text for label, text in finding.notes if label == "next"]
    if following and not following[0].startswith(_VALIDATE):
        return finding
    kept = [note for note in finding.notes if note[0] != "next"]
    return replace(finding, notes=(*kept, ("next", _CORRECT)))


def named_values(unit: Unit) -> Iterator[tuple[str, str]]:
    """Yield the kind and name of each object that has values for the chart of a unit."""
    yield from map(_named, (unit.spec.render.helm or Helm()).values_from)


def _named(source: ChartValuesFrom) -> tuple[str, str]:
    return ("ConfigMap", source.config_map) if source.config_map else ("Secret", source.secret)


def _absent(key: str) -> str:
    return f"has no entry {key} in UTF-8" if key else "does not exist"


def _missing(origin: str, key: str) -> Finding:
    return Finding(
        code="GK4203",
        message=f"{origin}, which render.helm.valuesFrom names, {_absent(key)}",
        notes=(
            ("unchanged", "what runs stays as it is; the commit is tried again"),
            ("next", "create it, or set optional: true in render.helm.valuesFrom"),
        ),
    )
