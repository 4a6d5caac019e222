"""The GitSources, Units, Sinks and Receivers of a cluster, followed; what we write of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from gitkruise.errors import ApiError, InvalidObject, NotFound
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.reconcile.interventions import COMPONENT
from gitkruise.gitops.resources.declared import FINALIZER, Name
from gitkruise.kube.cache.informer import Informer
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.store import CachedObject, InformerCache, StoreChange
from gitkruise.kube.client.events import Subject
from gitkruise.kube.client.transport import find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import SPECS
from gitkruise.model.planning.plan import Event
from gitkruise.planner.sync.annotations import (
    CONSENTS,
    STATUS_MANAGER,
    annotation,
    reconcile_request,
)
from gitkruise.wire.catalog.catalog import Kind
from gitkruise.wire.patch.json_patch import merge_diff
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import (
    OWN_GROUP,
    GroupKind,
    Obj,
    ObjectKey,
    key_of,
    split_api_version,
)
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import JSON_PATCH, MERGE_PATCH, ApiRequest

log = logging.getLogger(__name__)
UNSERVED_S: Final = 60.0  # between two looks whether the kinds are served by now
PATIENCE_S: Final = 15.0  # with the first lists
_TRIES: Final = 3


class CustomResources:
    """Our own kinds in one cluster. `changed` is set by what changes what is to run."""

    def __init__(self, live: LiveView, clock: Clock) -> None:
        self._live, self._clock = live, clock
        self._store = InformerCache()
        self._informers: list[Informer] = []
        self.changed = asyncio.Event()
        self._store.subscribe(self._note)

    @property
    def served(self) -> bool:
        """Return whether the cluster serves our kinds."""
        return bool(self._informers)

    @property
    def complete(self) -> bool:
        """Return whether every kind was listed; before that, no object is known to be missing."""
        return self.served and all(informer.synced.is_set() for informer in self._informers)

    def objects(self) -> list[Obj]:
        """All of them as last seen, by kind, namespace and name."""
        return [obj for kind in SPECS for obj in self._store.objects(GroupKind(OWN_GROUP, kind))]

    def units(self) -> int | None:
        """Return the number of Unit objects; None while it is not known."""
        return sum(obj["kind"] == "Unit" for obj in self.objects()) if self.complete else None

    def get(self, name: Name) -> Obj | None:
        """One object by kind and `namespace/name`."""
        namespace, _, short = name[1].partition("/")
        return self._store.get(ObjectKey(OWN_GROUP, name[0], namespace, short))

    # Following ------------------------------------------------------------------------------

    def look_for(self) -> bool:
        """Start following where all kinds are served; whether they are."""
        kinds = [self._live.catalog.stored(GroupKind(OWN_GROUP, kind)) for kind in SPECS]
        if self._informers or not all(kind is not None and kind.verbs for kind in kinds):
            return self.served
        feeds = [Feed(ref=kind.ref, kind=kind.kind) for kind in kinds if kind is not None]
        self._informers = [
            Informer(
                feed, self._live.transport, self._store, self._clock, outages=self._live.outages
            )
            for feed in feeds
        ]
        return True

    async def run(self) -> None:
        """Follow until cancelled, from when the kinds are served."""
        while not self.look_for():
            await self._clock.sleep(UNSERVED_S)
            try:
                await self._live.discover()
            except ApiError as error:
                log.info(log_line("custom-resources-unknown", error=error))
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run())
            for informer in self._informers:
                await informer.synced.wait()
            self.changed.set()

    async def listed(self) -> bool:
        """Wait for the first complete lists; False where they do not come."""
        for informer in self._informers:
            try:
                async with self._clock.timeout(PATIENCE_S):
                    await informer.synced.wait()
            except TimeoutError:
                log.warning(
                    log_line(
                        "custom-resources-not-listed", kind=informer.feed, error=informer.error
                    )
                )
                return False
        return True

    def _note(self, change: StoreChange) -> None:
        if _gist(change.before) != _gist(change.after):
            self.changed.set()

    # Writing --------------------------------------------------------------------------------

    async def say(self, obj: Obj, status: Obj) -> None:
        """Write a status, where it says something else than before. Raises ApiError."""
        patch = merge_diff(obj.get("status") or {}, status)
        if patch:
            await self._patch(obj, {"status": patch}, "status")

    def record(self, obj: Obj, event: Event) -> None:
        """Record an Event about one of our objects."""
        meta, (_, version) = obj["metadata"], split_api_version(str(obj["apiVersion"]))
        subject = Subject(
            key=key_of(obj), version=version, uid=str(meta["uid"]),
            resource_version=str(meta["resourceVersion"]),
        )  # fmt: skip
        self._live.events.record(subject, event, COMPONENT)

    async def hold(self, obj: Obj) -> None:
        """Let a unit stay until its end is seen to. Raises ApiError."""
        finalizers = get(obj, "metadata", "finalizers", default=[])
        if FINALIZER not in finalizers:
            version = obj["metadata"]["resourceVersion"]
            held = {"finalizers": [*finalizers, FINALIZER], "resourceVersion": version}
            await self._patch(obj, {"metadata": held}, "")

    async def release(self, obj: Obj) -> None:
        """Let a unit go. Raises ApiError.

        Bound to the object and to our finalizer, not to a version: our own status writes change it.
        """
        present: Obj | None = obj
        for left in reversed(range(_TRIES)):
            finalizers = get(present or {}, "metadata", "finalizers", default=[])
            if present is None or FINALIZER not in finalizers:
                return
            place = f"/metadata/finalizers/{finalizers.index(FINALIZER)}"
            patch = [
                {"op": "test", "path": "/metadata/uid", "value": obj["metadata"]["uid"]},
                {"op": "test", "path": place, "value": FINALIZER},
                {"op": "remove", "path": place},
            ]
            try:
                await self._patch(obj, patch, "", JSON_PATCH)
            except InvalidObject:  # another finalizer left, or this is another object by now
                if not left:
                    raise
                present = await self._read(obj)
            else:
                return

    async def _read(self, obj: Obj) -> Obj | None:
        """Read an object live; None where it is gone. Raises ApiError."""
        meta = obj["metadata"]
        transport, ref = self._live.transport, self._kind(obj).ref
        found = await find_object(transport, ref, meta["name"], meta["namespace"])
        return found if found is not None and found["metadata"]["uid"] == meta["uid"] else None

    async def _patch(
        self, obj: Obj, body: Any, subresource: str, content_type: str = MERGE_PATCH
    ) -> None:
        meta = obj["metadata"]
        request = ApiRequest(
            verb="patch",
            resource=self._kind(obj).ref,
            namespace=meta["namespace"],
            name=meta["name"],
            subresource=subresource,
            body=body,
            content_type=content_type,
            params={"fieldManager": STATUS_MANAGER},
        )
        try:
            reply = await self._live.transport.send(request)
        except NotFound:
            return
        self._store.note_write(reply.body)

    def _kind(self, obj: Obj) -> Kind:
        kind = self._live.catalog.stored(GroupKind(OWN_GROUP, obj["kind"]))
        if kind is None:
            raise NotFound(f"the cluster no longer serves {obj['kind']} of {OWN_GROUP}")
        return kind


def _gist(seen: CachedObject | None) -> object:
    """Return the parts of an object that decide what runs: not its status."""
    if seen is None:
        return None
    meta = seen.obj["metadata"]
    requests = (*(annotation(seen.obj, word) for word in CONSENTS), reconcile_request(seen.obj))
    return seen.uid, seen.generation, seen.deleting, tuple(meta.get("finalizers") or ()), requests
