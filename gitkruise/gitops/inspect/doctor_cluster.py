"""The cluster seen through a doctor's eyes: reachable, furnished, driven by one, and allowed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import product
from typing import Any, Final, NamedTuple

from gitkruise.errors import ApiError, Forbidden, MethodNotAllowed, NotFound
from gitkruise.gitops.cluster.engine import (
    DRIVEN_VERSION,
    KRUISE_LEASE,
    KRUISE_NAMESPACE,
    UPGRADE_KINDS,
    kruise_is_at_work,
    silence,
)
from gitkruise.gitops.cluster.shard_leases import shards_of
from gitkruise.gitops.inspect.shard_holders import (
    ShardHolder,
    is_led,
    is_overdue,
    lease_spec,
    left_over,
    read_holders,
)
from gitkruise.gitops.install.installer import roles
from gitkruise.kube.client.discovery import CRDS, listed
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import SPECS
from gitkruise.model.gitops.unit_state import CHOSEN, State
from gitkruise.planner.health.builtin import condition_of
from gitkruise.wire.primitives.names import ACCOUNT, OWN_GROUP, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.wire.primitives.times import format_duration, format_time, parse_time

_REVIEWS: Final = ResourceRef("authorization.k8s.io", "v1", "selfsubjectaccessreviews")
_WHO: Final = ResourceRef("authentication.k8s.io", "v1", "selfsubjectreviews")
_NEEDED: Final = ("clonesets.apps.kruise.io", "sidecarsets.apps.kruise.io")
_ROLES: Final = (
    "gitkruise-engine", "gitkruise-engine-choice", "gitkruise-apply", "gitkruise-units",
    "gitkruise-lease",
)  # fmt: skip
_LOOK: Final = "run it as a user who may list gitsources, units, sinks and receivers"
_LOOK_AT_LEASES: Final = "run it as a user who may get leases in kube-system"
_GRANT: Final = (
    "for the account of gitkruise run: gitkruise doctor rbac --print-fix | kubectl apply -f -;"
    " an account that only reads needs fewer"
)
_WITHOUT_ENGINE: Final = (
    f"kubectl get pods,leases -n {KRUISE_NAMESPACE}; or start gitkruise run again, with engine auto"
)
_LOOK_AS_ANOTHER: Final = "run it as a user who may do that"
_SKEW_MAX: Final = timedelta(seconds=10)
_LONG_S: Final = 24 * 3600  # a longer lease is not renewed: that of the embedded cluster
_AT_ONCE: Final = 8


class CheckVerdict(StrEnum):
    GOOD = "good"
    WARNING = "warning"
    BAD = "bad"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that was looked at. `next` is what to do when it is not good."""

    area: str
    name: str
    verdict: CheckVerdict
    message: str
    next: str = ""


class Right(NamedTuple):
    """One verb on one resource, in every namespace and on every object unless they are named."""

    group: str
    resource: str  # with its subresource: pods/status
    verb: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        what = f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")
        return " ".join(filter(None, (what, "/".join(filter(None, (self.namespace, self.name))))))


def good(area: str, name: str, message: str) -> Check:
    return Check(area=area, name=name, verdict=CheckVerdict.GOOD, message=message)


def bad(area: str, name: str, message: str, next_: str = "") -> Check:
    return Check(area=area, name=name, verdict=CheckVerdict.BAD, message=message, next=next_)


def warn(area: str, name: str, message: str, next_: str = "") -> Check:
    return Check(area=area, name=name, verdict=CheckVerdict.WARNING, message=message, next=next_)


async def cluster_checks(
    transport: Transport, clock: Clock, namespace: str, *, driving: str, applying: str
) -> list[Check]:
    """Kinds, engine, who leads and their clocks, our objects. Raises ApiError of a silent cluster.

    `driving` and `applying` name the leases of the processes that drive pods and apply. What the
    account may not read is a warning, and the rest is checked.
    """
    return [
        *await _as_far_as_read("kinds", _kinds(transport, clock)),
        *await _as_far_as_read("engine", _engine(transport, clock, namespace, driving)),
        *await _as_far_as_read("sync", _appliers(transport, clock, namespace, applying)),
        *await object_checks(transport),
    ]


