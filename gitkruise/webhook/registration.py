"""Registration of the webhooks: configurations, and the conversion of CRDs; kept up to date.

Pods are never held up by us: `failurePolicy: Ignore`, and the cluster's own and our namespace are
left out. Our kinds are: an unchecked CloneSet would be rolled out unchecked.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.admission.kruise.deletion_protection import LABEL
from gitkruise.errors import ClusterFailed, Conflict, Finding
from gitkruise.kube.client.discovery import CRDS
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import WEBHOOK_SUFFIX
from gitkruise.wire.patch.json_patch import same
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef, apply_request, merge_request

log: Final = logging.getLogger(__name__)

MUTATE, VALIDATE, CONVERT = "/mutate", "/validate", "/convert"
TIMEOUT_S: Final = 5.0  # several webhooks add up against the ~30 s of a request
MANAGER: Final = "gitkruise-webhook"
NAME: Final = "gitkruise"
OURS: Final = ["gitkruise", "gitkruise-webhook"]  # names of our pods
GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = ResourceRef(GROUP, "v1", "mutatingwebhookconfigurations")
VALIDATING: Final = ResourceRef(GROUP, "v1", "validatingwebhookconfigurations")
OPENKRUISE: Final = "kruise-mutating-webhook-configuration"
BUDGETS: Final = "podunavailablebudgets"
SPREADS: Final = "workloadspreads"
WORKLOADS: Final = ("clonesets", "sidecarsets", "statefulsets")
CONVERTED: Final = (
    *(f"{plural}.apps.kruise.io" for plural in (*WORKLOADS, SPREADS)),
    f"{BUDGETS}.policy.kruise.io",
)  # fmt: skip
NODE_REQUESTS: Final = (
    "containerrecreaterequests", "imagepulljobs", "imagelistpulljobs", "nodeimages",
)  # fmt: skip
NAMESPACE_LABEL: Final = "kubernetes.io/metadata.name"
_VERSIONS: Final = ["v1alpha1", "v1beta1"]
_PROTECTED: Final = (
    ("", ["v1"], ("namespaces", "services")),
    ("apiextensions.k8s.io", ["v1"], ("customresourcedefinitions",)),
    ("apps", ["v1"], ("deployments", "replicasets", "statefulsets")),
    ("apps.kruise.io", _VERSIONS, ("clonesets", "statefulsets", "uniteddeployments")),
    ("networking.k8s.io", ["v1"], ("ingresses",)),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Address for API servers: a Service (`namespace/name`, port 443), or a URL."""

    namespace: str
    service: str = ""
    url: str = ""

    def __post_init__(self) -> None:
        if bool(self.service) == bool(self.url):
            raise ValueError("the address is a Service or a URL")

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names our certificate must be for."""
        if self.service:
            inside = f"{self.service}.{self.namespace}.svc"
            return (inside, f"{inside}.cluster.local", f"{self.service}.{self.namespace}")
        authority = self.url.removeprefix("https://").partition("/")[0]
        host = authority.rpartition(":")[0] if authority.rpartition("]")[2] else authority
        return ((host if ":" in authority else authority).strip("[]"),)

    def client(self, path: str, bundle: bytes) -> dict[str, Any]:
        """The clientConfig of one path."""
        trust = {"caBundle": base64.b64encode(bundle).decode()}
        if self.url:
            return {"url": self.url.rstrip("/") + path, **trust}
        where = {"namespace": self.namespace, "name": self.service, "path": path, "port": 443}
        return {"service": where, **trust}


def configurations(
    address: Address, bundle: bytes, gates: Gates = Gates()
) -> tuple[tuple[ResourceRef, Obj], ...]:
    """Both configurations as they should be, with every default spelled out.

    By `gates`, labelled objects are not deleted without our word, and pods of a
    PodUnavailableBudget not deleted, evicted or updated. The subset that a new pod takes of a
    WorkloadSpread is recorded there, as is a pod that goes.
    """
    mutate, validate = (address.client(path, bundle) for path in (MUTATE, VALIDATE))
    mutating = [
        _webhook("pods", mutate, _rule("", ["v1"], "pods", operations=["CREATE"]))
        | {"failurePolicy": "Ignore", "reinvocationPolicy": "Never", **_spared(address)}
        | ({"sideEffects": "NoneOnDryRun"} if gates.workload_spread else {}),
        *(
            _webhook(plural, mutate, _kinds_rule(plural)) | {"reinvocationPolicy": "Never"}
            for plural in (*WORKLOADS, *NODE_REQUESTS)
        ),
    ]
    validating = [_webhook(plural, validate, _kinds_rule(plural)) for plural in WORKLOADS]
    if gates.resources_deletion_protection:
        validating.append(_protection(validate))
    if gates.budgets_pods:
        rule = _rule("policy.kruise.io", _VERSIONS, BUDGETS, operations=["CREATE", "UPDATE"])
        validating.append(_webhook(BUDGETS, validate, rule))
    if gates.workload_spread:
        validating.append(_webhook(SPREADS, validate, _kinds_rule(SPREADS)))
    if gates.budgets_pods or gates.workload_spread:
        validating.append(_leaving_pods(validate, gates) | _spared(address))
    return (
        (MUTATING, _configuration("MutatingWebhookConfiguration", mutating)),
        (VALIDATING, _configuration("ValidatingWebhookConfiguration", validating)),
    )


def _configuration(kind: str, webhooks: Sequence[Obj]) -> Obj:
    labels = {"app.kubernetes.io/name": NAME, "app.kubernetes.io/managed-by": MANAGER}
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": NAME, "labels": labels},
        "webhooks": webhooks,
    }


def _webhook(name: str, client: Obj, *rules: Obj) -> dict[str, Any]:
    return {
        "name": f"{name}{WEBHOOK_SUFFIX}",
        "clientConfig": client,
        "rules": list(rules),
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": int(TIMEOUT_S),
        "admissionReviewVersions": ["v1"],
    }


def _protection(client: Obj) -> dict[str, Any]:
    """Asked about deletions of what bears the label, and of nothing else."""
    rules = [
        _rule(group, versions, *plurals, operations=["DELETE"])
        for group, versions, plurals in _PROTECTED
    ]
    labelled = {"matchExpressions": [{"key": LABEL, "operator": "Exists"}]}
    return _webhook("protection", client, *rules) | {"objectSelector": labelled}


def _leaving_pods(client: Obj, gates: Gates) -> dict[str, Any]:
    """Asked before a pod leaves service. What passes is recorded in its budget and its
    WorkloadSpread."""
    rules = []
    if gates.pod_unavailable_budget_delete_gate or gates.workload_spread:
        rules.append(_rule("", ["v1"], "pods", operations=["DELETE"]))
        rules.append(_rule("", ["v1"], "pods/eviction", operations=["CREATE"]))
    if gates.pod_unavailable_budget_update_gate:
        rules.append(_rule("", ["v1"], "pods", operations=["UPDATE"]))
    return _webhook("leaving-pods", client, *rules) | {
        "failurePolicy": "Ignore",
        "sideEffects": "NoneOnDryRun",
    }


def _kinds_rule(plural: str) -> Obj:
    return _rule("apps.kruise.io", _VERSIONS, plural, operations=["CREATE", "UPDATE"])


def _rule(group: str, versions: list[str], *plurals: str, operations: list[str]) -> Obj:
    return {
        "apiGroups": [group],
        "apiVersions": versions,
        "operations": operations,
        "resources": list(plurals),
        "scope": "*",
    }


def _spared(address: Address) -> dict[str, Any]:
    """Not the cluster's own pods, not those of control planes, not ours."""
    spaces = sorted({"kube-system", "kube-node-lease", address.namespace})
    outside = {"key": NAMESPACE_LABEL, "operator": "NotIn", "values": spaces}
    planes = {"key": "control-plane", "operator": "DoesNotExist"}
    ours = {"key": "app.kubernetes.io/name", "operator": "NotIn", "values": OURS}
    return {
        "namespaceSelector": {"matchExpressions": [outside, planes]},
        "objectSelector": {"matchExpressions": [ours]},
    }


