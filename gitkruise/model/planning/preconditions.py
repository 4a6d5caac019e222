"""Preconditions of writes on pods: what a decision rested on holds when its write takes effect.

A decision rests on the pod's uid, owners, labels, finalizers, container images and OpenKruise's
annotations, and on conditions that several controllers write. It does not rest on what a node
agent reports: a resourceVersion would refuse every write that follows a report, and an agent
answers the first step of a change before the second one can arrive. So a step goes out as a JSON
patch whose `test` operations name exactly what has to hold. A DELETE knows no such tests and
carries the resourceVersion.

Gates of a new pod are the exception, because no JSON patch can test that a list lacks an entry, and
scheduler and kubelet fill the list while the pod starts. They are created by server-side apply,
without force and bound to the uid: it adds entries to any list, and the server refuses it where
another writer has set one of them to another value. An absent gate keeps a pod out of service as a
false one does, so nothing but such a value could make opening it wrong. Labels do not come along:
their values belong to another field manager, so the server would refuse them without force.

The functions are generators: they yield requests and are sent the bodies of the replies, or
thrown the ApiError. The live executor and the one of the model cluster drive the same ones.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final, TypeAlias

from gitkruise.errors import ApiError, ApplyConflict, Conflict, InvalidObject
from gitkruise.model.planning.plan import Delete, Patch, PatchStep
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import PodCondition, PodFacts, Strings, pod_facts
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.patch.json_patch import json_diff, merge_patch, pointer_to
from gitkruise.wire.patch.strategic_merge import strategic_patch
from gitkruise.wire.primitives.gojson import compact
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import APPLY_PATCH, JSON_PATCH, STRATEGIC_PATCH, ApiRequest

TRIES: Final = 5  # of one write that meets newer versions; more, and the round is planned again

Writes: TypeAlias = Generator[ApiRequest, Obj, tuple[Obj, ...]]
Operation: TypeAlias = dict[str, Any]

# A size belongs to nobody else on a cluster, where this manager runs the autoscaler.
_AS_AUTOSCALER: Final = {"fieldManager": "kube-controller-manager"}
_DOMAIN: Final = "kruise.io"  # and its subdomains: annotations by which controllers decide
_ABSENT: Final = (  # annotations of an update in progress: decided upon even where there are none
    wire.INPLACE_STATE,
    wire.INPLACE_STATE_LEGACY,
    wire.INPLACE_GRACE,
    wire.INPLACE_GRACE_LEGACY,
)
# InPlaceUpdateReady is written by the owner's controller alone; Ready follows from the others.
_UNSHARED: Final = frozenset({wire.INPLACE_READY, wire.POD_READY})


def patching(action: Patch, kind: Kind, obj: Obj | None) -> Writes:
    """The steps of a patch, one after the other; `obj` is the newest version known.

    Raises Conflict when the decision does not hold any more, and what the server answers.
    """
    if action.seen is None:
        return (yield from _in_version(action, kind))
    known, replies = action.seen, list[Obj]()
    for turn, step in enumerate(action.steps):
        spends = action.spends and turn == 0  # from then on it is out of service by our hand
        obj = yield from _patch_pod(_Write(action, kind, step, known, spends=spends), obj)
        replies.append(obj)
        if turn + 1 < len(action.steps):
            known = pod_facts(obj)
    return tuple(replies)


def deleting(action: Delete, kind: Kind) -> Generator[ApiRequest, Obj, Obj]:
    """One deletion, followers aside. Raises as `patching` does."""
    seen, version = action.seen, action.resource_version
    for left in reversed(range(TRIES)):
        try:
            return (yield _delete_request(action, kind, version))
        except Conflict:
            # A pod that is down costs no budget, and may come up meanwhile: never by uid alone.
            if seen is None or not (left or seen.ready):
                raise
        live = pod_facts((yield _get_request(action, kind)))
        _check(seen, live)
        if live.ready and not seen.ready:
            raise Conflict(f"pod {live.name} has become ready since its deletion was planned")
        version = live.resource_version
    return (yield _delete_request(action, kind, ""))


def _in_version(action: Patch, kind: Kind) -> Writes:
    """Steps that are bound to the version of the one before."""
    version, replies = action.resource_version, list[Obj]()
    for step in action.steps:
        meta = step.body.get("metadata") or {}
        bound = {**meta, "uid": action.uid, "resourceVersion": version}
        body = {**step.body, "metadata": bound}
        obj = yield _patch_request(action, kind, step, body, step.content_type)
        version = obj["metadata"]["resourceVersion"]
        replies.append(obj)
    return tuple(replies)


class _Write:
    """One step of a patch of a pod. `known` is the pod after the step before.

    Conditions and readiness are held against the pod as the plan saw it: what others write into
    them meanwhile is no step of ours.
    """

    def __init__(
        self, action: Patch, kind: Kind, step: PatchStep, known: PodFacts, *, spends: bool
    ) -> None:
        assert action.seen is not None
        self.action, self.kind, self.step = action, kind, step
        self.seen, self.known = action.seen, known
        written = [c["type"] for c in get(step.body, "status", "conditions", default=())]
        self.creates = _creates(step, self.seen)
        self.shared = [type_ for type_ in written if self.creates or type_ not in _UNSHARED]
        self.down = spends and not self.seen.ready and self.seen.in_place is not False

    def check(self, live: PodFacts) -> None:
        """Raises Conflict when something that the decision rested on is another."""
        _check(self.known, live)
        if self.down and live.ready:
            raise Conflict(f"pod {live.name} has become ready since it was planned")
        for type_ in self.shared:
            if _reported(self.seen.condition(type_)) != _reported(live.condition(type_)):
                raise Conflict(f"pod {live.name}: condition {type_} changed since it was planned")

    def bare(self) -> ApiRequest:
        """The conditions as they were planned, bound to the uid alone."""
        step = self.step
        body = {**step.body, "metadata": {"uid": self.action.uid}}
        return _patch_request(self.action, self.kind, step, body, step.content_type)

    def rest(self, obj: Obj) -> _Write | None:
        """A write of the metadata that `bare` leaves out; `obj` is the pod after it."""
        metadata = self.step.body.get("metadata")
        if metadata is None:
            return None
        step = PatchStep(body={"metadata": metadata})
        return _Write(self.action, self.kind, step, pod_facts(obj), spends=False)

    def request(self, obj: Obj) -> ApiRequest | None:
        """The request that carries out the step on `obj`; None if there is nothing to change."""
        if self.creates:
            return self._creation()
        step = self.step
        if step.content_type == STRATEGIC_PATCH:
            after = strategic_patch(obj, step.body, self.kind.schema)
        else:
            after = merge_patch(obj, step.body)
        changes = json_diff(obj, after)
        if not changes:
            return None
        body = [*_tests(obj, step), *self._condition_tests(obj, changes), *changes]
        return _patch_request(self.action, self.kind, step, body, JSON_PATCH)

    def _creation(self) -> ApiRequest:
        """The step as a server-side apply.

        A manager may change what it applied before, and loses what it leaves out. So each content
        has a manager of its own: two writers of one condition meet as strangers.
        """
        action, step = self.action, self.step
        applied = {
            "apiVersion": self.kind.api_version,
            "kind": action.key.kind,
            "metadata": {"name": action.key.name, "uid": action.uid},
            **step.body,
        }
        content = sha256(compact(step.body)).hexdigest()[:16]
        request = _patch_request(action, self.kind, step, applied, APPLY_PATCH)
        return replace(request, params={"fieldManager": f"gitkruise-conditions-{content}"})

    def _condition_tests(self, obj: Obj, changes: list[Operation]) -> Iterator[Operation]:
        """Conditions are named by their place in a list, and some are shared."""
        listed = get(obj, "status", "conditions", default=()) or ()
        at = {condition["type"]: place for place, condition in enumerate(listed)}
        base = ("status", "conditions")
        if not listed:
            yield _test(obj, *base)
        bound = False
        for type_ in (*self.shared, *([wire.POD_READY] if self.down else ())):
            if type_ in at:
                place = at[type_]
                for field in ("type", "status", "message"):
                    yield _test(obj, *base, place, field)
            else:
                bound = True  # that a list lacks an entry cannot be tested
        if bound:
            yield _test(obj, "metadata", "resourceVersion")
        for type_, place in at.items():
            here = pointer_to((*base, place)) + "/"
            if any(change["path"].startswith(here) for change in changes):
                yield {"op": "test", "path": f"{here}type", "value": type_}


def _patch_pod(write: _Write, obj: Obj | None) -> Generator[ApiRequest, Obj, Obj]:
    """Send one step until it takes effect, or what it rests on does not hold any more.

    A step that meets newer versions again and again is bound to the uid alone if no other writer
    has a part in its conditions. A shared condition is left to the next round: an untested write
    would replace a value that arrives between our read and our write.
    """
    failure: ApiError | None = None
    version = ""
    for _ in range(TRIES):
        if obj is None:
            obj = yield _get_request(write.action, write.kind)
        live = pod_facts(obj)
        write.check(live)
        if isinstance(failure, InvalidObject) and live.resource_version == version:
            raise failure  # refused for what it writes, not for what it met
        request, version = write.request(obj), live.resource_version
        if request is None:
            return obj
        try:
            return (yield request)
        except (Conflict, ApplyConflict, InvalidObject) as error:
            failure, obj = error, None
    if write.step.subresource != "status" or write.down or write.shared:
        raise Conflict(str(failure))
    write.check(pod_facts((yield _get_request(write.action, write.kind))))
    obj = yield write.bare()
    rest = write.rest(obj)
    return obj if rest is None else (yield from _patch_pod(rest, obj))


def _creates(step: PatchStep, seen: PodFacts) -> bool:
    """Return whether the step does nothing but add true conditions to a pod that lacks them."""
    conditions = get(step.body, "status", "conditions", default=())
    if not conditions or step.body.keys() | step.body["status"].keys() != {"status", "conditions"}:
        return False
    return all(
        condition["status"] == "True" and seen.condition(condition["type"]) is None
        for condition in conditions
    )


def _check(known: PodFacts, live: PodFacts) -> None:
    before, after = _basis(known), _basis(live)
    moved = [name for name, value in before.items() if after[name] != value]
    if moved:
        raise Conflict(f"pod {live.name}: {', '.join(moved)} changed since it was planned")


def _basis(pod: PodFacts) -> Mapping[str, Any]:
    return {
        "uid": pod.uid,
        "owners": (pod.controller_uid, pod.owner_uids),
        "deletion": pod.deleting,
        "labels": pod.labels,
        "finalizers": pod.finalizers,
        "annotations": _decisive(pod.annotations),
        "images": [(container.name, container.image) for container in pod.containers],
    }


def _decisive(notes: Strings) -> Strings:
    """Annotations that controllers decide by; a node agent writes one of OpenKruise's, too."""
    return {key: text for key, text in notes.items() if _decides(key)}


