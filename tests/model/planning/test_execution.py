"""Execution of one action: requests in order, and the outcome of every answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from gitkruise.errors import AlreadyExists, ApiError, Conflict, Forbidden, InternalError, NotFound
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.execution import performing
from gitkruise.model.planning.plan import (
    Action,
    Applied,
    Create,
    Delete,
    Outcome,
    Patch,
    PatchStep,
    Refused,
    Stale,
)
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import Obj, ObjectKey

CATALOG: Final = load_catalog()


def key(kind: str, name: str) -> ObjectKey:
    return ObjectKey("", kind, "shop", name)


def obj(kind: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"namespace": "shop", "name": name, "resourceVersion": "8"},
    }


def find(wanted: ObjectKey, version: str) -> Kind:
    kind = CATALOG.by_kind(wanted.group, version, wanted.kind)
    if kind is None:
        raise NotFound(f"no {wanted.kind}")
    return kind


def delete(kind: str, name: str, *then: Delete) -> Delete:
    return Delete(
        key=key(kind, name), version="v1", uid=f"uid-{name}", resource_version="", then=then
    )


CLAIM: Final = delete("PersistentVolumeClaim", "data")
POD: Final = delete("Pod", "web", CLAIM)
NEW: Final = Create(obj=obj("Pod", "web"), claims=(obj("PersistentVolumeClaim", "data"),))
STEPS: Final = (PatchStep(body={"spec": {}}), PatchStep(body={"status": {}}, subresource="status"))
CHANGE: Final = Patch(
    key=key("ConfigMap", "web"), version="v1", uid="u", resource_version="7", steps=STEPS
)
ODD: Final = Delete(
    key=ObjectKey("x.io", "Odd", "shop", "a"), version="v1", uid="u", resource_version=""
)


def played(action: Action, refused: Mapping[str, ApiError]) -> tuple[list[str], Outcome]:
    """The requests as `verb resource/name`, and the outcome; those of `refused` fail."""
    writes = performing(action, find, lambda _: None)
    sent: list[str] = []
    answer: Obj | ApiError | None = None
    while True:
        try:
            request = (
                writes.throw(answer) if isinstance(answer, ApiError) else writes.send(answer)  # type: ignore[arg-type]  # None starts a generator
            )
        except StopIteration as done:
            outcome: Outcome = done.value
            return sent, outcome
        name = request.name or request.body["metadata"]["name"]
        sent.append(f"{request.verb} {request.resource.plural}/{name}")
        answer = refused.get(sent[-1], obj("Any", name))


CLAIM_MADE, POD_MADE = "create persistentvolumeclaims/data", "create pods/web"
POD_GONE, CLAIM_GONE = "delete pods/web", "delete persistentvolumeclaims/data"
PATCHED: Final = "patch configmaps/web"
ROWS: Final[dict[str, tuple[Action, dict[str, ApiError], list[str], type[Outcome], int]]] = {
    "claims first": (NEW, {}, [CLAIM_MADE, POD_MADE], Applied, 2),
    "a claim is used again": (
        NEW, {CLAIM_MADE: AlreadyExists("")}, [CLAIM_MADE, POD_MADE], Applied, 1,
    ),
    "no pod without its claim": (NEW, {CLAIM_MADE: Forbidden("")}, [CLAIM_MADE], Refused, 0),
    "a name that is taken": (NEW, {POD_MADE: AlreadyExists("")}, [CLAIM_MADE, POD_MADE], Stale, 0),
    "followers go after it": (POD, {}, [POD_GONE, CLAIM_GONE], Applied, 2),
    "a follower that is gone": (
        POD, {CLAIM_GONE: NotFound("")}, [POD_GONE, CLAIM_GONE], Applied, 1,
    ),
    "a follower that stays": (
        POD, {CLAIM_GONE: Forbidden("")}, [POD_GONE, CLAIM_GONE], Refused, 0,
    ),
    "gone already": (POD, {POD_GONE: NotFound("")}, [POD_GONE], Stale, 0),
    "every step": (CHANGE, {}, [PATCHED, PATCHED], Applied, 2),
    "another version": (CHANGE, {PATCHED: Conflict("")}, [PATCHED], Stale, 0),
    "a lost answer": (CHANGE, {PATCHED: InternalError("")}, [PATCHED], Refused, 0),
    "a kind that is not served": (ODD, {}, [], Stale, 0),
}  # fmt: skip


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_an_action_becomes_requests_and_one_outcome(
    row: tuple[Action, dict[str, ApiError], list[str], type[Outcome], int],
) -> None:
    action, refused, wanted, kind, replies = row
    sent, outcome = played(action, refused)
    assert sent == wanted
    assert type(outcome) is kind
    assert outcome.action is action
    assert len(outcome.replies if isinstance(outcome, Applied) else ()) == replies
