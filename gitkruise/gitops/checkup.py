"""The cluster seen through a doctor's eyes: reachable, furnished, driven by one, and allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, NamedTuple

from gitkruise.errors import ApiError, MethodNotAllowed, NotFound
from gitkruise.gitops.engine import kruise_is_alive
from gitkruise.gitops.install import Wishes, manifests
from gitkruise.kube.discovery import CRDS, listed
from gitkruise.kube.lease import LEASES
from gitkruise.kube.transport import Transport
from gitkruise.wire.names import ACCOUNT, Obj
from gitkruise.wire.paths import get
from gitkruise.wire.request import ApiRequest, ResourceRef
from gitkruise.wire.times import format_duration, parse_time

_REVIEWS: Final = ResourceRef("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_WHO: Final = ResourceRef("authentication.k8s.io", "v1", "selfsubjectreviews")
_NEEDED: Final = ("clonesets.apps.kruise.io", "sidecarsets.apps.kruise.io")
_ROLES: Final = ("gitkruise-engine", "gitkruise-apply", "gitkruise-units")
_SKEW_MAX: Final = timedelta(seconds=10)
_AT_ONCE: Final = 8


class Verdict(StrEnum):
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. `next` is what to do when it is not good."""

    area: str
    name: str
    verdict: Verdict
    said: str
    next: str = ""


class Right(NamedTuple):
    """One verb on one resource, in every namespace."""

    group: str
    resource: str  # with its subresource: pods/status
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


def good(area: str, name: str, said: str) -> Check:
    return Check(area=area, name=name, verdict=Verdict.GOOD, said=said)


def bad(area: str, name: str, said: str, next_: str = "") -> Check:
    return Check(area=area, name=name, verdict=Verdict.BAD, said=said, next=next_)


def warn(area: str, name: str, said: str, next_: str = "") -> Check:
    return Check(area=area, name=name, verdict=Verdict.WARNING, said=said, next=next_)


async def cluster_checks(
    transport: Transport, now: datetime, lease: tuple[str, str]
) -> list[Check]:
    """Kinds, engine, the running controller and its clock. Raises ApiError of a silent cluster.

    `lease` is (namespace, name) of the one that the driving controller holds.
    """
    kruise = await kruise_is_alive(transport, now)
    return [
        *await _kinds(transport),
        good("cluster", "engine", "OpenKruise drives the pods" if kruise else "gitkruise's own"),
        *await _controller(transport, now, lease, kruise=kruise),
    ]


async def _kinds(transport: Transport) -> list[Check]:
    crds = {str(get(crd, "metadata", "name")): crd for crd in await listed(transport, CRDS)}
    missing = [name for name in _NEEDED if name not in crds]
    if missing:
        said, next_ = f"missing: {', '.join(missing)}", "gitkruise install --crds"
        return [bad("cluster", "kinds", said, next_)]
    versions = {
        name.partition(".")[0]: ", ".join(
            v["name"] for v in get(crds[name], "spec", "versions", default=()) if v.get("served")
        )
        for name in _NEEDED
    }
    return [good("cluster", "kinds", "; ".join(f"{k} {v}" for k, v in versions.items()))]


async def _controller(
    transport: Transport, now: datetime, lease: tuple[str, str], *, kruise: bool
) -> list[Check]:
    """Who drives CloneSets, by the lease; and whether its clock and ours agree."""
    if kruise:
        return []
    namespace, name = lease
    request = ApiRequest(verb="get", resource=LEASES, namespace=namespace, name=name)
    try:
        spec = (await transport.send(request)).body.get("spec") or {}
    except NotFound:
        spec = {}
    lasts = int(spec.get("leaseDurationSeconds") or 0)
    holder, renewed = spec.get("holderIdentity"), parse_time(spec.get("renewTime"))
    if not holder or renewed is None:
        next_ = "gitkruise run drives CloneSets; the embedded cluster does it by itself"
        return [warn("cluster", "controller", "nobody holds the lease", next_)]
    age = now - renewed
    if age < -_SKEW_MAX:
        said = f"{holder}'s clock is {format_duration(_whole(-age))} ahead of this one"
        return [bad("cluster", "clock", said, "let both follow a time server")]
    if age > max(timedelta(minutes=1), 2 * timedelta(seconds=lasts)):
        said = f"{holder} has not renewed its lease for {format_duration(_whole(age))}"
        return [warn("cluster", "controller", said, "is gitkruise run alive, and its clock right?")]
    said = f"{holder}, its lease renewed {format_duration(_whole(max(age, timedelta())))} ago"
    return [good("cluster", "controller", said)]


