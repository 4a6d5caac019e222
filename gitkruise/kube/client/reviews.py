"""Reviews of an API server, for servers of ours that serve its users: whose token it is, and what
that user may do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef

TOKEN_MAX: Final = 8_000
_TOKEN_REVIEWS: Final = ResourceRef("authentication.k8s.io", "v1", "tokenreviews")
_ACCESS_REVIEWS: Final = ResourceRef("authorization.k8s.io", "v1", "subjectaccessreviews")


@dataclass(frozen=True, slots=True)
class User:
    """A user as the API server authenticated it."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


def bearer_token(headers: Mapping[str, str]) -> str:
    """Return the token of an Authorization header; "" without one, or where it is too long."""
    kind, _, token = headers.get("Authorization", "").partition(" ")
    good = kind.lower() == "bearer" and len(token) <= TOKEN_MAX
    return token.strip() if good else ""


async def user_of_token(transport: Transport, token: str) -> User | None:
    """Return the user of a token by TokenReview; None for an invalid one. Raises ApiError."""
    body = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": token},
    }
    request = ApiRequest(verb="create", resource=_TOKEN_REVIEWS, body=body)
    status = get((await transport.send(request)).body, "status", default={})
    user = status.get("user") or {}
    if status.get("authenticated") is not True or not user.get("username"):
        return None
    extra = sorted((user.get("extra") or {}).items())
    return User(
        name=user["username"],
        uid=user.get("uid", ""),
        groups=tuple(user.get("groups") or ()),
        extra=tuple((key, tuple(values)) for key, values in extra),
    )


async def may(transport: Transport, user: User, **attributes: Mapping[str, str]) -> bool:
    """Return whether a user may do something by SubjectAccessReview. Raises ApiError.

    `attributes` is one of nonResourceAttributes and resourceAttributes.
    """
    spec: dict[str, Any] = {
        "user": user.name,
        "uid": user.uid,
        "groups": list(user.groups),
        "extra": {key: list(values) for key, values in user.extra},
        **attributes,
    }
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    request = ApiRequest(verb="create", resource=_ACCESS_REVIEWS, body=body)
    review = (await transport.send(request)).body
    return get(review, "status", "allowed", default=False) is True
