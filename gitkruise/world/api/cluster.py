"""The model cluster: the semantics of a kube-apiserver as values, without sockets or a clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from gitkruise.admission.webhooks.matching import MUTATING, VALIDATING
from gitkruise.errors import WatchExpired
from gitkruise.model.planning.plan import Action
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.pod_groups import PodGroups
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, ResourceRef, WatchEvent
from gitkruise.world.api.routes import handle, try_fast
from gitkruise.world.api.watch import watch
from gitkruise.world.store.store import Admit, CommittedChange, ObjectStore
from gitkruise.world.store.webhook_rounds import Reviews
from gitkruise.world.write.fast_patch import update_status_fast

if TYPE_CHECKING:
    from gitkruise.wire.catalog.catalog import Catalog

__all__ = ["CommittedChange", "World"]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


class World:
    """A deterministic cluster. Same calls in the same order give the same objects, uids and names.

    Implements `model.view.View`, so planners observe it directly. Objects it hands out are in
    storage form and must not be changed in place.
    """

    def __init__(
        self,
        catalog: Catalog,
        *,
        admit: Admit | None = None,
        gates: Gates = Gates(),
        seed: int = 0,
        start: datetime = START,
    ) -> None:
        """A cluster with its first namespaces, created at `start`.

        `gates` are those of the protection of pods; `admit` has its own.
        """
        self.state = ObjectStore(catalog, admit=admit, seed=seed, gates=gates)
        self.add_namespaces(start)

    def add_namespaces(self, now: datetime) -> None:
        """Create the first namespaces that are missing, as kube-apiserver does at its start."""
        for name in NAMESPACES:
            if self.state.get(ObjectKey("", "Namespace", "", name)) is not None:
                continue
            request = ApiRequest(
                verb="create",
                resource=ResourceRef("", "v1", "namespaces"),
                body={"metadata": {"name": name}},
                params={"fieldManager": "kube-apiserver"},
            )
            self.handle(request, now)

    @property
    def version(self) -> int:
        """The last resourceVersion handed out."""
        return self.state.version

    @property
    def catalog(self) -> Catalog:
        """The kinds served now; grows and shrinks with CustomResourceDefinitions."""
        return self.state.catalog

    def handle(
        self,
        request: ApiRequest,
        now: datetime,
        *,
        user: str = "system:admin",
        reviews: Reviews | None = None,
    ) -> ApiReply:
        """Answer any request but a watch. Raises ApiError (with the server's Status) on refusal.

        With `reviews`, registered webhooks have their say: Unanswered names those that are to be
        asked before the request can go on, and nothing is committed then. The request comes again
        with their answers, at the same `now`. Without, no webhook is asked.
        """
        return handle(self.state, request, now, user=user, reviews=reviews)

    @property
    def has_webhooks(self) -> bool:
        """Return whether an admission webhook was ever registered; cheap, read at every write."""
        return self.state.knows(MUTATING) or self.state.knows(VALIDATING)

    def try_fast(self, action: Action, now: datetime) -> Obj | None:
        """Carry out an action as a single commit of its object and return the object.

        None: the fast path is off or does not apply, nothing was done, and the caller sends
        requests to `handle`. Raises ApiError where `handle` would.
        """
        return try_fast(self.state, action, now)

    def try_fast_status(self, key: ObjectKey, version: str, status: Obj) -> Obj | None:
        """Store a changed status, in that API version, of a custom resource and return the object.

        None: the fast path is off or does not apply, and nothing was done.
        """
        old = self.get(key) if self.state.fast_path else None
        if old is None or old.get("status") == status:
            return None
        return update_status_fast(self.state, key, version, old, status)

    def watch(
        self, request: ApiRequest, since: int, *, until: int | None = None
    ) -> tuple[list[WatchEvent], int]:
        """Events after version `since` that match a watch request, and the position to go on from.

        `since` 0 starts as the request's parameters say: resourceVersion absent or "0" gives the
        present objects as ADDED first, a number gives what came after it; `sendInitialEvents=true`
        ends the present objects with a BOOKMARK annotated k8s.io/initial-events-end.
        Changes after version `until` are kept for later; present objects are always the newest.
        Raises WatchExpired when that past is forgotten, BadRequest for senseless parameters.
        """
        return watch(self.state, request, since, until=until)

    def get(self, key: ObjectKey) -> Obj | None:
        return self.state.get(key)

    def objects(self, group_kind: GroupKind, namespace: str = "") -> list[Obj]:
        """Objects in name order; namespace "" means every namespace."""
        return self.state.objects(group_kind, namespace)

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> list[Obj]:
        """Objects with any owner reference to `uid`, in name order."""
        return self.state.owned(uid, group_kind, namespace)

    def pods_of(self, uid: str, namespace: str) -> PodGroups:
        """Facts of the pods with an owner reference to `uid`."""
        return self.state.pods_of(uid, namespace)

    def pod(self, key: ObjectKey) -> PodFacts | None:
        """Facts of one pod, or None when it does not exist."""
        return self.state.pod(key)

    def pods(self, namespace: str) -> list[PodFacts]:
        """Facts of all pods of a namespace ("" for all namespaces), in name order."""
        return self.state.pods(namespace)

    def records_since(self, version: int) -> Sequence[CommittedChange]:
        """Every committed change after `version`. Raises WatchExpired when some are forgotten."""
        return self.state.journal.since(version)

    def changes_since(self, version: int | None) -> Sequence[CommittedChange] | None:
        """Like `records_since`; None where one has to look at everything, as at first."""
        try:
            return self.records_since(version) if version is not None else None
        except WatchExpired:
            return None

    def trim_journal(self) -> None:
        """Drop the journal of a copy with the fast path, after all its components read it."""
        if self.state.fast_path:
            self.state.journal.forget(len(self.state.journal.records))

    def restore(self, objects: Iterable[Obj], version: int) -> None:
        """Replace everything by `objects` (storage form) as of resourceVersion `version`."""
        items = [(key_of(obj), obj) for obj in objects]
        self.state.load(items, version)
        for key, obj in items:
            if key.group_kind == _CRD:
                self.state.catalog = self.state.catalog.with_crd(obj)

    def fork(self, *, fast_path: bool = False) -> World:
        """An independent copy that shares the (immutable) objects; its journal starts empty.

        `fast_path` is for forecasts, which play thousands of writes of the cluster's own components
        and controllers: their writes to pods, and statuses of custom resources, are taken as valid
        and do not update managedFields. Everything else equals a full copy.
        """
        twin = World.__new__(World)
        twin.state = self.state.fork(fast_path=fast_path)
        return twin
