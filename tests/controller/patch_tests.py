"""Rows of JSON patches with `test` operations, and the answers of a real kube-apiserver to them."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gitkruise.errors import ApiError
from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.requests import (
    JSON_PATCH,
    MERGE_PATCH,
    PODS,
    STRATEGIC_PATCH,
    ApiRequest,
    ResourceRef,
)

NAMESPACES: Final = ResourceRef("", "v1", "namespaces")
SPACE: Final = "patch-tests"
OWNER: Final = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u-1",
                "controller": True, "blockOwnerDeletion": True}  # fmt: skip
LABELS: Final = {"app": "web"}
NOTES: Final = {"apps.kruise.io/x": "1", "empty": ""}
FINALIZERS: Final = ["example.com/b", "example.com/a"]
READY: Final = {"type": "Ready", "status": "True", "lastProbeTime": None,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}  # fmt: skip
FULL: Final[dict[str, Any]] = {
    "labels": LABELS, "annotations": NOTES, "finalizers": FINALIZERS, "ownerReferences": [OWNER],
}  # fmt: skip


class Row(NamedTuple):
    """One operation on pod `full` or `bare`, and the status code of the answer."""

    pod: str
    path: str
    value: Any
    code: int
    subresource: str = ""


OK, REFUSED = 200, 422
META, COND, BOX = "/metadata", "/status/conditions", "/spec/containers"
ROWS: Final = (
    # A missing field equals null, and nothing that is there does.
    *(
        Row("bare", f"{META}/{field}", value, code)
        for field in ("labels", "annotations", "finalizers", "ownerReferences", "deletionTimestamp")
        for value, code in ((None, OK), ({}, REFUSED), ([], REFUSED), ("", REFUSED))
    ),
    *(Row("full", f"{META}/{field}", None, REFUSED) for field in FULL),
    *(Row("full", f"{META}/{field}", value, OK) for field, value in FULL.items()),
    # A missing key of a map, and one whose text is empty.
    Row("full", f"{META}/annotations/apps.kruise.io~1x", "1", OK),
    Row("full", f"{META}/annotations/apps.kruise.io~1x", "2", REFUSED),
    Row("full", f"{META}/annotations/apps.kruise.io~1x", None, REFUSED),
    Row("full", f"{META}/annotations/apps.kruise.io~1y", None, OK),
    Row("full", f"{META}/annotations/apps.kruise.io~1y", "", REFUSED),
    Row("full", f"{META}/annotations/empty", "", OK),
    Row("full", f"{META}/annotations/empty", None, REFUSED),
    # A missing parent.
    Row("bare", f"{META}/annotations/apps.kruise.io~1x", None, REFUSED),
    Row("bare", f"{META}/annotations/apps.kruise.io~1x", "1", REFUSED),
    Row("bare", f"{META}/ownerReferences/0", None, REFUSED),
    Row("bare", f"{META}/ownerReferences/0/uid", None, REFUSED),
    Row("bare", f"{META}/no/such/path", None, REFUSED),
    Row("bare", f"{META}/name/inner", None, REFUSED),
    Row("bare", f"{META}/name/inner/most", None, REFUSED),
    # Lists: their order and their length count; the order of keys does not.
    Row("full", f"{META}/finalizers", FINALIZERS[::-1], REFUSED),
    Row("full", f"{META}/finalizers", FINALIZERS[:1], REFUSED),
    Row("full", f"{META}/finalizers/0", FINALIZERS[0], OK),
    Row("full", f"{META}/finalizers/1", FINALIZERS[0], REFUSED),
    Row("full", f"{META}/finalizers/2", None, REFUSED),
    Row("full", f"{META}/finalizers/-", None, REFUSED),
    Row("full", f"{META}/finalizers/-1", FINALIZERS[1], OK),
    Row("full", f"{META}/finalizers/-2", FINALIZERS[0], OK),
    Row("full", f"{META}/finalizers/-3", None, REFUSED),
    Row("full", f"{META}/finalizers/+01", FINALIZERS[1], OK),
    Row("full", f"{META}/finalizers/", None, REFUSED),
    Row("full", f"{META}/finalizers/0/x", None, REFUSED),
    Row("full", f"{META}/ownerReferences/-1/uid", "u-1", OK),
    Row("full", f"{META}/finalizers/x", None, REFUSED),
    Row("full", f"{META}/ownerReferences", [dict(reversed(OWNER.items()))], OK),
    Row("full", f"{META}/ownerReferences", [{**OWNER, "controller": False}], REFUSED),
    Row("full", f"{META}/ownerReferences", [{**OWNER, "controller": 1}], REFUSED),
    Row("full", f"{META}/ownerReferences", [{**OWNER, "more": None}], REFUSED),
    Row("full", f"{META}/ownerReferences/0/uid", "u-1", OK),
    Row("full", f"{META}/ownerReferences/0/more", None, OK),
    Row("full", f"{META}/ownerReferences/1/uid", None, REFUSED),
    # Conditions, and the nulls a server itself answers with.
    *(
        Row(pod, path, value, code, subresource)
        for subresource in ("", "status")
        for pod, path, value, code in (
            ("full", f"{COND}/0/type", "Ready", OK),
            ("full", f"{COND}/0/status", "True", OK),
            ("full", f"{COND}/0/status", "False", REFUSED),
            ("full", f"{COND}/0/message", None, OK),
            ("full", f"{COND}/0/message", "", REFUSED),
            ("full", f"{COND}/0/lastProbeTime", None, OK),
            ("full", f"{COND}/1/type", None, REFUSED),
            ("bare", COND, None, OK),
            ("bare", COND, [], REFUSED),
            ("bare", f"{COND}/0/type", None, REFUSED),
            ("bare", f"{COND}/0/type", "Ready", REFUSED),
        )
    ),
    Row("bare", f"{BOX}/0/name", "app", OK),
    Row("bare", f"{BOX}/0/image", "app:v1", OK),
    Row("bare", f"{BOX}/0/image", "app:v2", REFUSED),
    Row("bare", f"{BOX}/1/image", None, REFUSED),
    Row("bare", f"{BOX}/1/image", "app:v1", REFUSED),
    Row("bare", "/spec/terminationGracePeriodSeconds", 30, OK),
    Row("bare", "/spec/terminationGracePeriodSeconds", "30", REFUSED),
)  # fmt: skip


async def prepare(transport: Transport) -> None:
    """Pod `full` with everything that a decision rests on, and pod `bare` with nothing of it."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    await transport.send(ApiRequest(verb="create", resource=NAMESPACES, body=space))
    for name, more in (("full", FULL), ("bare", {})):
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, **more},
            "spec": {"containers": [{"name": "app", "image": "app:v1"}]},
        }
        await transport.send(ApiRequest(verb="create", resource=PODS, namespace=SPACE, body=pod))
    status = {"status": {"phase": "Running", "conditions": [READY]}}
    await transport.send(
        ApiRequest(
            verb="patch", resource=PODS, namespace=SPACE, name="full", subresource="status",
            body=status, content_type=MERGE_PATCH,
        )
    )  # fmt: skip