async def _as_far_as_read(name: str, part: Awaitable[list[Check]]) -> list[Check]:
    try:
        return await part
    except Forbidden as error:
        return [warn("cluster", name, f"not known: {error.message}", _LOOK_AS_ANOTHER)]


async def _engine(transport: Transport, clock: Clock, namespace: str, driving: str) -> list[Check]:
    if await kruise_is_at_work(transport, clock):
        return [good("cluster", "engine", "OpenKruise drives the pods")]
    if not is_led(await lease_spec(transport, namespace, driving)):
        lease = await lease_spec(transport, KRUISE_NAMESPACE, KRUISE_LEASE)
        if lease:
            message = f"no engine drives the pods: {silence({'spec': lease})}"
            return [warn("cluster", "engine", message, _WITHOUT_ENGINE)]
    own = good("cluster", "engine", "gitkruise's own")
    driver = _controller(transport, clock.now(), namespace, driving)
    return [own, *await _as_far_as_read("controller", driver)]


async def _kinds(transport: Transport, clock: Clock) -> list[Check]:
    crds = {str(get(crd, "metadata", "name")): crd for crd in await listed(transport, CRDS)}
    missing = [name for name in _NEEDED if name not in crds]
    if missing:
        message, next_ = f"missing: {', '.join(missing)}", "gitkruise install --crds"
        return [bad("cluster", "kinds", message, next_)]
    versions = {
        name.partition(".")[0]: ", ".join(
            v["name"] for v in get(crds[name], "spec", "versions", default=()) if v.get("served")
        )
        for name in _NEEDED
    }
    message = "; ".join(f"{kind} {served}" for kind, served in versions.items())
    if all(DRIVEN_VERSION in served.split(", ") for served in versions.values()):
        return [good("cluster", "kinds", message)]
    if await kruise_is_at_work(transport, clock):
        return [good("cluster", "kinds", message)]
    return [bad("cluster", "kinds", f"{message}; gitkruise drives {DRIVEN_VERSION}", UPGRADE_KINDS)]


async def _controller(
    transport: Transport, now: datetime, namespace: str, lease: str
) -> list[Check]:
    """Check the holder of the lease for CloneSets, and its clock against ours."""
    spec = await lease_spec(transport, namespace, lease)
    if not is_led(spec):
        next_ = "gitkruise run drives CloneSets; the embedded cluster does it by itself"
        return [warn("cluster", "controller", "the lease has no holder", next_)]
    return [_leader("controller", spec, now)]


async def _appliers(transport: Transport, clock: Clock, namespace: str, lease: str) -> list[Check]:
    """Check the process that applies from git, or the replicas that share the units. None may run:
    `gitkruise sync` needs no other."""
    spec = await lease_spec(transport, namespace, lease)
    if not is_led(spec):
        return [good("cluster", "sync", f"no process applies now: lease {lease} is free")]
    found, now = await read_holders(transport, namespace, lease, clock), clock.now()
    unread = [warn("cluster", "shards", f"not known: {found.unread}", _LOOK_AT_LEASES)]
    shards = [_shard(held, now) for held in found.holders]
    left = await _left_over(transport, now, namespace, lease, shards_of(spec["holderIdentity"]))
    return [_leader("sync", spec, now), *shards, *(unread if found.unread else ()), *left]


async def _left_over(
    transport: Transport, now: datetime, namespace: str, lease: str, count: int
) -> list[Check]:
    """Name the Leases that remain of a larger number of shards: no replica takes them again."""
    try:
        names = await left_over(transport, namespace, lease, count, now)
    except Forbidden as error:
        message = f"of an earlier number of shards: not known: {error.message}"
        return [warn("cluster", "leases", message, "run it as a user who may list leases there")]
    if not names:
        return []
    message = f"{len(names)} remain of an earlier number of shards: {', '.join(names)}"
    next_ = f"kubectl delete lease -n {namespace} {' '.join(names)}"
    return [warn("cluster", "leases", message, next_)]


