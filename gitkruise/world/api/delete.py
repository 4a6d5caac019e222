"""delete and deletecollection: preconditions, grace, finalizers and propagation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.admission.rules.request import DELETE, AdmissionRequest
from gitkruise.errors import ApiError, BadRequest, NotFound
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.integers import parse_int
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of, kinds_of
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.primitives.requests import ApiReply
from gitkruise.wire.primitives.times import format_time, parse_time
from gitkruise.world.api.reads import list_reply, read_page
from gitkruise.world.api.unavailable_budgets import spend
from gitkruise.world.api.workload_spreads import record_deletion
from gitkruise.world.store import api_errors
from gitkruise.world.store.api_errors import bad_options
from gitkruise.world.store.commit import is_finished, remove, store
from gitkruise.world.store.crds import CLEANUP
from gitkruise.world.store.request_context import RequestContext, read_dry_run
from gitkruise.world.store.strategies import CRD, NAMESPACE, POD
from gitkruise.world.store.webhook_rounds import ReviewRequest, Unanswered
from gitkruise.world.write import warnings
from gitkruise.world.write.decoding import check_body
from gitkruise.world.write.webhook_pipeline import review_deletion

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
DEFAULT_GRACE_S: Final = 30
IMMORTAL: Final = frozenset({"default", "kube-system", "kube-public"})
_FIELDS: Final = (
    "gracePeriodSeconds", "preconditions", "orphanDependents", "propagationPolicy", "dryRun",
)  # fmt: skip
POLICIES: Final = ("Foreground", "Background", "Orphan")
# Kinds that answer a deletion with the object; others answer with a Status.
RETURNED: Final = kinds_of(
    {
        "": (
            *("Namespace", "PersistentVolume", "PersistentVolumeClaim", "Pod", "PodTemplate"),
            *("ResourceQuota", "Service", "ServiceAccount"),
        ),
        "storage.k8s.io": (
            *("CSIDriver", "CSINode", "StorageClass", "VolumeAttachment"),
            "VolumeAttributesClass",
        ),
    }
)
# Kinds whose dependents live on unless the request says otherwise.
ORPHANING: Final = kinds_of({"": ("ReplicationController",), "batch": ("Job",)})


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteOptions:
    """meta/v1 DeleteOptions, from body and query, checked."""

    dry_run: bool = False
    grace_s: int | None = None
    propagation: str = ""
    uid: str = ""
    resource_version: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)  # as DeleteOptions


def read_delete_options(call: RequestContext) -> DeleteOptions:
    """Raises BadRequest and InvalidObject (422 about DeleteOptions)."""
    body = check_body(call.state.catalog.core, "DeleteOptions", call.request.body)
    if body.get("kind") not in (None, "", "DeleteOptions"):
        raise BadRequest(f'a deletion takes DeleteOptions, not "{body["kind"]}"')
    params = {**call.request.params, **{k: v for k, v in body.items() if v is not None}}
    policy = params.get("propagationPolicy") or ""
    orphan = params.get("orphanDependents")
    if policy and policy not in POLICIES:
        words = ", ".join(f'"{word}"' for word in (*POLICIES, "nil"))
        why = f'Unsupported value: "{policy}": supported values: {words}'
        raise bad_options("DeleteOptions", "propagationPolicy", "FieldValueNotSupported", why)
    if policy and orphan is not None:
        both = "orphanDependents and deletionPropagation cannot be both set"
        why = f'Invalid value: "{policy}": {both}'
        raise bad_options("DeleteOptions", "propagationPolicy", "FieldValueInvalid", why)
    if orphan is not None:
        policy = "Orphan" if orphan in (True, "true") else "Background"
    asked = params.get("preconditions") or {}
    advised = warnings.of_delete(call.kind.group_kind, policy_given=bool(policy))
    call.warnings.extend(advised)
    return DeleteOptions(
        dry_run=read_dry_run("DeleteOptions", params),
        grace_s=_seconds(params.get("gracePeriodSeconds")),
        propagation=policy,
        uid=asked.get("uid") or "",
        resource_version=asked.get("resourceVersion") or "",
        given=_given(params) if call.reviews is not None else {},
    )


def _given(params: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of DeleteOptions, whichever way they came."""
    found = {name: params[name] for name in _FIELDS if params.get(name) not in (None, "")}
    if found.get("dryRun"):
        found["dryRun"] = ["All"]
    if "gracePeriodSeconds" in found:
        found["gracePeriodSeconds"] = int(found["gracePeriodSeconds"])
    if found.get("orphanDependents") in ("true", "false"):
        found["orphanDependents"] = found["orphanDependents"] == "true"
    return found


def _seconds(value: Any) -> int | None:
    if value is None or value == "":
        return None
    try:
        seconds = parse_int(str(value))
    except ValueError:
        raise BadRequest(f'strconv.ParseInt: parsing "{value}": invalid syntax') from None
    return 1 if seconds < 0 else seconds


