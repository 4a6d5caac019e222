"""Labelled objects are not deleted while their protection holds: cases GUARD-1 to GUARD-29."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from gitkruise.admission.chain import admit
from gitkruise.admission.rules.request import DELETE, AdmissionRequest
from gitkruise.errors import ApiError, Forbidden
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates, parse_gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from tests.admission.writes import write

LABEL: Final = "policy.kruise.io/delete-protection"
P: Final = f"forbidden by ResourcesProtectionDeletion for {LABEL}="
ON: Final = Gates(resources_deletion_protection=True)
BOTH: Final = replace(ON, deletion_protection_for_crd_cascading_gate=True)
NOW: Final = datetime(2026, 7, 2, 10, 0, tzinfo=UTC)
GONE: Final = "2026-07-02T09:00:00Z"


def thing(kind: str, protection: str | None, api: str = "apps/v1", **spec: Any) -> dict[str, Any]:
    meta: dict[str, Any] = {"name": "x", "namespace": "shop"}
    if protection is not None:
        meta["labels"] = {LABEL: protection}
    return {"apiVersion": api, "kind": kind, "metadata": meta, "spec": spec}


def deleting(obj: Obj) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": GONE}}


def inside(kind: str, name: str, phase: str) -> Obj:
    meta = {"name": name, "namespace": "x"}
    return {"apiVersion": "v1", "kind": kind, "metadata": meta, "status": {"phase": phase}}


def deployment(protection: str | None, replicas: int | None = 0) -> Obj:
    spec: dict[str, Any] = {} if replicas is None else {"replicas": replicas}
    return thing("Deployment", protection, **spec)


def namespace(protection: str) -> Obj:
    return thing("Namespace", protection, "v1")


def definition(protection: str) -> Obj:
    api = "apiextensions.k8s.io/v1"
    names = {"kind": "Cup", "plural": "cups"}
    return thing("CustomResourceDefinition", protection, api, group="tea.example", names=names)


def kruise(kind: str, protection: str, replicas: int | None, version: str = "v1alpha1") -> Obj:
    spec: dict[str, Any] = {} if replicas is None else {"replicas": replicas}
    return thing(kind, protection, f"apps.kruise.io/{version}", **spec)


CUP: Final = {"apiVersion": "tea.example/v1", "kind": "Cup", "metadata": {"name": "a"}}
RUNNING, SUCCEEDED, FAILED = (
    inside("Pod", phase.lower(), phase) for phase in ("Running", "Succeeded", "Failed")
)
ENDING: Final = deleting(inside("Pod", "ending", "Running"))
WAITING: Final = inside("PersistentVolumeClaim", "waiting", "Pending")
BOUND: Final = tuple(inside("PersistentVolumeClaim", name, "Bound") for name in "ab")
ELSEWHERE: Final = {**RUNNING, "metadata": {"name": "far", "namespace": "y"}}
INGRESS: Final = "networking.k8s.io/v1beta1"


def verdict(
    old: Obj, gates: Gates = ON, around: tuple[Obj, ...] = (), *, subresource: str = ""
) -> str:
    """ "" when the deletion is admitted, otherwise the webhook and its message."""
    request = write(old, old, operation=DELETE, around=around, subresource=subresource)
    try:
        assert admit(replace(request, obj=None), gates) is None
    except Forbidden as error:
        start, _, message = error.message.partition(" denied the request: ")
        return f"{start.removeprefix('admission webhook ')} {message}"
    return ""


@pytest.mark.parametrize(
    ("old", "gates", "around", "message"),
    [
        pytest.param(deployment(None, 3), ON, (), "", id="GUARD-1"),
        pytest.param(
            deployment("Always"), ON, (), f'"vbuiltindeployment.kb.io" {P}Always', id="GUARD-2"
        ),
        pytest.param(
            deployment("Cascading", 3),
            ON,
            (),
            f'"vbuiltindeployment.kb.io" {P}Cascading and replicas 3>0',
            id="GUARD-3",
        ),
        pytest.param(deployment("Cascading"), ON, (ENDING,), "", id="GUARD-4"),
        pytest.param(deployment("Cascading", None), ON, (), "", id="GUARD-5"),
        pytest.param(deployment("always", 3), ON, (), "", id="GUARD-6"),
        pytest.param(deployment("Always"), Gates(), (), "", id="GUARD-7"),
        pytest.param(deleting(deployment("Always")), ON, (), "", id="GUARD-8"),
        pytest.param(namespace("Always"), ON, (), f'"vnamespace.kb.io" {P}Always', id="GUARD-12"),
        pytest.param(
            namespace("Cascading"),
            ON,
            (RUNNING, SUCCEEDED, ELSEWHERE, *BOUND),
            f'"vnamespace.kb.io" {P}Cascading and active pods 1>0',
            id="GUARD-13",
        ),
        pytest.param(
            namespace("Cascading"),
            ON,
            (SUCCEEDED, FAILED, ENDING, ELSEWHERE, WAITING),
            "",
            id="GUARD-14",
        ),
        pytest.param(
            namespace("Cascading"),
            ON,
            BOUND,
            f'"vnamespace.kb.io" {P}Cascading and "Bound" status pvc 2>0',
            id="GUARD-15",
        ),
        pytest.param(namespace("Cascading"), ON, tuple(map(deleting, BOUND)), "", id="GUARD-16"),
        pytest.param(
            definition("Cascading"),
            ON,
            (),
            '"vcustomresourcedefinition.kb.io" '
            "feature-gate DeletionProtectionForCRDCascadingGate is not enabled",
            id="GUARD-17",
        ),
        pytest.param(
            definition("Cascading"),
            BOTH,
            (CUP,),
            f'"vcustomresourcedefinition.kb.io" {P}Cascading and active CRs 1>0',
            id="GUARD-18",
        ),
        pytest.param(definition("Cascading"), BOTH, (deleting(CUP),), "", id="GUARD-19"),
        pytest.param(
            definition("Always"),
            ON,
            (),
            f'"vcustomresourcedefinition.kb.io" {P}Always',
            id="GUARD-20",
        ),
        pytest.param(
            definition("Cascading"),
            parse_gates("DeletionProtectionForCRDCascadingGate=true"),
            (CUP,),
            "",
            id="GUARD-21",
        ),
        pytest.param(thing("Service", "Cascading", "v1"), ON, (), "", id="GUARD-22"),
        pytest.param(
            thing("Service", "Always", "v1"), ON, (), f'"vservice.kb.io" {P}Always', id="GUARD-23"
        ),
        pytest.param(
            thing("Ingress", "Always", INGRESS),
            ON,
            (),
            f'"vingress.kb.io" {P}Always',
            id="GUARD-24",
        ),
        pytest.param(
            kruise("CloneSet", "Cascading", 2),
            ON,
            (),
            f'"vcloneset.kb.io" {P}Cascading and replicas 2>0',
            id="GUARD-25",
        ),
        pytest.param(kruise("DaemonSet", "Always", None), ON, (), "", id="GUARD-27"),
        pytest.param(
            kruise("StatefulSet", "Cascading", 1, "v1beta1"),
            ON,
            (),
            f'"vstatefulset.kb.io" {P}Cascading and replicas 1>0',
            id="C.2 advanced statefulset",
        ),
        pytest.param(
            kruise("UnitedDeployment", "Cascading", None), ON, (), "", id="C.2 no replicas"
        ),
    ],
)
def test_verdict(old: Obj, gates: Gates, around: tuple[Obj, ...], message: str) -> None:
    assert verdict(old, gates, around) == message


def test_a_subresource_is_not_protected() -> None:
    """GUARD-11."""
    assert verdict(deployment("Always"), subresource="scale") == ""


SHOP: Final = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
SERVICES: Final = ResourceRef("", "v1", "services")
SPACES: Final = ResourceRef("", "v1", "namespaces")


class Shop:
    """A cluster with services `a` (unprotected) and `b` (Always) in namespace shop."""

    def __init__(self) -> None:
        def admitted(request: AdmissionRequest) -> Obj | None:
            return admit(request, ON)

        self.world = World(load_catalog(), admit=admitted)
        self.ask("create", SPACES, "", body=SHOP)
        for name, labels in (("a", {}), ("b", {LABEL: "Always"})):
            meta = {"name": name, "labels": labels}
            body = {"apiVersion": "v1", "kind": "Service", "metadata": meta,
                    "spec": {"ports": [{"port": 80}]}}  # fmt: skip
            self.ask("create", SERVICES, "shop", body=body)

    def ask(self, verb: str, ref: ResourceRef, space: str, name: str = "", **more: Any) -> Any:
        request = ApiRequest(verb=verb, resource=ref, namespace=space, name=name, **more)
        return self.world.handle(request, NOW).body

    def names(self) -> list[str]:
        return [o["metadata"]["name"] for o in self.ask("list", SERVICES, "shop")["items"]]


def test_a_dry_run_is_refused_like_a_deletion() -> None:
    """GUARD-9."""
    shop = Shop()
    for options in ({"dryRun": ["All"]}, {}):
        with pytest.raises(Forbidden) as refused:
            shop.ask("delete", SERVICES, "shop", "b", body=options)
        assert refused.value.as_status()["code"] == 403
    assert shop.names() == ["a", "b"]


def test_the_label_comes_off_and_the_object_goes() -> None:
    """GUARD-10."""
    shop = Shop()
    off = {"metadata": {"labels": {LABEL: None}}}
    shop.ask("patch", SERVICES, "shop", "b", body=off, content_type=MERGE_PATCH)
    shop.ask("delete", SERVICES, "shop", "b")
    assert shop.names() == ["a"]


def test_a_collection_goes_up_to_the_protected_object() -> None:
    """GUARD-29."""
    shop = Shop()
    with pytest.raises(ApiError, match=r"vservice\.kb\.io"):
        shop.ask("deletecollection", SERVICES, "shop")
    assert shop.names() == ["b"]
