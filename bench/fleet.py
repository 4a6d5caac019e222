"""A CloneSet with very many pods, made of one that ran in a model cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gitkruise.kube.cache.list_watch import Feed, Init, InitApply, InitDone
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.codec import encode
from gitkruise.kube.client.rawobject import RawObject
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.model.workloads.pod import POD
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from tests.worlds import SPACE, Lab, cloneset, template

REVISION: Final = GroupKind("apps", "ControllerRevision")


@dataclass(frozen=True, slots=True)
class Fleet:
    """One CloneSet, its revisions, and a pod in service that others are copied from."""

    owner: Obj
    revisions: list[Obj]
    pod: Obj

    def pods(self, count: int) -> Iterator[bytes]:
        """The JSON of `count` pods that differ in name, uid, instance id and address."""
        text = encode(self.pod).decode()
        meta = self.pod["metadata"]
        instance = meta["name"].rpartition("-")[2]
        for number in range(count):
            fresh = text.replace(meta["uid"], f"{number:08d}{meta['uid'][8:]}")
            yield (
                fresh.replace(f"-{instance}", f"-{number:06d}")
                .replace(f'"{instance}"', f'"{number:06d}"')
                .encode()
            )

    @property
    def key(self) -> ObjectKey:
        return key_of(self.owner)


def fleet(count: int, *, rolling: int = 0) -> Fleet:
    """A CloneSet of `count` pods in service; `rolling` of them may be updated now."""
    lab = Lab()
    base = cloneset(replicas=1, partition="100%")
    lab.apply(base)
    lab.run(600)
    if rolling:
        lab.patch(base, {"spec": {"template": template("app:v2")}})
        lab.run(600)
    pod, rolls = lab.pods()[0], {"partition": 0, "maxUnavailable": rolling}
    strategy = {"rollingUpdate": rolls} if rolling else {}
    lab.patch(base, {"spec": {"replicas": count, "updateStrategy": strategy}})
    return Fleet(owner=lab.get(base), revisions=lab.world.objects(REVISION, SPACE), pod=pod)


def store_of(made: Fleet, count: int) -> InformerCache:
    """The store of an informer that listed the fleet."""
    pods = (RawObject(raw, api_version="v1", kind="Pod") for raw in made.pods(count))
    return listed([(CLONESET, [made.owner]), (REVISION, made.revisions), (POD, pods)])


def listed(parts: Iterable[tuple[GroupKind, Iterable[Obj]]]) -> InformerCache:
    """The store of an informer that listed these objects by kind."""
    store, catalog = InformerCache(), load_catalog()
    for group_kind, objects in parts:
        kind = catalog.stored(group_kind)
        assert kind is not None
        feed = Feed(ref=kind.ref, kind=kind.kind)
        store.follow(feed)
        store.apply(feed, Init())
        for obj in objects:
            store.apply(feed, InitApply(obj))
        store.apply(feed, InitDone(str(10**9)))
    return store
