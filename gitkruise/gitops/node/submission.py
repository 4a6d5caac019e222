"""Creation of requests: a dry run first, and what a server's refusal means."""

from __future__ import annotations

from typing import Final

from gitkruise.errors import (
    BadRequest,
    ClusterFailed,
    Finding,
    Forbidden,
    InvalidObject,
    NotFound,
)
from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef

MANAGER: Final = "gitkruise"
_GATE: Final = "feature-gate"


async def submit(
    transport: Transport, resource: ResourceRef, body: Obj, *, dry_run: bool = False
) -> Obj:
    """Create an object and return it as stored, or as it would be.

    Raises ClusterFailed GK4603 for a kind that is not served, GK4604 for a rejection.
    """
    request = ApiRequest(
        verb="create",
        resource=resource,
        namespace=body["metadata"]["namespace"],
        body=body,
        params={"fieldManager": MANAGER, **({"dryRun": "All"} if dry_run else {})},
    )
    try:
        return (await transport.send(request)).body
    except NotFound as error:
        raise not_served(body["kind"], error.message) from error
    except (BadRequest, InvalidObject) as error:
        raise _rejected(error.message) from error
    except Forbidden as error:
        if _GATE not in error.message:
            raise
        raise _rejected(error.message) from error


def refused(code: str, message: str, next_: str, *notes: tuple[str, str]) -> ClusterFailed:
    """The error of a command that created nothing."""
    extended = (*notes, ("unchanged", "nothing was created"), ("next", next_))
    return ClusterFailed(Finding(code=code, message=message, notes=extended))


def not_served(kind: str, why: str) -> ClusterFailed:
    """The error of a cluster without the kind of a request."""
    message = f"this cluster does not serve {kind} in this namespace"
    next_ = "gitkruise install --crds --webhooks, or install OpenKruise"
    return refused("GK4603", message, next_, ("why", why))


def _rejected(message: str) -> ClusterFailed:
    gate = "turn the gate on where the webhooks run (--feature-gates), then try again"
    next_ = gate if _GATE in message else "correct what the message names"
    return refused("GK4604", f"the cluster rejected the request: {message}", next_)