def conversion_patch(crd: Obj, address: Address, bundle: bytes) -> Obj | None:
    """A merge patch that lets a CRD serve all its versions through us; None when it does."""
    client = address.client(CONVERT, bundle)
    reviews = {"conversionReviewVersions": ["v1"]}
    wanted = {"strategy": "Webhook", "webhook": {"clientConfig": client, **reviews}}
    versions: Sequence[Obj] = crd["spec"]["versions"]
    spec: dict[str, Any] = {}
    if not same(get(crd, "spec", "conversion"), wanted):
        other = "url" if address.service else "service"  # a merge patch would keep it next to ours
        webhook = {"clientConfig": {**client, other: None}, **reviews}
        spec["conversion"] = {"strategy": "Webhook", "webhook": webhook}
    if not all(version.get("served") for version in versions):
        spec["versions"] = [{**version, "served": True} for version in versions]
    if not spec:
        return None
    meta = crd["metadata"]
    pinned = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    return {"metadata": pinned, "spec": spec}


class Registrar:
    """Writes what is missing or different, and nothing else."""

    def __init__(self, transport: Transport, address: Address, gates: Gates = Gates()) -> None:
        self._transport, self._address, self._gates = transport, address, gates

    async def refuse_beside_openkruise(self) -> None:
        """Raises ClusterFailed GK5111: two injectors would inject everything twice."""
        if await find_object(self._transport, MUTATING, OPENKRUISE) is None:
            return
        raise ClusterFailed(
            Finding(
                code="GK5111",
                message="OpenKruise's webhooks are on this cluster",
                notes=(
                    ("why", "pods would get their sidecars twice"),
                    ("found", f"MutatingWebhookConfiguration {OPENKRUISE}"),
                    ("next", "leave webhooks to OpenKruise, or uninstall it first"),
                ),
            )
        )

    async def publish(self, bundle: bytes) -> list[str]:
        """Names of what had to be written. Raises ApiError."""
        written = []
        for ref, wanted in configurations(self._address, bundle, self._gates):
            live = await find_object(self._transport, ref, NAME)
            if live is None or not same(live.get("webhooks"), wanted["webhooks"]):
                await self._apply(ref, wanted)
                written.append(wanted["kind"])
        for name in CONVERTED:
            crd = await find_object(self._transport, CRDS, name)
            patch = conversion_patch(crd, self._address, bundle) if crd else None
            if patch is not None and await self._convert(name, patch):
                written.append(name)
        return written

    async def registered(self) -> list[ObjectKey]:
        """The configurations, and the CRDs that are converted by us. Raises ApiError."""
        found = [
            key_of(obj)
            for ref in (MUTATING, VALIDATING)
            if (obj := await find_object(self._transport, ref, NAME)) is not None
        ]
        return found + [key_of(crd) for crd in await self._converted()]

    async def withdraw(self) -> list[str]:
        """Take the configurations away, and serve CRDs as without us. Raises ApiError."""
        gone = []
        for ref in (MUTATING, VALIDATING):
            if await find_object(self._transport, ref, NAME) is not None:
                await self._transport.send(ApiRequest(verb="delete", resource=ref, name=NAME))
                gone.append(ref.plural)
        for crd in await self._converted():
            name = str(crd["metadata"]["name"])
            if await self._convert(name, _alone(crd)):
                gone.append(name)
        return gone

    async def _converted(self) -> list[Obj]:
        found = [await find_object(self._transport, CRDS, name) for name in CONVERTED]
        return [crd for crd in found if crd is not None and _by_us(crd)]

    async def _convert(self, name: str, patch: Obj) -> bool:
        try:
            await self._transport.send(merge_request(CRDS, name, patch, MANAGER))
        except Conflict:
            log.info(log_line("webhook-conflict", configuration=name))
            return False
        return True

    async def _apply(self, ref: ResourceRef, wanted: Obj) -> None:
        await self._transport.send(apply_request(ref, wanted, MANAGER, force=True))


def _by_us(crd: Obj) -> bool:
    """Return whether we wrote the authority that conversion trusts; OpenKruise writes its own."""
    trust = ("f:spec", "f:conversion", "f:webhook", "f:clientConfig", "f:caBundle")
    return any(
        entry.get("manager") == MANAGER and get(entry, "fieldsV1", *trust) is not None
        for entry in get(crd, "metadata", "managedFields", default=())
    )


def _alone(crd: Obj) -> Obj:
    """The patch back: the storage version alone, because nothing converts any more."""
    meta = crd["metadata"]
    pinned = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
    versions = [{**version, "served": version["storage"]} for version in crd["spec"]["versions"]]
    conversion = {"strategy": "None", "webhook": None}
    return {"metadata": pinned, "spec": {"conversion": conversion, "versions": versions}}
