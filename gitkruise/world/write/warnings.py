"""Warnings of kube-apiserver about accepted writes, word for word."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from gitkruise.model.workloads.launch_priority import ANNOTATION, ORDERED, misspelt_order
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.quantity import parse_quantity

_POD: Final = GroupKind("", "Pod")
_JOB: Final = GroupKind("batch", "Job")
_CHILDREN: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background"
    " to remove them or set propagationPolicy=Orphan to suppress this warning"
)
_IGNORED: Final = (
    ("loadBalancerIP", "spec.loadBalancerIP is ignored for headless services"),
    ("externalIPs", "spec.externalIPs is ignored for headless services"),
    ("sessionAffinity", "spec.SessionAffinity is ignored for headless services"),
)

_MATCHES_NONE: Final = "a null labelSelector results in matching no pod"
_FORCE: Final = ("required", "preferred")
_OLD_LABELS: Final = {
    old: f'deprecated since v{since}; use "{new}" instead'
    for old, since, new in (
        ("beta.kubernetes.io/arch", "1.14", "kubernetes.io/arch"),
        ("beta.kubernetes.io/os", "1.14", "kubernetes.io/os"),
        ("failure-domain.beta.kubernetes.io/region", "1.17", "topology.kubernetes.io/region"),
        ("failure-domain.beta.kubernetes.io/zone", "1.17", "topology.kubernetes.io/zone"),
        ("beta.kubernetes.io/instance-type", "1.17", "node.kubernetes.io/instance-type"),
    )
}
_OLD_VOLUMES: Final = {
    "gitRepo": "deprecated in v1.11, and disabled by default in v1.33+",
    "cephfs": "deprecated in v1.28, non-functional in v1.31+",
    "glusterfs": "deprecated in v1.25, non-functional in v1.26+",
    "quobyte": "deprecated in v1.22, non-functional in v1.25+",
    "rbd": "deprecated in v1.28, non-functional in v1.31+",
    "scaleIO": "deprecated in v1.16, non-functional in v1.22+",
    "storageos": "deprecated in v1.22, non-functional in v1.25+",
    "flocker": "deprecated in v1.22, non-functional in v1.25+",
    "photonPersistentDisk": "deprecated in v1.11, non-functional in v1.16+",
}

# What is said of every use of a kind (1.34).
OUTDATED: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    GroupKind("", "Endpoints"): (
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    GroupKind("", "ComponentStatus"): ("v1 ComponentStatus is deprecated in v1.19+",),
}


def _service(obj: Obj) -> Iterator[str]:
    """GetWarningsForService: what a headless service does nothing with."""
    spec = obj.get("spec") or {}
    if spec.get("clusterIP") == "None" and spec.get("type") == "ClusterIP":
        yield from (text for name, text in _IGNORED if spec.get(name))


def _secret(obj: Obj) -> Iterator[str]:
    """GetWarningsForSecret, as far as a pair of certificate and key is no PEM."""
    if obj.get("type") != "kubernetes.io/tls":
        return
    for field, word in (("tls.crt", "certificate"), ("tls.key", "key")):
        text = (obj.get("data") or {}).get(field) or ""
        if b"-----BEGIN " not in b64decode(text):
            yield f"tls: failed to find any PEM data in {word} input"
            return


def _slice(obj: Obj) -> Iterator[str]:
    if obj.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"


def _template(*path: str) -> Callable[[Obj], Iterator[str]]:
    """Warnings of the pod spec at `path`."""

    def warnings(obj: Obj) -> Iterator[str]:
        yield from _pod_spec(get(obj, *path, default={}), ".".join(path))
        yield from _launch_order(obj, *path[:-1])

    return warnings


def _launch_order(obj: Obj, *path: str) -> Iterator[str]:
    """Ours: OpenKruise ignores a value that differs from Ordered in case."""
    notes = get(obj, *path, "metadata", "annotations", default={}) or {}
    if found := misspelt_order(notes):
        at = ".".join((*path, "metadata", f"annotations[{ANNOTATION}]"))
        yield f'{at}: "{found}" has no effect; write "{ORDERED}"'


def _cloneset(obj: Obj) -> Iterator[str]:
    yield from _launch_order(obj, "spec", "template")


def _pod_spec(spec: Obj, at: str) -> Iterator[str]:
    """GetWarningsForPodTemplate, without its words about annotations."""
    for label in spec.get("nodeSelector") or ():
        if label in _OLD_LABELS:
            yield f"{at}.nodeSelector[{label}]: {_OLD_LABELS[label]}"
    yield from _spread(spec, at)
    yield from _affinity(spec.get("affinity") or {}, f"{at}.affinity")
    yield from _repeated(spec, f"{at}.hostAliases", "ip")
    yield from _repeated(spec, f"{at}.imagePullSecrets", "name")
    for i, volume in enumerate(spec.get("volumes") or ()):
        yield from (
            f"{at}.volumes[{i}].{n}: {_OLD_VOLUMES[n]}" for n in volume if n in _OLD_VOLUMES
        )
    for field in ("initContainers", "containers"):
        for i, container in enumerate(spec.get(field) or ()):
            yield from _container(container, f"{at}.{field}[{i}]")
    yield from _ports(spec, at)
    if (spec.get("terminationGracePeriodSeconds") or 0) < 0:
        text = "must be >= 0; negative values are invalid and will be treated as 1"
        yield f"{at}.terminationGracePeriodSeconds: {text}"


def _spread(spec: Obj, at: str) -> Iterator[str]:
    for i, rule in enumerate(spec.get("topologySpreadConstraints") or ()):
        here, key = f"{at}.topologySpreadConstraints[{i}]", rule.get("topologyKey")
        if key in _OLD_LABELS:
            yield f"{here}.topologyKey: {key} is {_OLD_LABELS[key]}"
        if rule.get("labelSelector") is None:
            yield f"{here}.labelSelector: {_MATCHES_NONE}"


def _affinity(affinity: Obj, at: str) -> Iterator[str]:
    required, preferred = (f"{word}DuringSchedulingIgnoredDuringExecution" for word in _FORCE)
    nodes = affinity.get("nodeAffinity") or {}
    path = f"{at}.nodeAffinity.{required}.nodeSelectorTerms"
    yield from _terms(get(nodes, required, "nodeSelectorTerms", default=()) or (), path, "")
    path = f"{at}.nodeAffinity.{preferred}"
    yield from _terms(nodes.get(preferred) or (), path, "preference")
    for kind in ("podAffinity", "podAntiAffinity"):
        rules = affinity.get(kind) or {}
        for field, inner in ((required, ""), (preferred, "podAffinityTerm")):
            for i, term in enumerate(rules.get(field) or ()):
                asked = (term.get(inner) or {}) if inner else term
                if asked.get("labelSelector") is None:
                    here = f"{at}.{kind}.{field}[{i}]" + (f".{inner}" if inner else "")
                    yield f"{here}.labelSelector: {_MATCHES_NONE}"


def _terms(terms: Iterable[Obj], at: str, inner: str) -> Iterator[str]:
    """Outdated labels in terms about nodes, which are the field `inner` of each entry."""
    for i, entry in enumerate(terms):
        here = f"{at}[{i}]" + (f".{inner}" if inner else "")
        term = (entry.get(inner) or {}) if inner else entry
        for j, one in enumerate(term.get("matchExpressions") or ()):
            key = one.get("key")
            if key in _OLD_LABELS:
                yield f"{here}.matchExpressions[{j}].key: {key} is {_OLD_LABELS[key]}"


def _repeated(spec: Obj, at: str, name: str) -> Iterator[str]:
    seen: set[str] = set()
    for i, entry in enumerate(spec.get(at.rpartition(".")[2]) or ()):
        value = entry.get(name) or ""
        if name == "name" and not value:
            yield f'{at}[{i}].{name}: invalid empty name ""'
        elif value in seen:
            yield f'{at}[{i}].{name}: duplicate {name} "{value}"'
        seen.add(value)


def _container(container: Obj, at: str) -> Iterator[str]:
    known: set[str] = set()
    for j, variable in enumerate(container.get("env") or ()):
        name, value = variable.get("name") or "", variable.get("value") or ""
        if name in known and f"$({name})" not in value:
            text = f'hides previous definition of "{name}", which may be dropped when using apply'
            yield f"{at}.env[{j}]: {text}"
        known.add(name)
    for side in ("limits", "requests"):
        amounts = get(container, "resources", side, default={}) or {}
        for resource in sorted({"memory", "ephemeral-storage"} & amounts.keys()):
            if parse_quantity(amounts[resource]).value % 1:
                text = f'fractional byte value "{amounts[resource]}" is invalid, must be an integer'
                yield f"{at}.resources.{side}[{resource}]: {text}"


def _ports(spec: Obj, at: str) -> Iterator[str]:
    """One port of two containers."""
    seen: dict[tuple[Any, Any], str] = {}
    for i, container in enumerate(spec.get("containers") or ()):
        for j, port in enumerate(container.get("ports") or ()):
            here = f"{at}.containers[{i}].ports[{j}]"
            key = (port.get("containerPort"), port.get("protocol"))
            if key in seen:
                yield f"{here}: duplicate port definition with {seen[key]}"
            seen.setdefault(key, here)


_IN_TEMPLATE: Final = ("spec", "template", "spec")
_OF_KIND: Final[Mapping[GroupKind, Callable[[Obj], Iterator[str]]]] = {
    _POD: _template("spec"),
    **{
        GroupKind("apps", kind): _template(*_IN_TEMPLATE)
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    },
    _JOB: _template(*_IN_TEMPLATE),
    GroupKind("batch", "CronJob"): _template("spec", "jobTemplate", *_IN_TEMPLATE),
    GroupKind("apps.kruise.io", "CloneSet"): _cloneset,
    GroupKind("", "Service"): _service,
    GroupKind("", "Secret"): _secret,
    GroupKind("discovery.k8s.io", "EndpointSlice"): _slice,
}


def of_write(group_kind: GroupKind, obj: Obj) -> Iterator[str]:
    """Warnings about an object that is stored now."""
    return _OF_KIND[group_kind](obj) if group_kind in _OF_KIND else iter(())


def of_change(group_kind: GroupKind, obj: Obj) -> Iterator[str]:
    """Warnings about an object that changes; pods change too often for a server to look."""
    return iter(()) if group_kind == _POD else of_write(group_kind, obj)


def of_delete(group_kind: GroupKind, *, policy_given: bool) -> Iterator[str]:
    """Warnings about a delete; jobs alone leave their pods where nothing is said."""
    if group_kind == _JOB and not policy_given:
        yield _CHILDREN
