"""Sending a unit's objects to a cluster: server-side apply, its refusals as findings, deletes."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gitkruise.errors import (
    AlreadyExists,
    ApiError,
    ApplyConflict,
    ClusterFailed,
    Conflict,
    Finding,
    Forbidden,
    NotFound,
    Retry,
    StatusDetails,
)
from gitkruise.gitops.account import account_of, proven
from gitkruise.gitops.adoption import adopt
from gitkruise.gitops.check import parse_field
from gitkruise.gitops.replacing import cannot_change, immutable, replaceable
from gitkruise.gitops.veil import veil
from gitkruise.gitops.webhookless import dialect_of
from gitkruise.kube.transport import Transport
from gitkruise.model.change import Change, Desired
from gitkruise.model.config import Unit
from gitkruise.model.settings import Gates
from gitkruise.planner.sync.autoscale import sized_as
from gitkruise.planner.sync.marks import (
    COMMIT,
    DIGEST,
    MANAGER,
    PATH,
    annotation,
    create_only,
    marked,
)
from gitkruise.wire.catalog import Catalog
from gitkruise.wire.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.paths import get, put
from gitkruise.wire.request import APPLY_PATCH, JSON, ApiRequest

_NAMESPACE: Final = GroupKind("", "Namespace")
_SIZE, _SIZER = ".spec.replicas", "kube-controller-manager"  # which runs the autoscaler
_REGISTERED: Final = "mutatingwebhookconfiguration,validatingwebhookconfiguration"
# What kube-apiserver answers with 500 when a webhook that must agree cannot be asked.
_CALLED: Final = re.compile(r'failed calling webhook "([^"]+)": (.+)', re.DOTALL)
_CONFLICTING: Final = re.compile(r'conflict with "([^"]+)"')
# Tools whose fields git may take over without asking: people moved on to git from them.
_KNOWN_TOOLS: Final = (
    "kubectl", "helm", "argocd", "kustomize-controller", "flux", "before-first-apply",
    "configsync", "kluctl", "gitkruise", "Go-http-client",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What became of one object: the stored object, or why it was refused."""

    desired: Desired
    reply: Obj | None = None
    finding: Finding | None = None
    retry: bool = False  # the same request may go through later
    present: bool = False  # it was to be made only if there is none, and there is one
    replace: bool = False  # it cannot change, and is to be deleted and made again