def _whole(span: timedelta) -> timedelta:
    return timedelta(seconds=int(span.total_seconds()))


# Rights ------------------------------------------------------------------------------------------


def needed_rights() -> tuple[Right, ...]:
    """What the roles of deploy/ grant for driving CloneSets and applying from git."""
    roles = [
        obj
        for obj in manifests(Wishes())
        if obj["kind"] == "ClusterRole" and get(obj, "metadata", "name") in _ROLES
    ]
    return tuple(dict.fromkeys(right for role in roles for right in _rights(role)))


def _rights(role: Obj) -> Iterator[Right]:
    for rule in role.get("rules") or ():
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                for verb in rule.get("verbs") or ():
                    yield Right(group, resource, verb)


async def missing_rights(transport: Transport, rights: Sequence[Right]) -> list[Right] | None:
    """Those these credentials do not have; None where the cluster has no access control.

    Asked by SelfSubjectAccessReview, which everybody may make. Raises ApiError.
    """
    gate = asyncio.Semaphore(_AT_ONCE)
    allowed: dict[Right, bool] = {}

    async def ask(right: Right) -> None:
        async with gate:
            body = {
                "apiVersion": "authorization.k8s.io/v1",
                "kind": "SelfSubjectAccessReview",
                "spec": {"resourceAttributes": _attributes(right)},
            }
            reply = await transport.send(ApiRequest(verb="create", resource=_REVIEWS, body=body))
            allowed[right] = bool(get(reply.body, "status", "allowed"))

    try:
        await ask(rights[0])
    except (NotFound, MethodNotAllowed):
        return None
    async with asyncio.TaskGroup() as tasks:
        for right in rights[1:]:
            tasks.create_task(ask(right))
    return [right for right in rights if not allowed[right]]


def _attributes(right: Right) -> dict[str, str]:
    resource, _, subresource = right.resource.partition("/")
    out = {"group": right.group, "resource": resource, "verb": right.verb}
    return out | ({"subresource": subresource} if subresource else {})


async def who_am_i(transport: Transport) -> str:
    """The user name these credentials stand for; "" where the cluster does not tell."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        reply = await transport.send(ApiRequest(verb="create", resource=_WHO, body=body))
    except ApiError:
        return ""
    return str(get(reply.body, "status", "userInfo", "username", default=""))


def rights_checks(rights: Sequence[Right], missing: Sequence[Right] | None) -> list[Check]:
    """What was found, in one line."""
    if missing is None:
        return [good("rbac", "rights", "this cluster has no access control: all is allowed")]
    if not missing:
        return [good("rbac", "rights", f"all {len(rights)} that are needed")]
    shown = ", ".join(map(str, missing[:6])) + (" …" if len(missing) > 6 else "")
    said = f"{len(missing)} of {len(rights)} are missing: {shown}"
    next_ = "gitkruise doctor rbac --print-fix | kubectl apply -f -"
    return [bad("rbac", "rights", said, next_)]


def granting(missing: Sequence[Right], user: str) -> list[Mapping[str, Any]]:
    """A ClusterRole with the missing rights, and its binding to these credentials' user."""
    rules: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    verbs: dict[tuple[str, str], list[str]] = {}
    for right in missing:
        verbs.setdefault((right.group, right.resource), []).append(right.verb)
    for (group, resource), those in verbs.items():
        rules.setdefault((group, tuple(those)), []).append(resource)
    name = {"metadata": {"name": "gitkruise-missing"}}
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {
        **api, "kind": "ClusterRole", **name,
        "rules": [
            {"apiGroups": [group], "resources": resources, "verbs": list(those)}
            for (group, those), resources in rules.items()
        ],
    }  # fmt: skip
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", **name["metadata"]}
    binding = {
        **api, "kind": "ClusterRoleBinding", **name, "roleRef": ref, "subjects": [_subject(user)]
    }  # fmt: skip
    return [role, binding]


def _subject(user: str) -> dict[str, str]:
    if user.startswith(ACCOUNT):
        namespace, _, name = user.removeprefix(ACCOUNT).partition(":")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user or "USER"}
