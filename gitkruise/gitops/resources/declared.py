"""One configuration out of a file's documents and the objects of a cluster, broken ones aside."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from gitkruise.errors import Crashed, Finding, SourceFailed
from gitkruise.git.plumbing.refs import parse_url
from gitkruise.gitops.cluster.engine import AUTO
from gitkruise.gitops.config.dependency_checks import missing_for, named_by, waits_of
from gitkruise.gitops.config.loader import check_document, declared
from gitkruise.gitops.config.metric_addresses import out_of_reach
from gitkruise.gitops.config.registry_checks import BASES, address_of, registry_address
from gitkruise.gitops.config.sync_window_checks import bad_windows
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.resources.expression_checks import ExpressionChecks
from gitkruise.model.gitops.config import (
    FIELDS,
    OCI,
    Config,
    GitSource,
    Receiver,
    Sink,
    Unit,
    resolve_reference,
)
from gitkruise.model.gitops.document import Document
from gitkruise.planner.sync.annotations import CONSENTS
from gitkruise.planner.sync.dependencies import cycle
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

FINALIZER: Final = "gitkruise.io/deletion"
Name = tuple[str, str]  # (kind, namespace/name)
Value = GitSource | Unit | Sink | Receiver
_ORDER: Final = ("GitSource", "Sink", "Receiver", "Unit")  # nothing refers to what comes later
_ADDRESSES: Final = (("prometheus", "address"), ("web", "url"))
_REPOSITORY: Final = ("spec", "render", "helm", "repository")
_EVERYWHERE: Final = "write an address that is the same for everybody: https:// or ssh://"
_HERE: Final = "for the embedded cluster: gitkruise run --sandbox --local-sources"
_REFERRING: Final = frozenset({"sources", "dependsOn"})  # and whatever ends in Ref


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceRules:
    """Restrictions of custom resources, which many users may write, that files do not have.

    `home` is the namespace gitkruise itself runs in, "" outside of the cluster. There a unit of
    another namespace must name a service account. `local_sources`: a source may be a folder of
    gitkruise's own machine, which is for an embedded cluster in which one person writes everything.
    """

    cross_namespace: bool = False
    default_account: str = ""
    home: str = ""
    local_sources: bool = False


@dataclass(frozen=True, slots=True)
class Declared:
    """The configuration to run, and the problems of the other objects."""

    config: Config
    broken: Mapping[Name, Finding]
    leaving: tuple[tuple[Obj, Unit | None], ...]  # None if the unit is not known


@dataclass(slots=True)
class ResourceReader:
    """Reads objects, each version of one only once."""

    base: Config
    rules: ResourceRules
    expressions: ExpressionChecks
    containment: Containment = UNREPORTED
    _known: dict[str, tuple[object, Value | Finding]] = field(default_factory=dict)  # by uid

    async def read(self, objects: Sequence[Obj], engine: str) -> Declared:
        """The configuration of the file with `objects`; "" for an engine not chosen yet."""
        broken: dict[Name, Finding] = {}
        leaving: list[tuple[Obj, Unit | None]] = []
        good: dict[Name, Value] = {}
        kept: dict[str, tuple[object, Value | Finding]] = {}
        for obj in objects:
            uid = obj["metadata"]["uid"]
            kept[uid] = self._one(obj)
            value = kept[uid][1]
            if obj["kind"] == "Unit" and obj["metadata"].get("deletionTimestamp"):
                leaving.append((obj, value if isinstance(value, Unit) else None))
            elif isinstance(value, Finding):
                broken[name_of(obj)] = value
            elif obj["kind"] != "Unit" or FINALIZER in obj["metadata"].get("finalizers", ()):
                good[name_of(obj)] = value
        self._known = kept
        for name in [n for n in good if n[1] in getattr(self.base, FIELDS[n[0]])]:
            broken[name] = _twice(name)
            del good[name]
        units = [value for value in good.values() if isinstance(value, Unit)]
        wrong = await self.expressions.findings(units)
        return Declared(_joined(self.base, good, broken, wrong, engine), broken, tuple(leaving))

    def _one(self, obj: Obj) -> tuple[object, Value | Finding]:
        meta = obj["metadata"]
        consents = [get(meta, "annotations", word) for word in CONSENTS]
        version = (meta.get("generation"), *consents)
        known = self._known.get(meta["uid"])
        if known is not None and known[0] == version:
            return known
        try:
            with self.containment.of(" ".join(name_of(obj))):
                return version, self._value(obj)
        except Crashed as error:
            return object(), error.findings[0]  # like no version: it is tried again

    def _value(self, obj: Obj) -> Value | Finding:
        obj = _without_old_default(obj)
        document = Document(obj=obj, file=" ".join(name_of(obj)))
        problems = [*check_document(document)] or [*self._against(obj)]
        if problems:
            return problems[0]
        value = declared(document, obj)
        if isinstance(value, GitSource):
            return msgspec.structs.replace(value, custom=True)
        if not isinstance(value, Unit):
            return value
        account = value.spec.service_account_name or self.rules.default_account
        if not account and self.rules.home not in {"", value.namespace}:
            return _nameless(value.id)
        spec = msgspec.structs.replace(value.spec, service_account_name=account)
        return msgspec.structs.replace(value, spec=spec, custom=True)

    def _against(self, obj: Obj) -> Iterator[Finding]:
        """Yield the settings that a file may have and an object may not."""
        namespace = obj["metadata"]["namespace"]
        for path, other in references(obj["spec"], ("spec",)):
            if other not in {"", namespace} and not self.rules.cross_namespace:
                yield _abroad(obj, path, other)
        if obj["kind"] == "GitSource":
            yield from self._unread(obj, "spec.url", obj["spec"]["url"])
        for number, base in enumerate(get(obj, *BASES, default=())):
            yield from self._unread(obj, f"{'.'.join(BASES)}.{number}.url", base["url"])
        if obj["kind"] == "Unit":
            yield from self._unmeasured(obj)

    def _unmeasured(self, obj: Obj) -> Iterator[Finding]:
        """Yield why a metric, a chart or an image may not name an address: what it says would be
        readable in a record."""
        for path, text, address in _named_addresses(obj):
            yield from self._out_of_reach(obj, path, text, address)

    def _out_of_reach(self, obj: Obj, path: str, text: str, address: str) -> Iterator[Finding]:
        why = out_of_reach(
            address,
            obj["metadata"]["namespace"],
            cross_namespace=self.rules.cross_namespace,
            local=self.rules.local_sources,
        )
        if why:
            yield _unreachable(obj, path, text, why)

    def _unread(self, obj: Obj, path: str, url: str) -> Iterator[Finding]:
        """Yield why a source or a base cannot be read from `url`: local paths mean nothing in the
        cluster, and hosts of artifacts follow the rule for hosts of charts."""
        if url.startswith(OCI):
            yield from self._out_of_reach(obj, path, url, address_of(url))
            return
        try:
            remote = parse_url(url)
        except SourceFailed as error:
            yield _unreadable(obj, path, error.findings[0].message)
            return
        if remote.path is None:
            return
        if not remote.path.is_absolute():
            yield _unreadable(obj, path, f"{shown(url)} is relative, and an object has no folder")
        elif not self.rules.local_sources:
            why = f"{shown(url)} is a folder of gitkruise's own machine"
            yield _unreadable(obj, path, why, f"{_EVERYWHERE}; {_HERE}")


def _named_addresses(obj: Obj) -> Iterator[tuple[str, str, str]]:
    """Yield the path and the text of each place that a unit names, and its address."""
    for number, metric in enumerate(get(obj, "spec", "promotion", "metrics", default=())):
        for provider, name in _ADDRESSES:
            path = f"spec.promotion.metrics.{number}.provider.{provider}.{name}"
            address = get(metric, "provider", provider, name, default="")
            yield path, address, address
    charts = get(obj, *_REPOSITORY, default="")
    yield "spec.render.helm.repository", charts, address_of(charts)
    for number, image in enumerate(get(obj, "spec", "images", default=())):
        text = image["repository"]
        yield f"spec.images.{number}.repository", text, registry_address(text)


def name_of(obj: Obj) -> Name:
    """(kind, namespace/name) of an object."""
    return obj["kind"], f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def references(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, str]]:
    """(dotted path, namespace it names) of every reference to another object in a spec."""
    if isinstance(value, Mapping):
        for key, child in value.items():
            if key.endswith("Ref") or key in _REFERRING:
                for item in child if isinstance(child, list) else [child]:
                    dotted = ".".join(map(str, (*path, key)))
                    if isinstance(item, Mapping):
                        yield dotted, str(item.get("namespace") or "")
            else:
                yield from references(child, (*path, key))
    elif isinstance(value, list):
        for number, child in enumerate(value):
            yield from references(child, (*path, number))


def _joined(
    base: Config, good: Mapping[Name, Value], broken: dict[Name, Finding],
    wrong: Mapping[str, Finding], engine: str,
) -> Config:  # fmt: skip
    """`base` and what is `good` of the objects; what refers to nothing becomes `broken`, and what
    is `wrong` by its expressions."""
    config = base
    for kind in _ORDER:
        mine = {n: v for n, v in good.items() if n[0] == kind}
        made: dict[str, Any] = {}
        for name, value in mine.items():
            problem = _unfit(value, config, broken, engine) or wrong.get(name[1])
            if problem is None:
                made[name[1]] = value
            else:
                broken[name] = problem
        together = {**made, **getattr(config, FIELDS[kind])}
        config = msgspec.structs.replace(config, **{FIELDS[kind]: together})
    return _without_circles(config, broken)


def _unfit(
    value: Value, config: Config, broken: Mapping[Name, Finding], engine: str
) -> Finding | None:
    if isinstance(value, GitSource):
        return None
    for missing in missing_for(value, config):
        return _because(value, missing, config, broken)
    if not isinstance(value, Unit):
        return None
    engine_wanted = value.spec.workloads.engine
    if engine and engine_wanted not in {AUTO, engine}:
        return _other_engine(value.id, engine_wanted, engine)
    return next(bad_windows(value), None)


def _because(
    owner: Unit | Sink | Receiver, missing: Finding, config: Config, broken: Mapping[Name, Finding]
) -> Finding:
    """Say so where what is missing is there, and broken itself."""
    named = ((kind, resolve_reference(ref, owner.namespace)) for _, kind, ref in named_by(owner))
    lost = next((one for one in named if one[1] not in getattr(config, FIELDS[one[0]])), None)
    if lost is None:  # it is there, and does not serve
        return missing
    why = broken.get(lost)
    if why is None:  # other namespaces may be secret to the author
        return replace(missing, notes=(("next", "create it, or correct the reference"),))
    message = f"{missing.message.rpartition(',')[0]}, which is broken: {why.message}"
    return replace(missing, message=message, notes=why.notes)


def _without_circles(config: Config, broken: dict[Name, Finding]) -> Config:
    """Every unit that waits for itself in the end is broken; those of the file never do."""
    while circle := cycle({n: waits_of(u) for n, u in config.units.items()}):
        units = {n: u for n, u in config.units.items() if n not in circle}
        for name in circle:
            broken["Unit", name] = _circle(circle)
        config = msgspec.structs.replace(config, units=units)
    return config


def _twice(name: Name) -> Finding:
    return Finding(
        code="GK7008",
        message=f"{name[0]} {name[1]} is declared twice: by the file that gitkruise runs with, and "
        "by this object, which does not count",
        notes=(("next", "take it out of the file, or delete the object"),),
    )


def _nameless(unit: str) -> Finding:
    return Finding(
        code="GK7051",
        message=f"unit {unit} names no service account to write with",
        notes=(
            ("why", "every user who may write this object would act with gitkruise's rights"),
            ("next", "set spec.serviceAccountName, or run with --default-service-account"),
        ),
    )


def _abroad(obj: Obj, path: str, namespace: str) -> Finding:
    return Finding(
        code="GK7050",
        message=f"{' '.join(name_of(obj))}: {path} names something of namespace {namespace}",
        notes=(
            ("why", "references of objects to other namespaces are not allowed"),
            ("next", "refer to the own namespace, or run with --cross-namespace-refs"),
        ),
    )


def _unreadable(obj: Obj, path: str, why: str, next_: str = _EVERYWHERE) -> Finding:
    return Finding(
        code="GK7052",
        message=f"{' '.join(name_of(obj))}: {path}: {why}",
        notes=(("next", next_),),
    )


def _unreachable(obj: Obj, path: str, address: str, why: str) -> Finding:
    return Finding(
        code="GK7053",
        message=f"{' '.join(name_of(obj))}: {path}: {shown(address)}: {why}",
        notes=(
            (
                "why",
                "what is read there is shown in records, and other networks are not the author's",
            ),
            ("next", "name an https:// host, or a Service of the own namespace"),
        ),
    )


def _other_engine(unit: str, wanted: str, engine: str) -> Finding:
    return Finding(
        code="GK4401",
        message=f"unit {unit} asks for engine {wanted}, and this process drives by {engine}",
        notes=(
            ("why", "two engines on one CloneSet would undo each other's work"),
            ("next", "set workloads.engine: auto, or start gitkruise again"),
        ),
    )


def _circle(circle: Sequence[str]) -> Finding:
    return Finding(
        code="GK7030",
        message=f"units wait for each other: {' → '.join(circle)}",
        notes=(("next", "take one of the dependencies out"),),
    )


def _without_old_default(obj: Obj) -> Obj:
    """Return a Unit without a default of definitions that a cluster may still have from an earlier
    release: an API server adds it to every Unit that names an engine."""
    workloads = get(obj, "spec", "workloads", default={})
    if obj["kind"] != "Unit" or workloads.get("onPlanChange") != "warn":
        return obj
    kept = {name: value for name, value in workloads.items() if name != "onPlanChange"}
    return {**obj, "spec": {**obj["spec"], "workloads": kept}}