def delete(call: RequestContext, *, evicted: bool = False) -> ApiReply:
    """DELETE of one object: a Status when it is gone, the object while something holds it.

    `evicted`: a pod's budgets have let its eviction pass.
    """
    options = read_delete_options(call)
    stored = call.stored()
    if call.kind.group_kind == NAMESPACE and call.name in IMMORTAL:
        raise api_errors.forbidden(call.kind, call.name, "this namespace may not be deleted")
    _check_preconditions(call, stored, options)
    left = _delete(call, stored, options, evicted=evicted)
    if left is not None:
        return ApiReply(status=200, body=call.shown(left), warnings=tuple(call.warnings))
    if call.kind.group_kind in RETURNED:
        last = stored if options.dry_run else _last_seen(call)
        return ApiReply(status=200, body=call.shown(last), warnings=tuple(call.warnings))
    return ApiReply(status=200, body=_success(call, stored), warnings=tuple(call.warnings))


def _last_seen(call: RequestContext) -> Obj:
    """Return the object that was just removed, in the version of the removal."""
    state = call.state
    (record,) = state.journal.since(state.version - 1)
    assert record.before is not None
    meta = {**record.before["metadata"], "resourceVersion": str(record.version)}
    return {**record.before, "metadata": meta}


def _success(call: RequestContext, stored: Obj) -> Obj:
    kind = call.kind
    details = {
        "name": call.name,
        "group": kind.group,
        "kind": kind.plural,
        "uid": stored["metadata"]["uid"],
    }
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {key: value for key, value in details.items() if value},
    }


def _check_preconditions(call: RequestContext, stored: Obj, options: DeleteOptions) -> None:
    meta = stored["metadata"]
    if options.uid and options.uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({options.uid}) does not match the UID in record"
            f" ({meta['uid']}). The object might have been deleted and then recreated"
        )
        raise api_errors.precondition(call.kind, meta["name"], why)
    version = options.resource_version
    if version and version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the"
            f" ResourceVersion in record ({meta['resourceVersion']}). The object might have been"
            " modified"
        )
        raise api_errors.precondition(call.kind, meta["name"], why)


def _delete(
    call: RequestContext, stored: Obj, options: DeleteOptions, *, evicted: bool = False
) -> Obj | None:
    """Delete one stored object as far as it goes now; what is left of it, or None."""
    _admit(call, stored, dry_run=options.dry_run)
    marked = marked_for_deletion(stored, options, call.now)
    if call.reviews is not None and not _goes_already(stored, marked):
        _review(call, stored, options)
    if not evicted:
        spend(call, stored, PodOperation.DELETE, dry_run=options.dry_run)
    record_deletion(call, stored, dry_run=options.dry_run)
    kind = call.state.stored_kind(call.kind)
    if options.dry_run:
        return None if is_finished(marked) and kind.group_kind != POD else marked
    if is_finished(marked):
        # A pod is marked in a write of its own before it goes, so that watchers see it end.
        if kind.group_kind == POD and marked != stored and not call.state.fast_path:
            store(call.state, kind, marked)
        remove(call.state, kind, key_of(stored))
        return None
    left = stored if marked == stored else store(call.state, kind, marked)
    return _delete_instances(call, left) if kind.group_kind == CRD else left


def _goes_already(stored: Obj, marked: Obj) -> bool:
    """Return whether a second deletion does not shorten the grace period (rest.BeforeDelete)."""
    return stored["kind"] == "Pod" and marked == stored


def _review(call: RequestContext, stored: Obj, options: DeleteOptions) -> None:
    """Let webhooks judge a deletion, which they know by the options it was given."""
    name = call.name  # "" where a list is deleted
    given, dry_run = options.given, options.dry_run
    review_deletion(call, call.shown(stored), given, name=name, dry_run=dry_run)


def _admit(call: RequestContext, stored: Obj, *, dry_run: bool) -> None:
    if call.state.admit is None:
        return
    request = AdmissionRequest(
        operation=DELETE,
        kind=call.kind,
        key=call.key(stored["metadata"]["name"]),
        obj=None,
        old=call.shown(stored),
        user=call.user,
        dry_run=dry_run,
        now=call.now,
        view=call.state,
    )
    call.state.admit(request)


