"""The garbage collector by the cases OWN-1 to OWN-6; cycles, refusals, restarts."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.rules.request import DELETE, AdmissionRequest
from gitkruise.errors import Forbidden
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.garbage_collector import RETRY, GarbageCollector
from tests.world.api_client import CONFIG_MAPS, PODS, Api, config_map, owned_by, pod


def chain(api: Api) -> None:
    """top owns mid, mid owns two leaves; the second leaf does not block."""
    top = api.post(CONFIG_MAPS, config_map("top"))
    mid = api.post(CONFIG_MAPS, config_map("mid", ownerReferences=[owned_by(top)]))
    api.post(PODS, pod("leaf", ownerReferences=[owned_by(mid)]))
    api.post(PODS, pod("loose", ownerReferences=[owned_by(mid, blocks=False)]))


def left(api: Api) -> list[str]:
    return api.names(CONFIG_MAPS) + api.names(PODS)


@pytest.mark.parametrize("policy", ["Background", "Foreground", ""])
def test_own_1_2_dependents_follow(policy: str) -> None:
    api, collector = Api(), GarbageCollector()
    chain(api)
    collector.run(api.world, api.now)
    assert left(api) == ["mid", "top", "leaf", "loose"]
    api.delete(CONFIG_MAPS + "/top", {"propagationPolicy": policy} if policy else None)
    assert ("top" in left(api)) == (policy == "Foreground")
    assert collector.run(api.world, api.now) is None
    assert left(api) == []


def test_own_2_foreground_waits_for_what_blocks() -> None:
    api, collector = Api(), GarbageCollector()
    chain(api)
    held = {"metadata": {"finalizers": ["e.io/hold"]}}
    api.merge(PODS + "/leaf", held)
    api.merge(PODS + "/loose", held)
    api.delete(CONFIG_MAPS + "/top", {"propagationPolicy": "Foreground"})
    collector.run(api.world, api.now)
    assert left(api) == ["mid", "top", "leaf", "loose"]
    api.merge(PODS + "/leaf", {"metadata": {"finalizers": None}})
    collector.run(api.world, api.now)
    assert left(api) == ["loose"], "OWN-6: a dependent that does not block is not waited for"


def test_own_3_orphans_live_on() -> None:
    api, collector = Api(), GarbageCollector()
    chain(api)
    api.delete(CONFIG_MAPS + "/mid", {"propagationPolicy": "Orphan"})
    collector.run(api.world, api.now)
    assert left(api) == ["top", "leaf", "loose"]
    assert "ownerReferences" not in api.get(PODS + "/leaf")["metadata"]
    assert "finalizers" not in api.get(CONFIG_MAPS + "/top")["metadata"]


def wrong(owner: Obj, **change: Any) -> dict[str, Any]:
    return {**owned_by(owner), **change}


@pytest.mark.parametrize("change", [{"uid": "other"}, {"name": "other"}, {"kind": "Secret"}])
def test_own_4_an_owner_that_does_not_match_is_absent(change: Any) -> None:
    """STORE-8: a re-created owner of the same name neither rescues nor kills."""
    api = Api()
    owner = api.post(CONFIG_MAPS, config_map("owner"))
    api.post(PODS, pod("p", ownerReferences=[wrong(owner, **change)]))
    GarbageCollector().run(api.world, api.now)
    assert left(api) == ["owner"]


def test_owners_in_other_namespaces_are_absent() -> None:
    api = Api()
    elsewhere = CONFIG_MAPS.replace("default", "kube-system")
    owner = api.post(elsewhere, config_map("owner"))
    api.post(PODS, pod("p", ownerReferences=[owned_by(owner)]))
    GarbageCollector().run(api.world, api.now)
    assert left(api) == []


def test_an_owner_of_an_unknown_kind_keeps_its_dependents() -> None:
    api = Api()
    ref = {"apiVersion": "nobody.io/v1", "kind": "Thing", "name": "t", "uid": "u"}
    api.post(PODS, pod("p", ownerReferences=[ref]))
    GarbageCollector().run(api.world, api.now)
    assert left(api) == ["p"]


def test_own_5_the_other_owner_keeps_it() -> None:
    api, collector = Api(), GarbageCollector()
    owners = [api.post(CONFIG_MAPS, config_map(name)) for name in ("a", "b")]
    api.post(PODS, pod("p", ownerReferences=[owned_by(owner) for owner in owners]))
    api.delete(CONFIG_MAPS + "/a")
    collector.run(api.world, api.now)
    refs = api.get(PODS + "/p")["metadata"]["ownerReferences"]
    assert [ref["name"] for ref in refs] == ["b"]


def test_a_cycle_in_foreground_deletion_ends() -> None:
    api, collector = Api(), GarbageCollector()
    one = api.post(CONFIG_MAPS, config_map("one"))
    two = api.post(CONFIG_MAPS, config_map("two", ownerReferences=[owned_by(one)]))
    api.merge(CONFIG_MAPS + "/one", {"metadata": {"ownerReferences": [owned_by(two)]}})
    api.delete(CONFIG_MAPS + "/one", {"propagationPolicy": "Foreground"})
    collector.run(api.world, api.now)
    assert left(api) == []


def test_a_refused_deletion_is_tried_again() -> None:
    protected = {"leaf"}

    def admit(request: AdmissionRequest) -> Obj | None:
        if request.operation == DELETE and request.key.name in protected:
            raise Forbidden("protected")
        return request.obj

    api, collector = Api(World(load_catalog(), admit=admit)), GarbageCollector()
    chain(api)
    api.delete(CONFIG_MAPS + "/mid")
    due = collector.run(api.world, api.now)
    assert (due, left(api)) == (api.now + RETRY, ["top", "leaf"])
    protected.clear()
    assert collector.run(api.world, api.now + RETRY) is None
    assert left(api) == ["top"]


def test_a_new_collector_finds_old_garbage() -> None:
    """After a restart there is no journal to read."""
    api = Api()
    chain(api)
    api.delete(CONFIG_MAPS + "/top")
    twin = World(api.world.catalog)
    twin.restore(api.world.state.everything(), api.world.version)
    GarbageCollector().run(twin, api.now)
    assert left(Api(twin)) == []
