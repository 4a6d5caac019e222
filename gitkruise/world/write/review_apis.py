"""Review APIs, answered and never stored: authentication and authorization reviews."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import ACCOUNT, GroupKind, Obj
from gitkruise.wire.primitives.requests import ApiReply
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.store import api_errors
from gitkruise.world.store.request_context import RequestContext
from gitkruise.world.write.decoding import undecodable
from gitkruise.world.write.object_meta import check_type

AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"
MASTERS: Final = ("system:masters",)


def user_info(name: str, groups: Sequence[str]) -> dict[str, Any]:
    """Return the UserInfo of a name; a service account gets its groups as in kube-apiserver."""
    if not groups and name.startswith(ACCOUNT):
        namespace = name.removeprefix(ACCOUNT).partition(":")[0]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return {"username": name, "groups": [*dict.fromkeys((*groups, "system:authenticated"))]}


def user_of(call: RequestContext) -> dict[str, Any]:
    """Return the UserInfo of the client of a request."""
    return user_info(call.user, call.request.groups if call.request.user else MASTERS)


def _who_am_i(call: RequestContext, review: Obj) -> Obj:
    meta = {"creationTimestamp": format_time(call.now)}
    return {**review, "metadata": meta, "status": {"userInfo": user_of(call)}}


def _allowed(call: RequestContext, review: Obj) -> Obj:
    """Every client of the model cluster may do everything."""
    del call
    return {**review, "status": {"allowed": True}}


def _rules(call: RequestContext, review: Obj) -> Obj:
    del call
    everything = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}
    return {
        **review,
        "status": {
            "resourceRules": [everything],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": False,
        },
    }


def _token(call: RequestContext, review: Obj) -> Obj:
    """The model cluster knows no tokens; the server in front of it answers for its own."""
    del call
    return {**review, "status": {"user": {}, "error": "invalid bearer token"}}


REVIEWS: Final[Mapping[GroupKind, Callable[[RequestContext, Obj], Obj]]] = {
    GroupKind(AUTHENTICATION, "SelfSubjectReview"): _who_am_i,
    GroupKind(AUTHENTICATION, "TokenReview"): _token,
    GroupKind(AUTHORIZATION, "SelfSubjectAccessReview"): _allowed,
    GroupKind(AUTHORIZATION, "SubjectAccessReview"): _allowed,
    GroupKind(AUTHORIZATION, "LocalSubjectAccessReview"): _allowed,
    GroupKind(AUTHORIZATION, "SelfSubjectRulesReview"): _rules,
}


def review(call: RequestContext) -> ApiReply:
    """POST of a review: 201 with its status filled in."""
    asked = asked_of(call.kind, call.request.body)
    return ApiReply(status=201, body=REVIEWS[call.kind.group_kind](call, asked))


def asked_of(kind: Kind, body: Any) -> Obj:
    """A review as it was sent. Raises BadRequest where its types are others."""
    asked = check_type(kind, body)
    why, _ = undecodable(kind, asked, {})
    if why:
        raise api_errors.undecodable(kind, why)
    return asked
