"""The defaults OpenKruise's webhook gives pod and claim templates: they enter revision bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, MutableMapping
from typing import Any, Final, TypeAlias

from gitkruise.wire.kruise.go_round_trip import Malformed, normalise
from gitkruise.wire.values.images import default_pull_policy
from gitkruise.wire.values.quantity import canonical, round_up_milli

Node: TypeAlias = MutableMapping[str, Any]  # a part of a typed value made here, so ours to fill
Step: TypeAlias = str | tuple[str, ...]  # "*" is every element of a list, a tuple is each of those
# (the maps to look at, the field, its value where it is missing)
Default: TypeAlias = tuple[tuple[Step, ...], str, Any]

_LONG_LIVED: Final = ("containers", "initContainers")
_ALL: Final = (*_LONG_LIVED, "ephemeralContainers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_PROBE: Final = (_ALL, "*", _PROBES)
_GETS: Final = ((*_PROBE, "httpGet"), (_ALL, "*", "lifecycle", ("postStart", "preStop"), "httpGet"))
_FILES: Final = (
    ("volumes", "*", "downwardAPI", "items", "*", "fieldRef"),
    ("volumes", "*", "projected", "sources", "*", "downwardAPI", "items", "*", "fieldRef"),
)
_MODES: Final = ("secret", "configMap", "downwardAPI", "projected")
_TOKEN: Final = ("volumes", "*", "projected", "sources", "*", "serviceAccountToken")


class Defaults:
    """A table of defaults by the path its rows share: what is not there is passed over once.

    A map's own fields come before those of maps inside of it, which may be defaults themselves.
    """

    __slots__ = ("_fields", "_inner")

    def __init__(self, rows: Iterable[Default]) -> None:
        self._fields: dict[str, Any] = {}
        self._inner: dict[str, Defaults] = {}
        for path, field, value in rows:
            self.add(path, field, value)

    def add(self, path: tuple[Step, ...], field: str, value: Any) -> None:
        """One more row."""
        if not path:
            self._fields[field] = value
            return
        head, rest = path[0], path[1:]
        for name in (head,) if isinstance(head, str) else head:
            self._inner.setdefault(name, Defaults(())).add(rest, field, value)

    def fill(self, node: Any) -> None:
        """Set what is missing in `node` and below; "*" leads to each element of a list."""
        for field, value in self._fields.items():
            if node.get(field) is None:
                node[field] = dict(value) if isinstance(value, dict) else value
        for name, inner in self._inner.items():
            if name == "*":
                for item in node:
                    if item is not None:
                        inner.fill(item)
            elif (below := node.get(name)) is not None:
                inner.fill(below)


POD_SPEC: Final[tuple[Default, ...]] = (
    ((), "dnsPolicy", "ClusterFirst"),
    ((), "restartPolicy", "Always"),
    ((), "securityContext", {}),
    ((), "terminationGracePeriodSeconds", 30),
    ((), "schedulerName", "default-scheduler"),
    ((_LONG_LIVED, "*"), "terminationMessagePath", "/dev/termination-log"),
    ((_LONG_LIVED, "*"), "terminationMessagePolicy", "File"),
    ((_ALL, "*", "ports", "*"), "protocol", "TCP"),
    ((_ALL, "*", "env", "*", "valueFrom", "fieldRef"), "apiVersion", "v1"),
    (_PROBE, "timeoutSeconds", 1),
    (_PROBE, "periodSeconds", 10),
    (_PROBE, "successThreshold", 1),
    (_PROBE, "failureThreshold", 3),
    *((get, "path", "/") for get in _GETS),
    *((get, "scheme", "HTTP") for get in _GETS),
    (("volumes", "*", "hostPath"), "type", ""),
    (("volumes", "*", _MODES), "defaultMode", 420),
    *((file, "apiVersion", "v1") for file in _FILES),
    (_TOKEN, "expirationSeconds", 3600),
)  # fmt: skip
_POD_SPEC: Final = Defaults(POD_SPEC)

_RESOURCES: Final[tuple[tuple[Step, ...], ...]] = (
    (_ALL, "*", "resources", ("limits", "requests")),
    ("overhead",),
)
_CLAIM_RESOURCES: Final[tuple[tuple[Step, ...], ...]] = (
    ("spec", "resources", ("limits", "requests")),
    ("status", "capacity"),
)


def default_template(template: Any, *, host_ports: bool = False) -> dict[str, Any]:
    """A pod template as OpenKruise stores it: typed and defaulted. Raises Malformed.

    `host_ports` is gate DefaultHostNetworkHostPortsInPodTemplates. Pull policies differ from a
    Deployment's: a container without one always gets `Always`, only init containers go by tag.
    """
    typed: dict[str, Any] = normalise("PodTemplateSpec", template)
    fill_pod_spec(typed["spec"], _pull_always)
    if host_ports and typed["spec"].get("hostNetwork"):
        for port in maps_at(typed["spec"], (_LONG_LIVED, "*", "ports", "*")):
            if port.get("containerPort"):
                port.setdefault("hostPort", port["containerPort"])
    return typed


def default_claim(claim: Any) -> dict[str, Any]:
    """A volumeClaimTemplate as OpenKruise stores it: typed, phase Pending. Raises Malformed."""
    typed: dict[str, Any] = normalise("PersistentVolumeClaim", claim)
    typed["status"].setdefault("phase", "Pending")
    round_up(typed, _CLAIM_RESOURCES)
    return typed


def fill_pod_spec(spec: Node, container_policy: Callable[[str], str]) -> None:
    """Fill what is missing in a typed pod spec made by `normalise`, in place.

    `container_policy` chooses the pull policy of ordinary containers from their image.
    """
    for volume in maps_at(spec, ("volumes", "*")):
        if volume.keys() <= {"name"}:
            volume["emptyDir"] = {}
    fill(spec, _POD_SPEC)
    for kind, policy in (("containers", container_policy), ("initContainers", default_pull_policy)):
        for container in maps_at(spec, (kind, "*")):
            if "imagePullPolicy" not in container:
                container["imagePullPolicy"] = policy(container.get("image", ""))
    round_up(spec, _RESOURCES)


def fill(root: Node, defaults: Defaults) -> None:
    """Set every missing field the table names, in place. `root` is ours to fill."""
    defaults.fill(root)


def round_up(root: Node, paths: Iterable[tuple[Step, ...]]) -> None:
    """Round the amounts in the maps `paths` lead to up to 1/1000, in place. Raises Malformed."""
    for path in paths:
        for amounts in maps_at(root, path):
            for name, text in amounts.items():
                amounts[name] = _amount(text, round_up_milli)


def print_amounts(root: Node, fields: Iterable[tuple[tuple[Step, ...], str]]) -> None:
    """Print the amounts in the named fields as Kubernetes does, in place. Raises Malformed."""
    for path, field in fields:
        for node in maps_at(root, path):
            if field in node:
                node[field] = _amount(node[field], canonical)


def _amount(text: Any, print_it: Callable[[Any], str]) -> str:
    try:
        return print_it(text)
    except ValueError as error:
        raise Malformed(str(error)) from error


def _pull_always(_image: str) -> str:
    return "Always"


def maps_at(node: Any, path: tuple[Step, ...]) -> Iterator[Node]:
    """Every map `path` leads to."""
    if not path:
        if node is not None:
            yield node
        return
    head, rest = path[0], path[1:]
    if head == "*":
        for item in node or ():
            yield from maps_at(item, rest)
        return
    for name in (head,) if isinstance(head, str) else head:
        if name in node:
            yield from maps_at(node[name], rest)
