"""Pod templates and pod specs: the rules of Kubernetes' core validation, as tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.admission.pods.containers import PodContext, container_problems, ephemeral_problems
from gitkruise.admission.pods.resources import overhead_problems
from gitkruise.admission.pods.scheduling import (
    affinity_problems,
    spread_problems,
    toleration_problems,
)
from gitkruise.admission.pods.volumes import volume_problems
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import (
    EACH,
    Table,
    between,
    like,
    not_negative,
    one_of,
    present,
)
from gitkruise.admission.rules.field_errors import Path, duplicate, forbidden, invalid, required
from gitkruise.admission.rules.labels import (
    annotation_problems,
    deletion_cost_problems,
    label_problems,
)
from gitkruise.errors import Problem
from gitkruise.wire.primitives.names import Obj

_DEADLINE: Final = between(1, 2**31 - 1, "must be between 1 and 2147483647, inclusive")
_PROFILES: Final = one_of("Localhost", "RuntimeDefault", "Unconfined")
_DNS_POLICIES: Final = one_of("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None")
_SECURITY_IDS: Final = ("runAsUser", "runAsGroup", "fsGroup")

_RULES: Final = Table(
    (("containers",), (present,)),
    (("restartPolicy",), (present, one_of("Always", "OnFailure", "Never"))),
    (("dnsPolicy",), (present, _DNS_POLICIES)),
    (("nodeSelector",), (label_problems,)),
    (("activeDeadlineSeconds",), (_DEADLINE,)),
    (
        (("serviceAccountName", "nodeName", "priorityClassName", "runtimeClassName"),),
        (like(formats.dns_subdomain),),
    ),
    ((("hostname", "subdomain"),), (like(formats.dns_label),)),
    (("schedulerName",), (like(formats.dns_subdomain),)),
    (("preemptionPolicy",), (one_of("Never", "PreemptLowerPriority"),)),
    (("os", "name"), (present, one_of("linux", "windows"))),
    (("readinessGates", EACH, "conditionType"), (present, like(formats.qualified_name))),
    (("schedulingGates", EACH, "name"), (present, like(formats.qualified_name))),
    (("hostAliases", EACH, "ip"), (present, like(formats.ip))),
    (("hostAliases", EACH, "hostnames", EACH), (like(formats.dns_subdomain),)),
    (("dnsConfig", "nameservers", EACH), (like(formats.ip),)),
    (("dnsConfig", "options", EACH, "name"), (present,)),
    (("securityContext", _SECURITY_IDS), (not_negative,)),
    (("securityContext", "supplementalGroups", EACH), (not_negative,)),
    (("securityContext", "fsGroupChangePolicy"), (one_of("Always", "OnRootMismatch"),)),
    (("securityContext", ("seccompProfile", "appArmorProfile"), "type"), (present, _PROFILES)),
    (("securityContext", "sysctls", EACH, "name"), (present,)),
    (("tolerations", EACH), (toleration_problems,)),
    (("affinity",), (affinity_problems,)),
    (("topologySpreadConstraints",), (spread_problems,)),
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateRules:
    """Differences between the validating server releases and between pods and templates.

    OpenKruise validates with the libraries of 1.32, the embedded server answers like 1.34.
    `is_pod`: the spec is a pod's own and no template's.
    """

    env_format: formats.Format = formats.env_name
    zero_sleep: bool = False
    is_pod: bool = False


KRUISE: Final = TemplateRules()
SERVER: Final = TemplateRules(env_format=formats.relaxed_env_name, zero_sleep=True)
SERVER_POD: Final = TemplateRules(env_format=formats.relaxed_env_name, zero_sleep=True, is_pod=True)


def template_problems(
    template: Obj, at: Path, dialect: TemplateRules = SERVER
) -> Iterator[Problem]:
    """ValidatePodTemplateSpec; metadata is reported at `.labels` and `.annotations`, as there."""
    meta = template.get("metadata") or {}
    yield from label_problems(meta.get("labels"), (*at, "labels"))
    yield from annotation_problems(meta.get("annotations"), (*at, "annotations"))
    yield from deletion_cost_problems(meta.get("annotations"), (*at, "annotations"))
    spec = template.get("spec") or {}
    yield from pod_spec_problems(spec, (*at, "spec"), dialect)
    if spec.get("ephemeralContainers"):
        text = "ephemeral containers not allowed in pod template"
        yield forbidden((*at, "spec", "ephemeralContainers"), text)


def pod_spec_problems(spec: Obj, at: Path, dialect: TemplateRules) -> Iterator[Problem]:
    """ValidatePodSpec of a spec that has its defaults."""
    volumes = spec.get("volumes") or ()
    yield from volume_problems(volumes, (*at, "volumes"))
    yield from _all_container_problems(spec, at, dialect)
    yield from _RULES.problems(spec, at)
    yield from _network_problems(spec, at, dialect)
    yield from overhead_problems(spec.get("overhead") or {}, (*at, "overhead"))
    yield from _gate_problems(spec, at)
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        shared = spec["shareProcessNamespace"]
        yield invalid((*at, "securityContext", "shareProcessNamespace"), shared, text)


def _all_container_problems(spec: Obj, at: Path, dialect: TemplateRules) -> Iterator[Problem]:
    volumes = spec.get("volumes") or ()
    pod = PodContext(
        volumes=frozenset(volume.get("name", "") for volume in volumes),
        claims=frozenset(
            volume.get("name", "")
            for volume in volumes
            if volume.get("persistentVolumeClaim") or volume.get("ephemeral")
        ),
        grace_s=int(_or(spec.get("terminationGracePeriodSeconds"), 30)),
        env_format=dialect.env_format,
        zero_sleep=dialect.zero_sleep,
    )
    taken: set[str] = set()
    for kind, init in (("containers", False), ("initContainers", True)):
        containers = spec.get(kind) or ()
        yield from container_problems(containers, (*at, kind), pod, taken, init=init)
    added = spec.get("ephemeralContainers") or ()
    yield from ephemeral_problems(added, (*at, "ephemeralContainers"), pod, taken)


def _network_problems(spec: Obj, at: Path, dialect: TemplateRules) -> Iterator[Problem]:
    for index, container in enumerate(
        spec.get("containers") or () if spec.get("hostNetwork") else ()
    ):
        for number, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort") or 0
            if (dialect.is_pod or host_port) and host_port != port.get("containerPort"):
                text = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(
                    (*at, "containers", index, "ports", number, "hostPort"), host_port, text
                )
    config = spec.get("dnsConfig") or {}
    if spec.get("dnsPolicy") == "None" and not config.get("nameservers"):
        detail = "must provide at least one DNS nameserver when `dnsPolicy` is None"
        yield required((*at, "dnsConfig", "nameservers"), detail)


def _gate_problems(spec: Obj, at: Path) -> Iterator[Problem]:
    names: set[Any] = set()
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") in names:
            yield duplicate((*at, "schedulingGates", index), gate.get("name"))
        names.add(gate.get("name"))


def _or(value: Any, default: Any) -> Any:
    return default if value is None else value
