"""Kinds that are asked and never stored: reviews of who somebody is and what he may do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from gitkruise.wire.names import ACCOUNT, GroupKind, Obj
from gitkruise.wire.request import ApiReply
from gitkruise.wire.times import format_time
from gitkruise.world.call import Call
from gitkruise.world.metadata import check_type

AUTHENTICATION: Final = "authentication.k8s.io"
AUTHORIZATION: Final = "authorization.k8s.io"
MASTERS: Final = ("system:masters",)


def user_info(name: str, groups: Sequence[str]) -> dict[str, Any]:
    """Who asks; a service account's groups as kube-apiserver fills them in."""
    if not groups and name.startswith(ACCOUNT):
        namespace = name.removeprefix(ACCOUNT).partition(":")[0]
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    return {"username": name, "groups": [*dict.fromkeys((*groups, "system:authenticated"))]}


def user_of(call: Call) -> dict[str, Any]:
    """UserInfo of whoever sends a request."""
    return user_info(call.user, call.request.groups if call.request.user else MASTERS)


def _who_am_i(call: Call, review: Obj) -> Obj:
    meta = {"creationTimestamp": format_time(call.now)}
    return {**review, "metadata": meta, "status": {"userInfo": user_of(call)}}


def _allowed(call: Call, review: Obj) -> Obj:
    """Whoever reaches the model cluster may do everything."""
    del call
    return {**review, "status": {"allowed": True}}


def _rules(call: Call, review: Obj) -> Obj:
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


def _token(call: Call, review: Obj) -> Obj:
    """The model cluster knows no tokens; the server in front of it answers for its own."""
    del call
    return {**review, "status": {"user": {}, "error": "invalid bearer token"}}


REVIEWS: Final[Mapping[GroupKind, Callable[[Call, Obj], Obj]]] = {
    GroupKind(AUTHENTICATION, "SelfSubjectReview"): _who_am_i,
    GroupKind(AUTHENTICATION, "TokenReview"): _token,
    GroupKind(AUTHORIZATION, "SelfSubjectAccessReview"): _allowed,
    GroupKind(AUTHORIZATION, "SubjectAccessReview"): _allowed,
    GroupKind(AUTHORIZATION, "LocalSubjectAccessReview"): _allowed,
    GroupKind(AUTHORIZATION, "SelfSubjectRulesReview"): _rules,
}


def review(call: Call) -> ApiReply:
    """POST of a review: 201 with its status filled in."""
    asked = check_type(call.kind, call.request.body)
    return ApiReply(status=201, body=REVIEWS[call.kind.group_kind](call, asked))