def _shard(held: ShardHolder, now: datetime) -> Check:
    """Check the replica that has a shard."""
    name = f"shard {held.shard.number}"
    if not held.problem:
        return _leader(name, held.spec, now)
    next_ = "kubectl logs -n gitkruise-system deployment/gitkruise"
    return bad("cluster", name, held.problem, next_)


def _leader(name: str, spec: Obj, now: datetime) -> Check:
    """Check the holder of a lease: its name, the time of acquisition, and the last renewal."""
    renewed = parse_time(spec["renewTime"])
    assert renewed is not None
    holder, age = spec["holderIdentity"], now - renewed
    if age < -_SKEW_MAX:
        message = f"{holder}'s clock is {format_duration(_whole(-age))} ahead of this one"
        return bad("cluster", "clock", message, "let both follow a time server")
    if is_overdue(spec, now):
        message = f"{holder} has not renewed its lease for {format_duration(_whole(age))}"
        return warn("cluster", name, message, "is gitkruise run alive, and its clock right?")
    began = parse_time(spec.get("acquireTime"))
    since = f" since {format_time(began)}" if began is not None else ""
    if int(spec.get("leaseDurationSeconds") or 0) > _LONG_S:
        return good("cluster", name, f"{holder}{since}, for as long as it runs")
    ago = format_duration(_whole(max(age, timedelta())))
    return good("cluster", name, f"{holder}{since}, its lease renewed {ago} ago")


# Objects of ours ---------------------------------------------------------------------------------


async def object_checks(transport: Transport) -> list[Check]:
    """Check the objects that `gitkruise run` follows, by their conditions; [] without any.

    One check counts those that are well, and each of the others has one. Raises ApiError.
    """
    found: list[Check | None] = []
    for kind in SPECS:
        ref = ResourceRef(OWN_GROUP, "v1alpha1", f"{kind.lower()}s")
        try:
            found += [_object(kind, obj) for obj in await listed(transport, ref)]
        except NotFound:  # not served: there are none
            continue
        except Forbidden as error:
            return [warn("cluster", "objects", f"not known: {error.message}", _LOOK)]
    well = sum(check is None for check in found)
    message = f"{well} of {len(found)} sources, units, sinks and receivers are well"
    rest = [check for check in found if check is not None]
    return [good("cluster", "objects", message), *rest] if found else []


def _object(kind: str, obj: Obj) -> Check | None:
    """Return a check of an object that needs a user, waits, or has no answer; otherwise None."""
    name = f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"
    ready = condition_of(obj, "Ready")
    area, short = "cluster", kind.lower()
    if ready is None:
        return warn(area, short, f"{name} has no status", "gitkruise run follows it; is it alive?")
    phase = str(get(obj, "status", "phase", default=""))
    if ready["status"] == "True" or (ready["status"] == "Unknown" and phase != State.UNKNOWN):
        return None
    condition = f"{name} is {phase or 'not ready'} ({ready['reason']})"
    message = f"{condition} since {ready['lastTransitionTime']}: {ready['message']}"
    namespace, _, own = name.partition("/")
    next_ = f"kubectl describe {short} {own} -n {namespace}"
    if ready["reason"] in CHOSEN or phase in {State.DRIFTED, State.UNKNOWN}:
        return warn(area, short, message, next_)
    return bad(area, short, message, next_)


def _whole(span: timedelta) -> timedelta:
    return timedelta(seconds=int(span.total_seconds()))


# Rights ------------------------------------------------------------------------------------------


async def installed_shards(transport: Transport, namespace: str, lease: str) -> int:
    """Return the number of shards that the running controller has; 1 without any.

    Raises ApiError.
    """
    spec = await lease_spec(transport, namespace, lease)
    return shards_of(str(spec.get("holderIdentity", "")))


