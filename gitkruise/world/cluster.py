"""The model cluster: the semantics of a kube-apiserver as values, without sockets or a clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from gitkruise.model.pod import PodFacts
from gitkruise.wire.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.request import ApiReply, ApiRequest, WatchEvent
from gitkruise.world.dispatch import handle
from gitkruise.world.state import Admit, Record, State
from gitkruise.world.watchlog import watch

if TYPE_CHECKING:
    from gitkruise.wire.catalog import Catalog

__all__ = ["Record", "World"]


class World:
    """A deterministic cluster. Same calls in the same order give the same objects, uids and names.

    Implements `model.view.View`, so planners observe it directly. Objects it hands out are in
    storage form and must not be changed in place.
    """

    def __init__(self, catalog: Catalog, *, admit: Admit | None = None, seed: int = 0) -> None:
        self.state = State(catalog, admit=admit, seed=seed)

    @property
    def version(self) -> int:
        """The last resourceVersion handed out."""
        return self.state.version

    @property
    def catalog(self) -> Catalog:
        """The kinds served now; grows and shrinks with CustomResourceDefinitions."""
        return self.state.catalog

    def handle(
        self, request: ApiRequest, now: datetime, *, user: str = "system:admin"
    ) -> ApiReply:
        """Answer any request but a watch. Raises ApiError (with the server's Status) on refusal."""
        return handle(self.state, request, now, user=user)

    def watch(self, request: ApiRequest, since: int) -> tuple[list[WatchEvent], int]:
        """Events after version `since` that match a watch request, and the position to go on from.

        `since` 0 starts as the request's parameters say: resourceVersion absent or "0" gives the
        present objects as ADDED first, a number gives what came after it; `sendInitialEvents=true`
        ends the present objects with a BOOKMARK annotated k8s.io/initial-events-end.
        Raises WatchExpired when that past is forgotten, BadRequest for senseless parameters.
        """
        return watch(self.state, request, since)

    def get(self, key: ObjectKey) -> Obj | None:
        return self.state.get(key)

    def objects(self, group_kind: GroupKind, namespace: str = "") -> list[Obj]:
        """Objects in name order; namespace "" means every namespace."""
        return self.state.objects(group_kind, namespace)

    def owned(self, uid: str, group_kind: GroupKind, namespace: str) -> list[Obj]:
        """Objects with any owner reference to `uid`, in name order."""
        return self.state.owned(uid, group_kind, namespace)

    def pods_of(self, uid: str, namespace: str) -> list[PodFacts]:
        """Facts of the pods with an owner reference to `uid`, in name order."""
        return self.state.pods_of(uid, namespace)

    def records_since(self, version: int) -> Sequence[Record]:
        """Every committed change after `version`. Raises WatchExpired when some are forgotten."""
        return self.state.journal.since(version)

    def restore(self, objects: Iterable[Obj], version: int) -> None:
        """Replace everything by `objects` (storage form, as stored) as of resourceVersion `version`."""
        raise AssertionError

    def fork(self) -> World:
        """An independent copy that shares the (immutable) objects; its journal starts empty."""
        twin = World.__new__(World)
        twin.state = self.state.fork()
        return twin
