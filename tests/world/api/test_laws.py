"""The model cluster against a dict: versions, uids, locks, watches, dry runs."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.requests import WatchEvent
from gitkruise.world.api.cluster import World
from tests.world.api_client import CONFIG_MAPS, Api, config_map

NAMES = st.sampled_from(["a", "b", "c"])
DATA = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), min_size=1)
LABELS = st.sampled_from([None, {"tier": "web"}, {"tier": "db"}])
SEED_WORLD = Api().world  # made once: a fork is cheap and as good


class ClusterAgainstDict(RuleBasedStateMachine):
    """`model` is name -> (data, labels); all else the cluster claims is checked on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.api = Api(world=SEED_WORLD.fork())
        self.model: dict[str, tuple[Any, Any]] = {}
        self.uids: set[str] = set()
        self.start = self.api.world.version
        self.views: dict[str, dict[str, Any]] = {"": {}, "labelSelector=tier%3Dweb": {}}
        self.positions = dict.fromkeys(self.views, self.start)
        self.last_reported = dict.fromkeys(self.views, self.start)

    def url(self, name: str) -> str:
        return f"{CONFIG_MAPS}/{name}"

    def moved(self, before: int, code: int, *, changes: bool) -> None:
        """STORE-1, STORE-10, STORE-15: a version for a change, none for anything else."""
        assert (self.api.world.version > before) == (changes and code < 300)

    @rule(name=NAMES, data=DATA, labels=LABELS)
    def create(self, name: str, data: Any, labels: Any) -> None:
        before = self.api.world.version
        code, body = self.api.answer("POST", CONFIG_MAPS, config_map(name, data, labels=labels))
        assert code == (409 if name in self.model else 201)
        self.moved(before, code, changes=True)
        if code == 201:
            assert body["metadata"]["uid"] not in self.uids, "STORE-7: a uid never returns"
            self.uids.add(body["metadata"]["uid"])
            self.model[name] = (data, labels)

    @rule(name=NAMES, data=DATA)
    def patch(self, name: str, data: Any) -> None:
        before = self.api.world.version
        old = self.model.get(name)
        code, _ = self.api.answer(
            "PATCH", self.url(name), {"data": data}, "application/merge-patch+json"
        )
        assert code == (200 if old else 404)
        merged = {**old[0], **data} if old else None
        self.moved(before, code, changes=bool(old) and merged != old[0] if old else True)
        if old:
            self.model[name] = (merged, old[1])

    @rule(name=NAMES, data=DATA, labels=LABELS)
    def put(self, name: str, data: Any, labels: Any) -> None:
        before, old = self.api.world.version, self.model.get(name)
        code, _ = self.api.answer("PUT", self.url(name), config_map(name, data, labels=labels))
        assert code == (200 if old else 404)
        self.moved(before, code, changes=old != (data, labels))
        if old:
            self.model[name] = (data, labels)

    @rule(name=NAMES, data=DATA)
    def stale_put(self, name: str, data: Any) -> None:
        """STORE-3: a wrong version or uid is a 409 without effect."""
        before = self.api.world.version
        code = 0
        for lock in ({"resourceVersion": "1"}, {"uid": "somebody-else"}):
            code = self.api.code("PUT", self.url(name), config_map(name, data, **lock))
            assert code == (409 if name in self.model else 404)
        self.moved(before, code, changes=False)

    @rule(name=NAMES, data=DATA)
    def rehearse(self, name: str, data: Any) -> None:
        """STORE-10: dryRun leaves no trace, whatever it answers."""
        before, stored = self.api.world.version, list(self.api.world.state.everything())
        self.api.code("POST", CONFIG_MAPS + "?dryRun=All", config_map(name, data))
        self.api.code("DELETE", self.url(name) + "?dryRun=All")
        url = self.url(name) + "?fieldManager=m&force=true&dryRun=All"
        self.api.code("PATCH", url, config_map(name, data), "application/apply-patch+yaml")
        assert self.api.world.version == before
        assert list(self.api.world.state.everything()) == stored

    @rule(name=NAMES)
    def apply_twice(self, name: str) -> None:
        """STORE-11: the same apply again changes nothing."""
        sent = config_map(name, {"x": "9"})
        first = self.api.apply(self.url(name), sent, force=True)
        before = self.api.world.version
        assert self.api.apply(self.url(name), sent) == first
        assert self.api.world.version == before
        self.uids.add(first["metadata"]["uid"])
        known = self.model.get(name, ({}, None))
        # what an earlier apply set and this one does not stays: all applies here set x alone
        self.model[name] = ({**known[0], "x": "9"}, known[1])

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        before = self.api.world.version
        code = self.api.code("DELETE", self.url(name))
        assert code == (200 if name in self.model else 404)
        self.moved(before, code, changes=True)
        self.model.pop(name, None)

    @rule()
    def restart(self) -> None:
        """STORE-1, STORE-5: everything survives being written down and read back."""
        world = self.api.world
        twin = World(world.catalog)
        twin.restore(world.state.everything(), world.version)
        assert list(twin.state.everything()) == list(world.state.everything())
        assert twin.version == world.version

    @rule(which=st.sampled_from(["", "labelSelector=tier%3Dweb"]))
    def catch_up(self, which: str) -> None:
        """WATCH-1 to WATCH-4, WATCH-7: resuming delivers each matching change once, in order."""
        events, self.positions[which] = self.api.watch(
            f"{CONFIG_MAPS}?{which}", self.positions[which]
        )
        for event in events:
            version = int(event.object["metadata"]["resourceVersion"])
            assert version > self.last_reported[which]
            self.last_reported[which] = version
            self.note(self.views[which], event)
        assert self.views[which] == {
            item["metadata"]["name"]: item.get("data")
            for item in self.api.get(f"{CONFIG_MAPS}?{which}")["items"]
        }

    def note(self, view: dict[str, Any], event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        assert (event.type == "ADDED") == (name not in view)
        if event.type == "DELETED":
            del view[name]
        else:
            view[name] = event.object["data"]

    @invariant()
    def same_as_the_dict(self) -> None:
        listed = self.api.world.objects(GroupKind("", "ConfigMap"), "default")
        assert [(o["metadata"]["name"], o["data"]) for o in listed] == [
            (name, self.model[name][0]) for name in sorted(self.model)
        ]


ClusterAgainstDict.TestCase.settings = settings(stateful_step_count=25, max_examples=40)
TestClusterAgainstDict = ClusterAgainstDict.TestCase