def needed_rights(shards: int = 1) -> tuple[Right, ...]:
    """Return the rights in the roles of deploy/ that CloneSets and applying from git need."""
    needed = (role for role in roles(shards) if get(role, "metadata", "name") in _ROLES)
    return tuple(dict.fromkeys(right for role in needed for right in _rights(role)))


def _rights(role: Obj) -> Iterator[Right]:
    namespace = get(role, "metadata", "namespace", default="")
    for rule in role.get("rules") or ():
        each = (rule.get(field) or () for field in ("apiGroups", "resources", "verbs"))
        for group, resource, verb in product(*each):
            for name in rule.get("resourceNames") or ("",):
                yield Right(group, resource, verb, namespace, name)


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
    more = {"subresource": subresource, "namespace": right.namespace, "name": right.name}
    out = {"group": right.group, "resource": resource, "verb": right.verb}
    return out | {field: value for field, value in more.items() if value}


async def who_am_i(transport: Transport) -> str:
    """The user name these credentials stand for; "" where the cluster does not show it."""
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    try:
        reply = await transport.send(ApiRequest(verb="create", resource=_WHO, body=body))
    except ApiError:
        return ""
    return str(get(reply.body, "status", "userInfo", "username", default=""))


def rights_checks(rights: Sequence[Right], missing: Sequence[Right] | None) -> list[Check]:
    """Return the result as one check."""
    if missing is None:
        return [good("rbac", "rights", "this cluster has no access control: all is allowed")]
    if not missing:
        return [good("rbac", "rights", f"all {len(rights)} that gitkruise run needs")]
    shown = ", ".join(map(str, missing[:6])) + (" …" if len(missing) > 6 else "")
    message = f"{len(missing)} of {len(rights)} that gitkruise run needs are missing: {shown}"
    return [bad("rbac", "rights", message, _GRANT)]


def granting(missing: Sequence[Right], user: str) -> list[Mapping[str, Any]]:
    """Roles with the missing rights, one for each namespace that is named and one for all; and
    their bindings to these credentials' user.

    Each fix has a name of its own: an object of the same name would replace the rules or the user
    of an earlier one.
    """
    digest = hashlib.sha256(repr((user, sorted(missing))).encode()).hexdigest()
    spaces = dict.fromkeys(right.namespace for right in missing)
    return [
        document
        for namespace in spaces
        for document in _role(
            f"gitkruise-missing-{digest[:8]}",
            [right for right in missing if right.namespace == namespace],
            namespace,
            user,
        )
    ]


def _role(
    own_name: str, missing: Sequence[Right], namespace: str, user: str
) -> list[Mapping[str, Any]]:
    rules: dict[tuple[str, tuple[str, ...], str], list[str]] = {}
    verbs: dict[tuple[str, str, str], list[str]] = {}
    for right in missing:
        verbs.setdefault((right.group, right.resource, right.name), []).append(right.verb)
    for (group, resource, name), those in verbs.items():
        rules.setdefault((group, tuple(those), name), []).append(resource)
    kind = "Role" if namespace else "ClusterRole"
    where = {"namespace": namespace} if namespace else {}
    meta = {"metadata": {"name": own_name, **where}}
    api = {"apiVersion": "rbac.authorization.k8s.io/v1"}
    role = {
        **api, "kind": kind, **meta,
        "rules": [
            {"apiGroups": [group], "resources": resources, "verbs": list(those)}
            | ({"resourceNames": [name]} if name else {})
            for (group, those, name), resources in rules.items()
        ],
    }  # fmt: skip
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": own_name}
    binding = {
        **api, "kind": f"{kind}Binding", **meta, "roleRef": ref, "subjects": [_subject(user)]
    }  # fmt: skip
    return [role, binding]


def _subject(user: str) -> dict[str, str]:
    if user.startswith(ACCOUNT):
        namespace, _, name = user.removeprefix(ACCOUNT).partition(":")
        return {"kind": "ServiceAccount", "namespace": namespace, "name": name}
    return {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user or "USER"}