class Applier:
    """Applies objects of one unit at one commit. `label` is the unit's label value.

    Objects travel in a version the cluster serves; replies are in the version git speaks.
    """

    def __init__(
        self,
        transport: Transport,
        unit: Unit,
        label: str,
        commit: str,
        *,
        gates: Gates = Gates(),
        autoscaled: frozenset[ObjectKey] = frozenset(),
    ) -> None:
        self._transport, self._unit, self._label, self._commit = transport, unit, label, commit
        self._gates, self._autoscaled = gates, autoscaled
        self._slots = asyncio.Semaphore(unit.spec.apply.concurrency)

    async def send(
        self,
        objects: Sequence[Desired],
        live: dict[ObjectKey, Obj],
        catalog: Catalog,
        *,
        take: Collection[ObjectKey] = (),
        dry_run: bool = False,
        overtaken: Callable[[], bool] = lambda: False,
    ) -> list[Sent]:
        """Apply `objects`, up to the unit's concurrency at once; one Sent each, in order.

        Those in `take` by force, for git may take over what differs in their `live` version: the
        request holds for that version only. What has not gone out when `overtaken` becomes true
        is not sent: its Sent says nothing. Raises ClusterFailed or ApiError when nothing can be
        sent.
        """
        await proven(self._transport)
        async with asyncio.TaskGroup() as tasks:
            sent = [
                tasks.create_task(
                    self._in_turn(
                        self._one(d, live.get(d.key), catalog, take=d.key in take, dry_run=dry_run),
                        d,
                        overtaken,
                    )
                )
                for d in objects
            ]
        return [task.result() for task in sent]

    async def _in_turn(
        self, work: Coroutine[Any, Any, Sent], d: Desired, overtaken: Callable[[], bool]
    ) -> Sent:
        async with self._slots:
            if not overtaken():
                return await work
        work.close()
        return Sent(desired=d)

    async def _one(
        self, d: Desired, live: Obj | None, catalog: Catalog, *, take: bool, dry_run: bool
    ) -> Sent:
        dialect = dialect_of(d, catalog)
        if dialect is None:
            return Sent(desired=d, finding=_not_served(d, catalog), retry=True)
        asked = sized_as(d, live) if live is not None and d.key in self._autoscaled else d
        request = ApiRequest(
            verb="patch",
            resource=dialect.kind.ref,
            namespace=d.key.namespace,
            name=d.key.name,
            body=dialect.outgoing(self._body(asked, live), live, self._gates),
            content_type=APPLY_PATCH,
            params={
                "fieldManager": MANAGER,
                "force": str(self._unit.spec.apply.conflicts == "force").lower(),
                **({"dryRun": "All"} if dry_run else {}),
            },
        )
        if create_only(d.obj):
            params = {k: v for k, v in request.params.items() if k != "force"}
            request = replace(request, verb="create", name="", content_type=JSON, params=params)
        if take and live is not None and self._unit.spec.apply.conflicts == "owned":
            sent = await self._take_over(d, request, live)
        else:
            sent = await self._attempt(d, request)
        if sent.reply is not None and live is None and request.verb == "patch" and not dry_run:
            sent = await self._taken_over(sent, request)
        return sent if sent.reply is None else replace(sent, reply=dialect.incoming(sent.reply))

    async def _take_over(self, d: Desired, request: ApiRequest, live: Obj) -> Sent:
        """One request where asking first would make two; asked all the same when it comes late."""
        version = ("metadata", "resourceVersion")
        exact = put(request.body, version, get(live, *version))
        forced = replace(request, body=exact, params={**request.params, "force": "true"})
        try:
            reply = await self._transport.send(forced)
        except ApiError:
            return await self._attempt(d, request)
        return Sent(desired=d, reply=reply.body)

    def _body(self, d: Desired, live: Obj | None) -> Obj:
        """Content that did not change keeps its commit and place: no write for a new HEAD."""
        same = live is not None and annotation(live, DIGEST) == d.digest
        commit = annotation(live, COMMIT) if live is not None and same else self._commit
        path = annotation(live, PATH) if live is not None and same else str(d.document)
        return marked(
            d, unit=self._unit.id, label=self._label, commit=commit or self._commit, path=path
        )

    async def _taken_over(self, sent: Sent, request: ApiRequest) -> Sent:
        """What an earlier tool applied becomes ours; it keeps nothing that git does not name."""
        assert sent.reply is not None
        try:
            return replace(sent, reply=await adopt(self._transport, request, sent.reply))
        except ApiError as error:
            return self._refused(sent.desired, error)

    async def _attempt(self, d: Desired, request: ApiRequest) -> Sent:
        try:
            reply = await self._transport.send(request)
        except ApplyConflict as error:
            if d.key in self._autoscaled and all(c.field == _SIZE for c in error.details.causes):
                why = Finding(code="GK4102", message=f"{d.key}: its size changed meanwhile")
                return Sent(desired=d, finding=why, retry=True)
            if self._may_take(error):
                forced = {**request.params, "force": "true"}
                return await self._attempt(d, replace(request, params=forced))
            return Sent(desired=d, finding=_conflict(d, error))
        except AlreadyExists:
            return Sent(desired=d, present=True)
        except ApiError as error:
            return self._refused(d, error)
        return Sent(desired=d, reply=reply.body)

    def _refused(self, d: Desired, error: ApiError) -> Sent:
        fixed = immutable(error)
        if fixed and replaceable(d, self._unit):
            return Sent(desired=d, replace=True)
        told = cannot_change(d, error) if fixed else refusal(d, error, account_of(self._unit))
        told = veil(told, d.obj) if d.secret else told
        return Sent(desired=d, finding=told, retry=error.retry is not Retry.NEVER)

    def _may_take(self, error: ApplyConflict) -> bool:
        if self._unit.spec.apply.conflicts != "owned":
            return False
        owners = [(_CONFLICTING.search(c.message), c.field) for c in error.details.causes]
        return bool(owners) and all(found and _ours(found[1], field) for found, field in owners)


def _ours(manager: str, field: str) -> bool:
    """Whether git may take a field from `manager`; a size that no autoscaler sets now it may."""
    return manager.startswith(_KNOWN_TOOLS) or (field, manager) == (_SIZE, _SIZER)


def left_by_tools(change: Change) -> bool:
    """Whether all that differs is owned by tools that git may take over from, or by nobody."""
    managers = {manager for field in change.fields for manager, _ in field.owners}
    return bool(managers) and all(manager.startswith(_KNOWN_TOOLS) for manager in managers)


def _managers(details: StatusDetails) -> set[str]:
    return {match.group(1) for c in details.causes if (match := _CONFLICTING.search(c.message))}


def _conflict(d: Desired, error: ApplyConflict) -> Finding:
    fields = ", ".join(c.field for c in error.details.causes[:5])
    owners = ", ".join(sorted(_managers(error.details))) or "another manager"
    places = tuple(
        d.document.place(parse_field(c.field.lstrip(".")), label="owned by someone else")
        for c in error.details.causes[:1]
    )
    return Finding(
        code="GK2401",
        message=f"{d.key}: {owners} owns {fields}",
        places=places,
        notes=(
            ("unchanged", f"the live {d.key}"),
            ("next", "take the field out of git, or set apply.conflicts: force on the unit"),
        ),
        object=str(d.key),
    )


