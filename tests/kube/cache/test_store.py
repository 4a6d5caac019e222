"""The store's content after events, relists and our own writes, rule by rule."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.kube.cache.layered import LayeredCache
from gitkruise.kube.cache.list_watch import Feed, Init, InitApply, InitDone, ObjectGone, ObjectSeen
from gitkruise.kube.cache.store import InformerCache, StoreChange
from gitkruise.kube.client.codec import decode, encode
from gitkruise.kube.client.rawobject import RawObject
from gitkruise.model.workloads.pod import POD
from gitkruise.wire.primitives.names import GroupKind, ObjectKey
from tests.kube.toy import CONFIG_MAPS, PODS

FEED = Feed(ref=PODS, kind="Pod")
MAPS = Feed(ref=CONFIG_MAPS, kind="ConfigMap")
CONFIG_MAP = GroupKind("", "ConfigMap")
OWNER = ObjectKey("apps.kruise.io", "CloneSet", "shop", "web")


def pod(
    name: str, version: int, *, uid: str = "", owners: tuple[str, ...] = (), **meta: Any
) -> dict[str, Any]:
    refs = [{"uid": uid, "kind": "CloneSet", "name": "web"} for uid in owners]
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "ownerReferences": refs,
        **meta,
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {}}


def key(name: str) -> ObjectKey:
    return ObjectKey("", "Pod", "shop", name)


@pytest.fixture(params=["alone", "shared kinds", "own kinds"])
def store(request: pytest.FixtureRequest) -> InformerCache:
    """A cache alone, or over one that keeps its pods, or keeps everything else."""
    shared = {"shared kinds": frozenset({POD}), "own kinds": frozenset({CONFIG_MAP})}
    over = shared.get(request.param)
    store = InformerCache() if over is None else LayeredCache(InformerCache(), over)
    store.follow(FEED)
    for event in (Init(), InitApply(pod("a", 3)), InitApply(pod("b", 4)), InitDone("10")):
        store.apply(FEED, event)
    return store


def of_pods(store: InformerCache) -> InformerCache:
    """The cache in which the pods of `store` are."""
    shares = isinstance(store, LayeredCache) and POD in store.shared
    return store._below if shares else store  # type: ignore[attr-defined]


def held(store: InformerCache) -> dict[str, tuple[str, int]]:
    return {s.key.name: (s.uid, s.version) for s in store.all_seen(POD)}


AB = {"a": ("uid-a", 3), "b": ("uid-b", 4)}


@pytest.mark.parametrize(
    ("events", "expected"),
    [
        ([ObjectSeen(pod("a", 12))], AB | {"a": ("uid-a", 12)}),
        ([ObjectSeen(pod("a", 2))], AB),
        ([ObjectGone(pod("a", 12))], {"b": AB["b"]}),
        ([ObjectGone(pod("a", 12)), ObjectSeen(pod("a", 11))], {"b": AB["b"]}),
        ([ObjectSeen(pod("a", 13)), ObjectGone(pod("a", 12))], AB | {"a": ("uid-a", 13)}),
        ([ObjectSeen(pod("c", 9))], AB),
        ([ObjectGone(pod("a", 12)), ObjectSeen(pod("a", 13, uid="new"))], AB | {"a": ("new", 13)}),
        ([ObjectSeen(pod("a", 13, uid="new")), ObjectGone(pod("a", 12))], AB | {"a": ("new", 13)}),
        ([Init(), InitApply(pod("b", 4)), InitDone("20")], {"b": AB["b"]}),
        ([Init(), InitApply(pod("b", 4))], AB),
        (
            [
                ObjectSeen(pod("a", 12)),
                ObjectSeen(pod("b", 30)),
                Init(),
                InitApply(pod("a", 3)),
                InitApply(pod("b", 4)),
                InitDone("20"),
            ],
            AB,
        ),
        (
            [
                ObjectSeen(pod("c", 30)),
                Init(),
                InitApply(pod("a", 3)),
                InitDone("20"),
                ObjectSeen(pod("d", 21)),
                ObjectSeen(pod("b", 22)),
            ],
            {"a": AB["a"], "b": ("uid-b", 22), "d": ("uid-d", 21)},
        ),
        (
            [
                ObjectGone(pod("a", 12)),
                ObjectSeen(pod("a", 13, uid="new")),
                Init(),
                InitApply(pod("a", 3)),
                InitApply(pod("b", 4)),
                InitDone("20"),
            ],
            AB,
        ),
        (
            [Init(), InitApply(pod("a", 15, uid="new")), InitApply(pod("b", 4)), InitDone("20")],
            AB | {"a": ("new", 15)},
        ),
    ],
    ids=[
        "newer version",
        "older version",
        "deleted",
        "late event after a deletion",
        "late deletion, from before it entered a selector again",
        "unknown and older than what is known to be complete",
        "same name again",
        "same name again, deletion repeated",
        "relist drops what vanished",
        "until a relist is complete everything stays readable",
        "a relist of a restored cluster puts back what the cache saw later",
        "a relist of a restored cluster drops what is newer, and news of it count",
        "a relist of a restored cluster puts back an earlier uid",
        "relist finds another uid under the name",
    ],
)
def test_events(store: InformerCache, events: list[Any], expected: dict[str, Any]) -> None:
    for event in events:
        store.apply(FEED, event)
    assert held(store) == expected


def test_our_write_is_read_at_once_and_older_events_do_not_undo_it(store: InformerCache) -> None:
    store.note_write(pod("a", 14))
    store.apply(FEED, ObjectSeen(pod("a", 12)))
    assert held(store)["a"] == ("uid-a", 14)


def test_our_create_survives_a_relist_from_before_it(store: InformerCache) -> None:
    store.apply(FEED, Init())
    store.note_write(pod("c", 14))
    for event in (InitApply(pod("a", 3)), InitApply(pod("b", 4)), InitDone("12")):
        store.apply(FEED, event)
    assert held(store) == AB | {"c": ("uid-c", 14)}


def test_our_write_survives_a_relist_from_before_it(store: InformerCache) -> None:
    store.apply(FEED, Init())
    store.note_write(pod("a", 14))
    for event in (InitApply(pod("a", 3)), InitApply(pod("b", 4)), InitDone("12")):
        store.apply(FEED, event)
    assert held(store) == AB | {"a": ("uid-a", 14)}


def test_a_restored_cluster_takes_back_our_deletes(store: InformerCache) -> None:
    gone = {"kind": "Status", "status": "Success"}
    store.apply(FEED, ObjectSeen(pod("b", 30)))
    store.note_delete(key("a"), "uid-a", gone)
    store.note_delete(key("b"), "uid-b", gone)
    for event in (Init(), InitApply(pod("a", 3)), InitDone("20")):
        store.apply(FEED, event)
    assert held(store) == {"a": AB["a"]}
    assert not of_pods(store)._gone


def test_our_create_already_deleted_by_others_is_not_raised_from_the_dead(
    store: InformerCache,
) -> None:
    store.apply(FEED, ObjectSeen(pod("c", 12)))
    store.apply(FEED, ObjectGone(pod("c", 13)))
    store.note_write(pod("c", 12))
    assert held(store) == AB


def test_our_delete_is_remembered_until_the_watch_shows_it(store: InformerCache) -> None:
    store.note_delete(key("a"), "uid-a", {"kind": "Status", "status": "Success"})
    store.apply(FEED, ObjectSeen(pod("a", 12)))
    assert held(store) == {"b": AB["b"]}
    store.apply(FEED, ObjectGone(pod("a", 14)))
    assert not store._gone


def test_a_relist_ends_the_memory_of_our_deletes(store: InformerCache) -> None:
    store.note_delete(key("a"), "uid-a", {"kind": "Status", "status": "Success"})
    for event in (Init(), InitApply(pod("b", 4)), InitDone("20")):
        store.apply(FEED, event)
    assert not store._gone


def test_a_predecessor_of_our_create_does_not_come_back(store: InformerCache) -> None:
    store.note_write(pod("a", 20, uid="new"))
    store.note_delete(key("a"), "new", {"kind": "Status", "status": "Success"})
    store.apply(FEED, ObjectSeen(pod("a", 12)))
    assert held(store) == {"b": AB["b"]}
    store.apply(FEED, ObjectGone(pod("a", 13)))
    assert set(of_pods(store)._gone) == {"new"}


def test_a_relist_from_before_our_delete_does_not_end_its_memory(store: InformerCache) -> None:
    gone = {"kind": "Status", "status": "Success"}
    store.apply(FEED, Init())
    store.note_delete(key("a"), "uid-a", gone)
    store.note_write(pod("c", 13))
    store.note_delete(key("c"), "uid-c", gone)
    for event in (InitApply(pod("a", 3)), InitApply(pod("b", 4)), InitDone("12")):
        store.apply(FEED, event)
    for late in (pod("a", 13), pod("c", 13)):
        store.apply(FEED, ObjectSeen(late))
    assert held(store) == {"b": AB["b"]}


@pytest.mark.parametrize(
    ("meta", "remains"),
    [
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}, True),
        ({"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}, False),
        ({}, False),
    ],
    ids=["grace period", "finalizer", "no grace", "returned as it was"],
)
def test_a_deleted_object_that_lingers_stays(
    store: InformerCache, meta: dict[str, Any], remains: bool
) -> None:
    store.note_delete(key("a"), "uid-a", pod("a", 14, **meta))
    assert ("a" in held(store)) is remains


def test_kinds_nobody_follows_are_not_kept(store: InformerCache) -> None:
    store.note_write({**pod("a", 14), "kind": "Secret"})
    assert store.get(ObjectKey("", "Secret", "shop", "a")) is None


def test_owners_are_found_and_lost_with_their_references(store: InformerCache) -> None:
    store.apply(FEED, ObjectSeen(pod("b", 12, owners=("x", "y"))))
    store.apply(FEED, ObjectSeen(pod("a", 13, owners=("x",))))
    assert [p.name for p in store.pods_of("x", "shop")] == ["a", "b"]
    assert [o["metadata"]["name"] for o in store.owned("y", POD, "shop")] == ["b"]
    assert not store.pods_of("x", "elsewhere")
    store.apply(FEED, ObjectSeen(pod("b", 14, owners=("y",))))
    store.apply(FEED, ObjectGone(pod("a", 15)))
    assert not store.pods_of("x", "shop")
    assert set(of_pods(store)._owned) == {"y"}


def test_subscribers_receive_each_accepted_change_once(store: InformerCache) -> None:
    changes: list[StoreChange] = []
    end = store.subscribe(changes.append, frozenset({POD}))
    store.note_write(pod("a", 14))
    store.apply(FEED, ObjectSeen(pod("a", 14)))
    store.apply(FEED, ObjectSeen(pod("a", 20, uid="new")))
    end()
    store.apply(FEED, ObjectGone(pod("b", 30)))
    versions = [
        (c.before and (c.before.uid, c.before.version), c.after and (c.after.uid, c.after.version))
        for c in changes
    ]
    assert versions == [
        (("uid-a", 3), ("uid-a", 14)),
        (("uid-a", 14), None),
        (None, ("new", 20)),
    ]


def test_synced_means_every_kind_is_followed_and_listed(store: InformerCache) -> None:
    assert store.synced(frozenset({POD}))
    assert not store.synced(frozenset({POD, CONFIG_MAP}))
    store.follow(MAPS)
    assert not store.synced(frozenset({POD, CONFIG_MAP}))
    store.apply(MAPS, Init())
    store.apply(MAPS, InitDone("11"))
    assert store.synced(frozenset({POD, CONFIG_MAP}))


def test_a_feed_that_ends_keeps_its_objects_until_another_one_lists_them(
    store: InformerCache,
) -> None:
    store.unfollow(FEED)
    assert held(store) == AB
    assert not store.synced(frozenset({POD}))
    store.follow(FEED)
    for event in (Init(), InitApply(pod("a", 12)), InitDone("20")):
        store.apply(FEED, event)
    assert held(store) == {"a": ("uid-a", 12)}
    assert store.synced(frozenset({POD}))


def test_a_write_through_a_cache_is_read_in_the_one_below() -> None:
    below = InformerCache()
    below.follow(FEED)
    above, changes = LayeredCache(below, frozenset({POD})), list[StoreChange]()
    leave = above.subscribe(changes.append, frozenset({POD, CONFIG_MAP}))
    above.note_write(pod("a", 3, owners=("web",)))
    assert held(below) == {"a": ("uid-a", 3)}
    assert [found.name for found in above.pods_of("web", "shop")] == ["a"]
    assert above.key_of_uid("uid-a") == key("a")
    below.note_write(pod("a", 4))
    assert held(above) == {"a": ("uid-a", 4)}
    above.note_absent(key("a"), "uid-a")
    assert held(below) == {}
    leave()
    below.note_write(pod("b", 5))
    assert [(change.before, change.after) == (None, None) for change in changes] == [False] * 3


def test_managed_fields_go() -> None:
    obj = {**pod("a", 3, managedFields=[{"manager": "x"}]), "kind": "ConfigMap"}
    store = InformerCache()
    store.follow(MAPS)
    store.apply(MAPS, ObjectSeen(obj))
    assert "managedFields" not in store.objects(CONFIG_MAP, "shop")[0]["metadata"]
    assert obj["metadata"]["managedFields"]


def test_managed_fields_of_pods_kept_as_bytes_go_too() -> None:
    obj = pod("a", 3, managedFields=[{"manager": "x"}])
    store = InformerCache()
    store.follow(FEED)
    raw = RawObject(encode(obj), api_version="v1", kind="Pod")
    store.apply(FEED, ObjectSeen(raw))
    without = {k: v for k, v in obj["metadata"].items() if k != "managedFields"}
    assert store.objects(POD)[0] == {**obj, "metadata": without}
    (seen,) = store.all_seen(POD)
    assert isinstance(seen.obj, RawObject)
    assert b"managedFields" not in seen.obj.raw


ENTRIES: list[dict[str, Any]] = [
    {"manager": "gitkruise", "operation": "Apply", "fieldsV1": {"f:data": {}}},
    {"manager": "kubectl-edit", "operation": "Update", "fieldsV1": {"f:data": {"f:a": {}}}},
    {"manager": "gitkruise-status", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
    {"manager": "kubelet", "operation": "Update", "subresource": "status"},
    {"manager": "autoscaler", "operation": "Update", "subresource": "scale"},
]


@pytest.mark.parametrize(
    ("manager", "kept"),
    [(None, []), ("gitkruise", [0, 1, 2, 4]), ("kubectl-edit", [0, 1, 2, 4])],
    ids=["not asked for", "next to ours", "next to theirs"],
)
def test_entries_are_kept_those_of_the_applier_for_metadata(
    manager: str | None, kept: list[int]
) -> None:
    store = InformerCache(applier=manager)
    store.follow(MAPS)
    store.apply(MAPS, ObjectSeen({**pod("a", 3, managedFields=ENTRIES), "kind": "ConfigMap"}))
    (seen,) = store.all_seen(CONFIG_MAP)
    assert "managedFields" not in seen.obj["metadata"]
    expected = [ENTRIES[number] for number in kept]
    expected = [{**e, "fieldsV1": {}} if e["manager"] == manager else e for e in expected]
    assert (decode(seen.managed) if seen.managed else []) == expected


def test_equal_entries_of_the_applier_alone_are_kept_once() -> None:
    store = InformerCache(applier="gitkruise")
    store.follow(MAPS)
    for version, name, time in (
        (3, "a", "2026-11-20T10:00:00Z"),
        (4, "b", "2026-11-20T11:00:00Z"),
    ):
        entry = {**ENTRIES[0], "time": time, "fieldsV1": {"f:metadata": {}, "f:data": {}}}
        one = pod(name, version, uid=name, managedFields=[entry])
        store.apply(MAPS, ObjectSeen({**one, "kind": "ConfigMap"}))
    first, second = store.all_seen(CONFIG_MAP)
    assert first.managed
    assert first.managed is second.managed


def test_pods_kept_as_bytes_answer_like_dicts(store: InformerCache) -> None:
    before = store.objects(POD), list(store.pods_of("x", "shop"))
    other = InformerCache()
    other.follow(FEED)
    for obj in store.objects(POD):
        raw = RawObject(encode(obj), api_version="v1", kind="Pod")
        other.apply(FEED, ObjectSeen(raw))
    assert (other.objects(POD), list(other.pods_of("x", "shop"))) == before
    assert all(isinstance(s.obj, RawObject) for s in other.all_seen(POD))


def test_doubts_are_cleared_one_by_one(store: InformerCache) -> None:
    store.mark_uncertain(OWNER, key("a"))
    store.mark_uncertain(OWNER, key("b"))
    assert store.uncertain(OWNER) == (key("a"), key("b"))
    store.confirm(OWNER, key("a"))
    assert not store.fresh(OWNER)
    store.confirm(OWNER, key("b"))
    assert store.fresh(OWNER)
