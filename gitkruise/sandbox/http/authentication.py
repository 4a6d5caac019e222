"""Authentication: the administrator's token, and tokens of service accounts on request.

A service account's token is a JSON Web Token as Kubernetes makes them, signed with a key of this
sandbox. It holds for its audiences, as long as it says, while its account and the object that it is
bound to (the same uids) are there.
"""

from __future__ import annotations

import base64
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import uuid4

from gitkruise.errors import BadRequest, Problem, Unauthorized, invalid_object
from gitkruise.sandbox.backend.cluster import ADMIN, Cluster
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, account_user
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.wire.primitives.times import format_time
from gitkruise.world.store import api_errors
from gitkruise.world.write.decoding import check_body
from gitkruise.world.write.review_apis import MASTERS, asked_of, user_info

TOKEN_MAX: Final = 4096
ISSUER: Final = "https://kubernetes.default.svc"
EXPIRATION_S: Final = 3600
SHORTEST_S: Final = 600
TOKEN_REVIEW: Final = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
_BINDABLE: Final = {"Pod": "pod", "Node": "node", "Secret": "secret"}  # kind -> claim
_HEADER: Final = {"alg": "HS256", "typ": "JWT"}


@dataclass(slots=True)
class Tokens:
    """Makes and reads tokens of one cluster; `admin` is the administrator's."""

    cluster: Cluster
    admin: str
    _key: bytes = field(init=False)

    def __post_init__(self) -> None:
        self._key = hmac.digest(self.admin.encode(), b"service accounts", "sha256")

    def user(self, given: str) -> str:
        """Return the owner of token `given`, in constant time. Raises Unauthorized."""
        return self._owner(given, [ISSUER])[0]

    def _owner(self, given: str, audiences: Sequence[str]) -> tuple[str, list[str]]:
        """(owner of a token, those of `audiences` that it is for). Raises Unauthorized."""
        if len(given) > TOKEN_MAX:
            raise Unauthorized("Unauthorized")
        if hmac.compare_digest(given.encode(errors="replace"), self.admin.encode()):
            return ADMIN, list(audiences)
        claims = self._claims(given)
        meant = [one for one in audiences if one in claims.get("aud", ())]
        inside = claims.get("kubernetes.io") or {}
        namespace, name = inside.get("namespace", ""), get(inside, "serviceaccount", "name")
        account = self.cluster.world.get(ObjectKey("", "ServiceAccount", namespace, name or ""))
        now = self.cluster.now().timestamp()
        same = account and account["metadata"]["uid"] == get(inside, "serviceaccount", "uid")
        if not same or not now < claims.get("exp", 0) or not meant or not self._bound(inside):
            raise Unauthorized("Unauthorized")
        return account_user(namespace, name), meant

    def _bound(self, inside: Mapping[str, Any]) -> bool:
        """Return whether the objects that a token is bound to are there; the node of a pod's token
        says where the pod runs, and binds to nothing."""
        for kind, word in _BINDABLE.items():
            bound = inside.get(word)
            if bound is None or (kind == "Node" and "pod" in inside):
                continue
            namespace = "" if kind == "Node" else inside.get("namespace", "")
            there = self.cluster.world.get(ObjectKey("", kind, namespace, bound["name"]))
            if there is None or there["metadata"]["uid"] != bound["uid"]:
                return False
        return True

    async def issue(self, request: ApiRequest) -> ApiReply:
        """POST of a TokenRequest to a service account.

        Raises NotFound, also of the object to bind to, BadRequest, Conflict and InvalidObject.
        """
        found = await self.cluster.handle(_plain(request))
        asked = check_body(self.cluster.world.catalog.core, "TokenRequest", request.body)
        spec = asked.get("spec") or {}
        seconds = spec.get("expirationSeconds") or EXPIRATION_S
        _check(seconds)
        now = self.cluster.now()
        audiences = spec.get("audiences") or [ISSUER]
        meta, until = found.body["metadata"], now + timedelta(seconds=seconds)
        claims = _claims_of(meta, audiences, now, until)
        claims["jti"] = str(uuid4())
        claims["kubernetes.io"] |= self._binding(spec.get("boundObjectRef"), meta)
        token = self._signed(claims)
        body: Obj = {
            "kind": "TokenRequest",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {
                "name": meta["name"],
                "namespace": meta["namespace"],
                "uid": meta["uid"],
                "creationTimestamp": format_time(now),
            },
            "spec": {
                "audiences": audiences,
                "expirationSeconds": seconds,
                "boundObjectRef": spec.get("boundObjectRef"),
            },
            "status": {"token": token, "expirationTimestamp": format_time(until)},
        }
        return ApiReply(status=201, body=body)

    def _binding(self, ref: Obj | None, account: Obj) -> dict[str, Any]:
        """The claims about the object that a token is to be bound to, and about a pod's node."""
        if not ref:
            return {}
        kind, name = ref.get("kind") or "", ref.get("name") or ""
        if kind not in _BINDABLE or ref.get("apiVersion") not in ("v1", "", None):
            group, _, version = (ref.get("apiVersion") or "").rpartition("/")
            what = f"{group}/{version}, Kind={kind}"
            raise BadRequest(f"cannot bind token to object of type {what}")
        namespace = "" if kind == "Node" else account["namespace"]
        found = self.cluster.world.get(ObjectKey("", kind, namespace, name))
        served = self.cluster.world.catalog.stored(GroupKind("", kind))
        assert served is not None
        if found is None:
            raise api_errors.not_found(served, name)
        uid = found["metadata"]["uid"]
        if ref.get("uid") and ref["uid"] != uid:
            why = (
                f"the UID in the bound object reference ({ref['uid']}) does not match the UID in "
                "record. The object might have been deleted and then recreated"
            )
            raise api_errors.precondition(served, name, why)
        claims: dict[str, Any] = {_BINDABLE[kind]: {"name": name, "uid": uid}}
        if kind == "Pod":
            claims |= self._node_of(found, account["name"])
        return claims

    def _node_of(self, pod: Obj, account: str) -> dict[str, Any]:
        """The claim about the node of a pod. Raises BadRequest for a pod of another account."""
        if pod["spec"].get("serviceAccountName") != account:
            raise BadRequest(
                f'cannot bind token for serviceaccount "{account}" to pod running with different '
                "serviceaccount name."
            )
        name = pod["spec"].get("nodeName")
        if not name:
            return {}
        node = self.cluster.world.get(ObjectKey("", "Node", "", name))
        return {"node": {"name": name, **({"uid": node["metadata"]["uid"]} if node else {})}}

    def review(self, request: ApiRequest, kind: Kind) -> ApiReply:
        """Answer a POST of a TokenReview with the owner of the token."""
        asked = asked_of(kind, request.body)
        wanted = get(asked, "spec", "audiences", default=()) or [ISSUER]
        try:
            user, audiences = self._owner(get(asked, "spec", "token", default=""), wanted)
        except Unauthorized:
            status: Obj = {"user": {}, "error": "invalid bearer token"}
        else:
            who = user_info(user, MASTERS if user == ADMIN else ())
            status = {"authenticated": True, "user": who, "audiences": audiences}
        return ApiReply(status=201, body={**TOKEN_REVIEW, **asked, "status": status})

    def _signed(self, claims: Mapping[str, Any]) -> str:
        text = f"{_packed(_HEADER)}.{_packed(claims)}"
        return f"{text}.{self._signature(text)}"

    def _signature(self, text: str) -> str:
        return _text64(hmac.digest(self._key, text.encode(), "sha256"))

    def _claims(self, given: str) -> Mapping[str, Any]:
        text, _, signature = given.rpartition(".")
        right = hmac.compare_digest(signature.encode(errors="replace"), self._mark(text))
        if not right:
            raise Unauthorized("Unauthorized")
        claims = text.partition(".")[2]
        found: Mapping[str, Any] = json.loads(base64.urlsafe_b64decode(claims + "=="))
        return found

    def _mark(self, text: str) -> bytes:
        return self._signature(text.encode(errors="replace").decode()).encode()


def _plain(request: ApiRequest) -> ApiRequest:
    """A read of the object that a subresource belongs to."""
    return ApiRequest(
        verb="get", resource=request.resource, namespace=request.namespace, name=request.name
    )


def _check(seconds: Any) -> None:
    if isinstance(seconds, int) and seconds >= SHORTEST_S:
        return
    why = f"Invalid value: {seconds}: may not specify a duration less than 10 minutes"
    problem = Problem(("spec", "expirationSeconds"), "FieldValueInvalid", why)
    raise invalid_object("TokenRequest", "authentication.k8s.io", "", [problem])


def _claims_of(meta: Obj, audiences: Any, now: datetime, until: datetime) -> dict[str, Any]:
    namespace, name = meta["namespace"], meta["name"]
    issued = int(now.timestamp())
    account = {"name": name, "uid": meta["uid"]}
    return {
        "aud": audiences,
        "exp": int(until.timestamp()),
        "iat": issued,
        "iss": ISSUER,
        "kubernetes.io": {"namespace": namespace, "serviceaccount": account},
        "nbf": issued,
        "sub": account_user(namespace, name),
    }


def _packed(value: Mapping[str, Any]) -> str:
    return _text64(json.dumps(value, separators=(",", ":")).encode())


def _text64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