def _not_served(d: Desired, catalog: Catalog) -> Finding:
    others = sorted(
        {k.version for k in catalog.kinds() if k.group == d.key.group and k.kind == d.key.kind}
    )
    found = f"it serves {', '.join(others)}" if others else "its CRD is not installed"
    ours = d.key.group.endswith("kruise.io")
    return Finding(
        code="GK4201",
        message=f"this cluster does not know kind {d.key.kind} ({d.obj['apiVersion']}): {found}",
        places=(d.document.place(("kind",)),),
        notes=(
            ("unchanged", "nothing of this commit is applied while one of its kinds is unknown"),
            ("next", "gitkruise install --crds" if ours else "install the CRD, or add it to git"),
        ),
        object=str(d.key),
    )


def _uncalled(d: Desired, name: str, why: str) -> Finding:
    """GK5101: an admission webhook whose word is needed gives none."""
    distrusted = "x509" in why or "certificate" in why
    message = (
        f"the API server refuses the certificate of webhook {name}"
        if distrusted
        else f"the API server cannot call webhook {name}"
    )
    return Finding(
        code="GK5101",
        message=message,
        places=(d.document.place(("kind",)),),
        notes=(
            ("it says", why),
            ("effect", "nothing that the webhook is asked about can be written (failurePolicy)"),
            ("unchanged", f"the live {d.key}; it is tried again"),
            ("next", f"see what serves it: kubectl get {_REGISTERED} -o yaml | grep -A9 {name}"),
        ),
        object=str(d.key),
    )


def refusal(d: Desired, error: ApiError, account: str = "") -> Finding:
    """The server's refusal of one object, at the line that caused it as far as that is known.

    `account` is the service account it was sent by, where that was not our own.
    """
    webhook = _CALLED.search(error.message)
    if webhook is not None:
        return _uncalled(d, *webhook.groups())
    if error.retry is Retry.BACKOFF:
        return Finding(code="GK4102", message=f"{d.key}: {error.message}", object=str(d.key))
    if isinstance(error, Forbidden):
        next_ = "gitkruise doctor rbac --print-fix   prints what is missing"
        if account:
            next_ = f"give service account {account} that right, by a Role and a RoleBinding"
        return Finding(
            code="GK4301",
            message=f"not allowed: {error.message}",
            places=(d.document.place(("kind",)),),
            notes=(
                ("needed", f"verb patch on {d.key.group_kind}{_inside(d.key)}, to apply {d.key}"),
                ("unchanged", f"the live {d.key}; other units go on"),
                ("next", next_),
            ),
            object=str(d.key),
        )
    if isinstance(error, NotFound):
        return Finding(
            code="GK4202",
            message=f"{d.key}: {error.message}",
            places=(d.document.place(("metadata", "namespace")),),
            notes=(("next", "add the Namespace to git, or set target.createNamespace: true"),),
            object=str(d.key),
        )
    causes = error.details.causes
    place = d.document.place(parse_field(causes[0].field) if causes else ("spec",))
    return Finding(
        code="GK2102",
        message=error.message,
        places=(place,),
        notes=(("why", "the cluster refuses it"), ("unchanged", f"the live {d.key}")),
        object=str(d.key),
    )


def _inside(key: ObjectKey) -> str:
    return f" in namespace {key.namespace}" if key.namespace else ""


async def delete(
    transport: Transport, key: ObjectKey, live: Obj, catalog: Catalog, propagation: str
) -> None:
    """Delete what we looked at and nothing that took its name since. Raises ApiError."""
    kind = catalog.stored(key.group_kind)
    if kind is None:
        raise ClusterFailed(Finding(code="GK4201", message=f"{key}: its kind is not served"))
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": propagation,
        "preconditions": {
            "uid": get(live, "metadata", "uid"),
            "resourceVersion": get(live, "metadata", "resourceVersion"),
        },
    }
    request = ApiRequest(
        verb="delete", resource=kind.ref, namespace=key.namespace, name=key.name, body=body
    )
    try:
        await transport.send(request)
    except (NotFound, Conflict):
        return  # gone, or changed since: the next round looks again


async def ensure_namespace(transport: Transport, name: str, catalog: Catalog) -> None:
    """Create a namespace that a unit asks for by target.createNamespace. Raises ApiError."""
    kind = catalog.stored(_NAMESPACE)
    assert kind is not None, "every cluster serves namespaces"
    await transport.send(
        ApiRequest(
            verb="patch",
            resource=kind.ref,
            name=name,
            body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}},
            content_type=APPLY_PATCH,
            params={"fieldManager": MANAGER, "force": "false"},
        )
    )
