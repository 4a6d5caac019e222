"""Kinds whose rows are read cell by cell: their columns, and a reader for each.

Source: the columns kube-apiserver 1.34 answers with; tests/transcripts/script/tables.yaml.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from gitkruise.sandbox.tables.cells import Cell, selector_cell
from gitkruise.wire.primitives.names import GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.paths import get

Reader: TypeAlias = Callable[[Obj], Cell]

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"
SHOWN_MAX: Final = 3  # addresses, ports, hosts; the rest is counted
METRICS_MAX: Final = 2
DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
_MODES: Final[Mapping[str, str]] = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def at(*path: str, default: Cell = "") -> Reader:
    """Reads the value at `path`."""
    return lambda obj: get(obj, *path, default=default)


def count(*path: str) -> Reader:
    """Counts what is at `path`."""
    return lambda obj: len(get(obj, *path, default=()))


def _access_modes(modes: Iterable[str]) -> str:
    """`RWO,ROX`."""
    return ",".join(_MODES.get(mode, mode) for mode in modes)


def labels_of(labels: Mapping[str, str] | None) -> str:
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def _some(values: Sequence[str], *, most: int = SHOWN_MAX, between: str = ",") -> str:
    """The first few of them, and how many more there are."""
    shown = between.join(values[:most])
    return f"{shown} + {len(values) - most} more..." if len(values) > most else shown


def _hosts(obj: Obj) -> Cell:
    rules = get(obj, "spec", "rules", default=())
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    if len(hosts) > SHOWN_MAX:
        return f"{','.join(hosts[:SHOWN_MAX])} + {len(rules) - SHOWN_MAX} more..."
    return ",".join(hosts) or "*"


def _address(obj: Obj) -> Cell:
    points = get(obj, "status", "loadBalancer", "ingress", default=())
    return ",".join(sorted({p.get("ip") or p.get("hostname") or "" for p in points} - {""}))


def _ingress_ports(obj: Obj) -> Cell:
    return "80, 443" if get(obj, "spec", "tls") else "80"


def _parameters(obj: Obj) -> Cell:
    named = get(obj, "spec", "parameters")
    if named is None:
        return NONE
    group = f".{named['apiGroup']}" if "apiGroup" in named else ""
    return f"{named.get('kind', '')}{group}/{named.get('name', '')}"


def _parent(obj: Obj) -> Cell:
    ref = get(obj, "spec", "parentRef")
    if ref is None:
        return NONE
    group = f".{ref['group']}" if ref.get("group") else ""
    space = f"/{ref['namespace']}" if ref.get("namespace") else ""
    return f"{ref.get('resource', '')}{group}".lower() + f"{space}/{ref.get('name', '')}"


def _pod_selector(obj: Obj) -> Cell:
    return selector_cell(get(obj, "spec", "podSelector")) or NONE


def _endpoints(obj: Obj) -> Cell:
    subsets = get(obj, "subsets", default=())
    if not subsets:
        return NONE
    found: list[str] = []
    for subset in subsets:
        addresses = [address.get("ip", "") for address in subset.get("addresses") or ()]
        ports = [f":{port.get('port', '')}" for port in subset.get("ports") or ()] or [""]
        found += (f"{_bracketed(ip, port)}{port}" for port in ports for ip in addresses)
    return _some(found)


def _bracketed(ip: str, port: str) -> str:
    return f"[{ip}]" if port and ":" in ip else ip


def _slice_ports(obj: Obj) -> Cell:
    ports = get(obj, "ports", default=()) or ()
    names = [str(port.get("port") or port.get("name") or "*") for port in ports]
    return _some(names) or UNSET


def _slice_addresses(obj: Obj) -> Cell:
    points = get(obj, "endpoints", default=()) or ()
    return _some([ip for point in points for ip in point.get("addresses") or ()]) or UNSET


def _quota(*, limits: bool) -> Reader:
    """`pods: 1/10, …` of the resources that are limits, or of the others."""

    def read(obj: Obj) -> Cell:
        hard, used = (get(obj, "status", name, default={}) for name in ("hard", "used"))
        names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return read


def _phase_of_storage(obj: Obj) -> Cell:
    """The phase of a volume or a claim."""
    going = obj["metadata"].get("deletionTimestamp")
    phase: Cell = "Terminating" if going else get(obj, "status", "phase", default="")
    return phase


def _claimed(read: Reader) -> Reader:
    """A cell that a claim has once it has a volume."""
    return lambda obj: read(obj) if get(obj, "spec", "volumeName") else ""


def _claim_modes(obj: Obj) -> Cell:
    return _access_modes(get(obj, "status", "accessModes", default=()))


def _volume_modes(obj: Obj) -> Cell:
    return _access_modes(get(obj, "spec", "accessModes", default=()))


def _volume_claim(obj: Obj) -> Cell:
    ref = get(obj, "spec", "claimRef")
    return f"{ref.get('namespace', '')}/{ref.get('name', '')}" if ref else ""


def _containers(field: str, *path: str) -> Reader:
    def read(obj: Obj) -> Cell:
        containers = get(obj, *path, "spec", "containers", default=())
        return ",".join(container.get(field, "") for container in containers)

    return read


def _labels(*path: str) -> Reader:
    return lambda obj: labels_of(get(obj, *path))


def selector_of(obj: Obj) -> str:
    """The selector of a workload."""
    return selector_cell(get(obj, "spec", "selector")) or NONE


def _ready_of_desired(obj: Obj) -> Cell:
    ready, wanted = _READY(obj), _DESIRED(obj)
    return f"{ready}/{wanted}"


def _data(obj: Obj) -> Cell:
    return len(obj.get("data") or ()) + len(obj.get("binaryData") or ())


def _controller(obj: Obj) -> Cell:
    refs = obj["metadata"].get("ownerReferences") or ()
    owner = next((ref for ref in refs if ref.get("controller")), None)
    if owner is None:
        return NONE
    group, _ = split_api_version(owner.get("apiVersion", ""))
    kind = GroupKind(group, owner.get("kind", ""))
    return f"{str(kind).lower()}/{owner.get('name', '')}"


def _bound(field: str) -> Reader:
    """A bound of a disruption budget."""
    return lambda obj: str(get(obj, "spec", field, default="N/A"))


def _class_name(obj: Obj) -> Cell:
    notes = obj["metadata"].get("annotations") or {}
    default = any(notes.get(key) == "true" for key in DEFAULT_CLASS)
    return f"{obj['metadata']['name']} (default)" if default else obj["metadata"]["name"]


def _audiences(obj: Obj) -> Cell:
    asked = get(obj, "spec", "tokenRequests")
    return UNSET if asked is None else ",".join(one.get("audience", "") for one in asked)


def _role(obj: Obj) -> Cell:
    return f"{get(obj, 'roleRef', 'kind', default='')}/{get(obj, 'roleRef', 'name', default='')}"


def _subjects(kind: str) -> Reader:
    def read(obj: Obj) -> Cell:
        found = [s for s in obj.get("subjects") or () if s.get("kind", "") == kind]
        space = kind == "ServiceAccount"
        return ", ".join(f"{s.get('namespace', '')}/" * space + s.get("name", "") for s in found)

    return read


def _param_kind(obj: Obj) -> Cell:
    named = get(obj, "spec", "paramKind")
    return UNSET if named is None else f"{named.get('apiVersion', '')}/{named.get('kind', '')}"


def _param_ref(obj: Obj) -> Cell:
    ref = get(obj, "spec", "paramRef")
    if not (ref and ref.get("name")):
        return UNSET
    return f"{ref.get('namespace') or '*'}/{ref['name']}"


def _scaled(obj: Obj) -> Cell:
    ref = get(obj, "spec", "scaleTargetRef", default={})
    return f"{ref.get('kind', '')}/{ref.get('name', '')}"


def _metrics(obj: Obj) -> Cell:
    specs = get(obj, "spec", "metrics", default=())
    now = get(obj, "status", "currentMetrics", default=()) or ()
    found = [_metric(spec, now[i] if i < len(now) else {}) for i, spec in enumerate(specs)]
    return _some(found, most=METRICS_MAX, between=", ") or NONE


def _metric(spec: Obj, status: Obj) -> str:
    """`cpu: 10%/80%`, `5/10 (avg)`."""
    word = spec.get("type", "")
    part = word[:1].lower() + word[1:]
    target: Mapping[str, Any] = get(spec, part, "target", default={})
    current: Mapping[str, Any] = get(status, part, "current", default={})
    resource = part in {"resource", "containerResource"}
    name = f"{get(spec, part, 'name', default='')}: " if resource else ""
    if "averageValue" in target:
        marked = "" if resource or part == "pods" else " (avg)"
        return f"{name}{current.get('averageValue', UNKNOWN)}/{target['averageValue']}{marked}"
    if not resource:
        return f"{current.get('value', UNKNOWN)}/{target.get('value', 0)}"
    used = current.get("averageUtilization")
    wanted = target.get("averageUtilization")
    shown = UNKNOWN if used is None else f"{used}%"
    return f"{name}{shown}/{'<auto>' if wanted is None else f'{wanted}%'}"


def _condition(field: str) -> Reader:
    """Of a ComponentStatus: none is ever there."""
    return lambda obj: next((c.get(field, "") for c in obj.get("conditions") or ()), "")


_DESIRED, _CURRENT, _READY = (
    at(*path, default=0)
    for path in (("spec", "replicas"), ("status", "replicas"), ("status", "readyReplicas"))
)
TEMPLATE: Final = "+Containers | +Images"
WORKLOAD: Final = f"{TEMPLATE} | +Selector"
of_template: Final = tuple(_containers(field, "spec", "template") for field in ("name", "image"))
_OF_SETS: Final = f"Name | Desired:integer | Current:integer | Ready:integer | Age | {WORKLOAD}"
_ADMISSION: Final = "admissionregistration.k8s.io"
_NETWORK, _STORAGE = "networking.k8s.io", "storage.k8s.io"
_RBAC: Final = "rbac.authorization.k8s.io"
_HOOKS: Final = ("Name | Webhooks:integer | Age", (count("webhooks"),))
_BINDING: Final = (
    "Name | Role | Age | +Users | +Groups | +ServiceAccounts",
    (_role, *(_subjects(kind) for kind in ("User", "Group", "ServiceAccount"))),
)

# Columns, and a reader for each but the name, the age and the time of creation (`*`: read all the
# same, and marked as a name).
PRINTED: Final[Mapping[GroupKind, tuple[str, Sequence[Reader]]]] = {
    GroupKind("", "ComponentStatus"): (
        "Name | Status | Message | Error",
        tuple(_condition(field) for field in ("status", "message", "error")),
    ),
    GroupKind("", "Endpoints"): ("Name | Endpoints | Age", (_endpoints,)),
    GroupKind("", "ConfigMap"): ("Name | Data | Age", (_data,)),
    GroupKind("", "LimitRange"): ("Name | Created At:date", ()),
    GroupKind("", "Namespace"): ("Name | Status | Age", (at("status", "phase"),)),
    GroupKind("", "PersistentVolume"): (
        (
            "Name | Capacity | Access Modes | Reclaim Policy | Status | Claim | StorageClass"
            " | VolumeAttributesClass | Reason | Age | +VolumeMode"
        ),
        (
            at("spec", "capacity", "storage", default="0"),
            _volume_modes,
            at("spec", "persistentVolumeReclaimPolicy"),
            _phase_of_storage,
            _volume_claim,
            at("spec", "storageClassName"),
            at("spec", "volumeAttributesClassName", default=UNSET),
            at("status", "reason"),
            at("spec", "volumeMode", default=UNSET),
        ),
    ),
    GroupKind("", "PersistentVolumeClaim"): (
        (
            "Name | Status | Volume | Capacity | Access Modes | StorageClass"
            " | VolumeAttributesClass | Age | +VolumeMode"
        ),
        (
            _phase_of_storage,
            at("spec", "volumeName"),
            _claimed(at("status", "capacity", "storage")),
            _claimed(_claim_modes),
            at("spec", "storageClassName"),
            at("spec", "volumeAttributesClassName", default=UNSET),
            at("spec", "volumeMode", default=UNSET),
        ),
    ),
    GroupKind("", "PodTemplate"): (
        "Name | Containers | Images | Pod Labels",
        (
            _containers("name", "template"),
            _containers("image", "template"),
            _labels("template", "metadata", "labels"),
        ),
    ),
    GroupKind("", "ReplicationController"): (
        _OF_SETS,
        (_DESIRED, _CURRENT, _READY, *of_template, _labels("spec", "selector")),
    ),
    GroupKind("", "ResourceQuota"): (
        "Name | Request | Limit | Age",
        (_quota(limits=False), _quota(limits=True)),
    ),
    GroupKind("", "Secret"): ("Name | Type | Data | Age", (at("type"), count("data"))),
    GroupKind("", "ServiceAccount"): ("Name | Secrets | Age", (count("secrets"),)),
    GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"): ("Name | Created At:date", ()),
    GroupKind("apps", "ControllerRevision"): (
        "Name | Controller | Revision | Age",
        (_controller, at("revision", default=0)),
    ),
    GroupKind("apps", "DaemonSet"): (
        (
            "Name | Desired:integer | Current:integer | Ready:integer | Up-to-date:integer"
            f" | Available:integer | Node Selector | Age | {WORKLOAD}"
        ),
        (
            at("status", "desiredNumberScheduled", default=0),
            at("status", "currentNumberScheduled", default=0),
            at("status", "numberReady", default=0),
            at("status", "updatedNumberScheduled", default=0),
            at("status", "numberAvailable", default=0),
            _labels("spec", "template", "spec", "nodeSelector"),
            *of_template,
            selector_of,
        ),
    ),
    GroupKind("apps", "Deployment"): (
        f"Name | Ready | Up-to-date | Available | Age | {WORKLOAD}",
        (
            _ready_of_desired,
            at("status", "updatedReplicas", default=0),
            at("status", "availableReplicas", default=0),
            *of_template,
            selector_of,
        ),
    ),
    GroupKind("apps", "ReplicaSet"): (
        _OF_SETS,
        (_DESIRED, _CURRENT, _READY, *of_template, selector_of),
    ),
    GroupKind("apps", "StatefulSet"): (
        f"Name | Ready | Age | {TEMPLATE}",
        (_ready_of_desired, *of_template),
    ),
    GroupKind("autoscaling", "HorizontalPodAutoscaler"): (
        "Name | Reference | Targets | MinPods | MaxPods | Replicas | Age",
        (
            _scaled,
            _metrics,
            lambda obj: str(get(obj, "spec", "minReplicas", default=UNSET)),
            at("spec", "maxReplicas"),
            at("status", "currentReplicas", default=0),
        ),
    ),
    GroupKind("coordination.k8s.io", "Lease"): (
        "Name | Holder | Age",
        (at("spec", "holderIdentity"),),
    ),
    GroupKind("discovery.k8s.io", "EndpointSlice"): (
        "Name | AddressType | Ports | Endpoints | Age",
        (at("addressType"), _slice_ports, _slice_addresses),
    ),
    GroupKind(_NETWORK, "Ingress"): (
        "Name | Class | Hosts | Address | Ports | Age",
        (at("spec", "ingressClassName", default=NONE), _hosts, _address, _ingress_ports),
    ),
    GroupKind(_NETWORK, "IngressClass"): (
        "Name | Controller | Parameters | Age",
        (at("spec", "controller"), _parameters),
    ),
    GroupKind(_NETWORK, "IPAddress"): ("Name | ParentRef", (_parent,)),
    GroupKind(_NETWORK, "NetworkPolicy"): ("Name | Pod-Selector | Age", (_pod_selector,)),
    GroupKind(_NETWORK, "ServiceCIDR"): (
        "Name | CIDRs | Age",
        (lambda obj: ",".join(get(obj, "spec", "cidrs", default=())),),
    ),
    GroupKind(_RBAC, "Role"): ("Name | Created At:date", ()),
    GroupKind(_RBAC, "ClusterRole"): ("Name | Created At:date", ()),
    GroupKind(_RBAC, "RoleBinding"): _BINDING,
    GroupKind(_RBAC, "ClusterRoleBinding"): _BINDING,
    GroupKind("policy", "PodDisruptionBudget"): (
        "Name | Min Available | Max Unavailable | Allowed Disruptions:integer | Age",
        (
            _bound("minAvailable"),
            _bound("maxUnavailable"),
            at("status", "disruptionsAllowed", default=0),
        ),
    ),
    GroupKind(_STORAGE, "CSIDriver"): (
        (
            "Name | AttachRequired:boolean | PodInfoOnMount:boolean | StorageCapacity:boolean"
            " | TokenRequests | RequiresRepublish:boolean | Modes | Age"
        ),
        (
            at("spec", "attachRequired", default=True),
            at("spec", "podInfoOnMount", default=False),
            at("spec", "storageCapacity", default=False),
            _audiences,
            at("spec", "requiresRepublish", default=False),
            lambda obj: ",".join(get(obj, "spec", "volumeLifecycleModes", default=())) or NONE,
        ),
    ),
    GroupKind(_STORAGE, "CSINode"): (
        "Name | Drivers:integer | Age",
        (count("spec", "drivers"),),
    ),
    GroupKind(_STORAGE, "CSIStorageCapacity"): ("Name | Created At:date", ()),
    GroupKind(_STORAGE, "StorageClass"): (
        "Name* | Provisioner | ReclaimPolicy | VolumeBindingMode | AllowVolumeExpansion | Age",
        (
            _class_name,
            at("provisioner"),
            at("reclaimPolicy", default="Delete"),
            at("volumeBindingMode", default="Immediate"),
            at("allowVolumeExpansion", default=False),
        ),
    ),
    GroupKind(_STORAGE, "VolumeAttachment"): (
        "Name | Attacher* | PV | Node | Attached:boolean | Age",
        (
            at("spec", "attacher"),
            at("spec", "source", "persistentVolumeName"),
            at("spec", "nodeName"),
            at("status", "attached", default=False),
        ),
    ),
    GroupKind(_STORAGE, "VolumeAttributesClass"): (
        "Name | DriverName | Age",
        (at("driverName"),),
    ),
    GroupKind(_ADMISSION, "MutatingWebhookConfiguration"): _HOOKS,
    GroupKind(_ADMISSION, "ValidatingWebhookConfiguration"): _HOOKS,
    GroupKind(_ADMISSION, "ValidatingAdmissionPolicy"): (
        "Name | Validations:integer | ParamKind | Age",
        (count("spec", "validations"), _param_kind),
    ),
    GroupKind(_ADMISSION, "ValidatingAdmissionPolicyBinding"): (
        "Name | PolicyName | ParamRef | Age",
        (at("spec", "policyName"), _param_ref),
    ),
    GroupKind("scheduling.k8s.io", "PriorityClass"): (
        "Name | Value:integer | Global-Default:boolean | Age | PreemptionPolicy",
        (
            at("value", default=0),
            at("globalDefault", default=False),
            at("preemptionPolicy"),
        ),
    ),
}