def _decides(key: str) -> bool:
    domain = key.partition("/")[0]
    ours = domain == _DOMAIN or domain.endswith(f".{_DOMAIN}") or key in _ABSENT
    return ours and key != wire.CONTAINERS_META


def _reported(condition: PodCondition | None) -> tuple[str, str | None] | None:
    return None if condition is None else (condition.status, condition.message)


def _tests(obj: Obj, step: PatchStep) -> Iterator[Operation]:
    """Preconditions of any write on a pod."""
    for name in ("uid", "deletionTimestamp", "ownerReferences", "labels", "finalizers"):
        yield _test(obj, "metadata", name)
    if notes := obj["metadata"].get("annotations"):
        written = get(step.body, "metadata", "annotations", default={}) or {}
        for key in sorted({*filter(_decides, notes), *written, *_ABSENT}):
            yield _test(obj, "metadata", "annotations", key)
    else:
        yield _test(obj, "metadata", "annotations")
    for place in range(len(get(obj, "spec", "containers", default=()) or ())):
        for field in ("name", "image"):
            yield _test(obj, "spec", "containers", place, field)


def _test(obj: Obj, *path: str | int) -> Operation:
    """The value at `path` is as in `obj`; for API servers null and a missing value are the same."""
    value: Any = obj
    for step in path:
        if isinstance(step, str) and step not in value:
            value = None
            break
        value = value[step]
    return {"op": "test", "path": pointer_to(path), "value": value}


def _patch_request(
    action: Patch, kind: Kind, step: PatchStep, body: Any, content_type: str
) -> ApiRequest:
    return ApiRequest(
        verb="patch",
        resource=kind.ref,
        namespace=action.key.namespace,
        name=action.key.name,
        subresource=step.subresource,
        body=body,
        content_type=content_type,
        params=_AS_AUTOSCALER if step.subresource == "scale" else {},
    )


def _get_request(action: Patch | Delete, kind: Kind) -> ApiRequest:
    return ApiRequest(
        verb="get", resource=kind.ref, namespace=action.key.namespace, name=action.key.name
    )


def _delete_request(action: Delete, kind: Kind, version: str) -> ApiRequest:
    seen = {"uid": action.uid, "resourceVersion": version}
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {name: value for name, value in seen.items() if value},
    }
    if action.propagation:
        body["propagationPolicy"] = action.propagation
    return ApiRequest(
        verb="delete",
        resource=kind.ref,
        namespace=action.key.namespace,
        name=action.key.name,
        body=body,
    )