def marked_for_deletion(obj: Obj, options: DeleteOptions, now: datetime) -> dict[str, Any]:
    """`obj` as a delete leaves it: finalizers of the policy, deletionTimestamp, grace.

    Source: rest.BeforeDelete and the registry's finalizer rules; pods: D.13. A second delete can
    only shorten a pod's grace.
    """
    meta = dict(obj["metadata"])
    kind = key_of(obj).group_kind
    finalizers = _finalizers(kind, meta.get("finalizers") or (), options.propagation)
    if kind == CRD and CLEANUP not in finalizers:
        finalizers = [*finalizers, CLEANUP]
    meta.pop("finalizers", None)
    if finalizers:
        meta["finalizers"] = finalizers
    grace = _grace_s(obj, options)
    running = meta.get("deletionTimestamp")
    shorter = running and grace < int(meta.get("deletionGracePeriodSeconds") or 0)
    if not running or shorter:
        meta["deletionTimestamp"] = _deadline(meta, grace, now)
        if obj["kind"] != "Namespace":
            meta["deletionGracePeriodSeconds"] = grace
        if not running and meta.get("generation"):
            meta["generation"] += 1
    out: dict[str, Any] = {**obj, "metadata": meta}
    if obj["kind"] == "Namespace" and obj["apiVersion"] == "v1":
        out = put(out, ("status", "phase"), "Terminating")
    return out


def _deadline(meta: Mapping[str, Any], grace: int, now: datetime) -> str:
    """Return the end of the grace period; a shortened one counts from the first request."""
    asked = parse_time(meta.get("deletionTimestamp"))
    if asked is None or grace == 0:
        return format_time(now + timedelta(seconds=grace))
    begun = asked - timedelta(seconds=int(meta.get("deletionGracePeriodSeconds") or 0))
    return format_time(begun + timedelta(seconds=grace))


def _finalizers(kind: GroupKind, present: Sequence[str], policy: str) -> list[str]:
    if not policy:
        held = ORPHAN in present or FOREGROUND in present
        if held or kind not in ORPHANING:
            return list(present)
        policy = "Orphan"
    wanted = {"Orphan": ORPHAN, "Foreground": FOREGROUND}.get(policy)
    kept = [name for name in present if name not in (ORPHAN, FOREGROUND) or name == wanted]
    return [*kept, wanted] if wanted and wanted not in kept else kept


def _grace_s(obj: Obj, options: DeleteOptions) -> int:
    """Return the grace period of a pod; 0 for other kinds and for pods that no kubelet runs."""
    if obj["kind"] != "Pod" or obj["apiVersion"] != "v1":
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    if not spec.get("nodeName") or status.get("phase") in FINISHED:
        return 0
    if options.grace_s is not None:
        return options.grace_s
    own = spec.get("terminationGracePeriodSeconds")
    if own is None:
        return DEFAULT_GRACE_S
    return 1 if int(own) < 0 else int(own)


def _delete_instances(call: RequestContext, definition: Obj) -> Obj | None:
    """Delete every object of a definition that is going; the definition if something is left."""
    spec = definition["spec"]
    group_kind = GroupKind(spec["group"], spec["names"]["kind"])
    kind = call.state.catalog.stored(group_kind)
    for obj in call.state.objects(group_kind) if kind else ():
        assert kind is not None
        marked = marked_for_deletion(obj, DeleteOptions(propagation="Background"), call.now)
        if is_finished(marked):
            remove(call.state, kind, key_of(obj))
        elif marked != obj:
            store(call.state, kind, marked)
    of = call.state.stored_kind(call.kind)
    key = ObjectKey(CRD.group, CRD.kind, "", definition["metadata"]["name"])
    present = call.state.get(key)
    if present is None or (kind is not None and call.state.objects(group_kind)):
        return present
    left = [name for name in present["metadata"].get("finalizers") or () if name != CLEANUP]
    if not left:
        remove(call.state, of, key)
        return None
    return store(
        call.state, of, {**present, "metadata": {**present["metadata"], "finalizers": left}}
    )


def delete_collection(call: RequestContext) -> ApiReply:
    """DELETE of a list: each object as `delete` does; the list of what was there."""
    options = read_delete_options(call)
    found, version, more, left = read_page(call)
    _ask_about(call, found, options)
    for obj in found:
        if call.kind.group_kind == NAMESPACE and obj["metadata"]["name"] in IMMORTAL:
            continue
        try:
            current = _current(call, obj)
            _check_preconditions(call, current, options)
            _delete(call, current, options)
        except NotFound:
            continue  # removed together with another object of the list
    return ApiReply(
        status=200,
        body=list_reply(call, found, version, more=more, left=left),
        warnings=tuple(call.warnings),
    )


def _ask_about(call: RequestContext, found: Sequence[Obj], options: DeleteOptions) -> None:
    """Have webhooks asked about every object of a list before the first of them goes.

    Up to the first that is refused. Raises Unanswered.
    """
    questions: list[ReviewRequest] = []
    for obj in found if call.reviews is not None else ():
        try:
            _review(replace(call, warnings=[]), obj, options)
        except Unanswered as missing:
            questions += missing.questions
        except ApiError:
            break
    if questions:
        raise Unanswered(*questions)


def _current(call: RequestContext, obj: Obj) -> Obj:
    key = key_of(obj)
    found = call.state.get(key)
    if found is None:
        raise api_errors.not_found(call.kind, key.name)
    return found