async def answer(transport: Transport, row: Row) -> int:
    """The status code of the answer to the row's one operation."""
    operation = {"op": "test", "path": row.path, "value": row.value}
    request = ApiRequest(
        verb="patch", resource=PODS, namespace=SPACE, name=row.pod, subresource=row.subresource,
        body=[operation], content_type=JSON_PATCH,
    )  # fmt: skip
    try:
        await transport.send(request)
    except ApiError as error:
        return error.status
    return OK


async def differences(transport: Transport) -> list[tuple[Row, int]]:
    """Rows that are answered in another way than they say, with the answer."""
    await prepare(transport)
    return [(row, code) for row in ROWS if (code := await answer(transport, row)) != row.code]


async def taken_with_status(transport: Transport) -> tuple[Any, ...]:
    """What one patch of the status changes in pod `full`: metadata, image, types of conditions."""
    change = {
        "metadata": {
            "labels": {"app": "api", "more": "1"},
            "annotations": {"empty": None, "more": "1"},
            "ownerReferences": None,
        },
        "spec": {"containers": [{"name": "app", "image": "app:v2"}]},
        "status": {"conditions": [{"type": "Ready", "status": "False"}]},
    }
    request = ApiRequest(
        verb="patch", resource=PODS, namespace=SPACE, name="full", subresource="status",
        body=change, content_type=STRATEGIC_PATCH,
    )  # fmt: skip
    pod = (await transport.send(request)).body
    meta, image = pod["metadata"], pod["spec"]["containers"][0]["image"]
    ready = [(c["type"], c["status"]) for c in pod["status"]["conditions"]]
    return meta["labels"], meta["annotations"], len(meta["ownerReferences"]), image, ready


TAKEN_WITH_STATUS: Final = (
    {"app": "api", "more": "1"},
    {"apps.kruise.io/x": "1", "more": "1"},
    1,
    "app:v1",
    [("Ready", "False")],
)
