"""Reviews: questions a client asks by creating an object that is answered and not kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.errors import BadRequest
from gitkruise.wire.names import Obj

GROUPS: Final = ("system:masters", "system:authenticated")
_ALL_RULES: Final = {
    "incomplete": False,
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def user_info(user: str) -> dict[str, Any]:
    """The one user of this server, as an authentication review shows it."""
    return {"username": user, "groups": list(GROUPS)}


def _whoami(_: Mapping[str, Any], user: str) -> dict[str, Any]:
    return {"userInfo": user_info(user)}


def _allowed(_: Mapping[str, Any], __: str) -> dict[str, Any]:
    return {"allowed": True, "reason": "the sandbox has one user, who may do everything"}


def _rules(_: Mapping[str, Any], __: str) -> dict[str, Any]:
    return _ALL_RULES


_ANSWERS: Final[Mapping[tuple[str, str], Callable[[Mapping[str, Any], str], dict[str, Any]]]] = {
    ("authentication.k8s.io", "selfsubjectreviews"): _whoami,
    ("authorization.k8s.io", "selfsubjectaccessreviews"): _allowed,
    ("authorization.k8s.io", "subjectaccessreviews"): _allowed,
    ("authorization.k8s.io", "localsubjectaccessreviews"): _allowed,
    ("authorization.k8s.io", "selfsubjectrulesreviews"): _rules,
}


def is_review(group: str, plural: str) -> bool:
    return (group, plural) in _ANSWERS


def review(group: str, plural: str, body: Any, user: str) -> Obj:
    """`body` with its status filled in; nothing is stored. Raises BadRequest without a body."""
    if not isinstance(body, Mapping):
        raise BadRequest("a review needs a body")
    spec = body.get("spec")
    status = _ANSWERS[group, plural](spec if isinstance(spec, Mapping) else {}, user)
    return {**body, "metadata": {"creationTimestamp": None}, "status": status}
