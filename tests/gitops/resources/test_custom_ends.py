"""A unit that is deleted as an object of the cluster ends by its deletionPolicy."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.gitops.resources.declared import FINALIZER
from gitkruise.gitops.resources.informers import CustomResources
from gitkruise.wire.primitives.names import OWN_GROUP, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from tests.gitops.objects import House, play
from tests.gitops.stage import config_map

ENDS: list[tuple[str, dict[str, Any], bool]] = [
    ("MirrorPrune", {}, False),
    ("MirrorPrune of what prunes nothing", {"prune": {"enabled": False}}, True),
    ("Delete", {"prune": {"enabled": False, "deletionPolicy": "Delete"}}, False),
    ("WaitForTermination", {"prune": {"deletionPolicy": "WaitForTermination"}}, False),
    ("Orphan", {"prune": {"deletionPolicy": "Orphan"}}, True),
    ("suspended", {"suspend": True}, True),
]


@pytest.mark.parametrize(
    "row",
    [ENDS[0], *(pytest.param(row, marks=pytest.mark.slow) for row in ENDS[1:])],
    ids=[row[0] for row in ENDS],
)
def test_a_deleted_unit_ends_as_it_says(
    hands: House, row: tuple[str, dict[str, Any], bool]
) -> None:
    _, spec, stays = row
    hands.push(web=[config_map("a", x="1"), config_map("b", x="1")], other=[config_map("c", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.unit("other")
        await hands.rest()
        await hands.unit("web", **spec)
        await hands.rest()
        await hands.ask("delete", "Unit", "web")
        await hands.rest()
        assert hands.get("Unit", "web") is None
        assert hands.has("a", "b", "c") == [stays, stays, True]
        await hands.unit("web")  # and it may come back
        await hands.rest()
        assert hands.says("Unit", "web") == ("True", "Succeeded")

    play(hands, script)


@pytest.mark.slow
def test_a_unit_deleted_while_nobody_ran_is_ended_at_the_next_start(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.rest()

    async def later(hands: House) -> None:
        await hands.rest()
        assert hands.get("Unit", "web") is None
        assert hands.has("a") == [False]

    play(hands, script)
    assert hands.has("a") == [True]  # the end of a process is not the end of its units

    async def delete() -> None:
        await hands.ask("delete", "Unit", "web")

    hands.stage.play(delete)
    assert hands.get("Unit", "web")["metadata"]["deletionTimestamp"]
    play(hands, later)


@pytest.mark.slow
def test_more_than_the_limit_stays_until_somebody_says_so(hands: House) -> None:
    many = [config_map(f"a{number}", x="1") for number in range(4)]
    hands.push(web=many)

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web", prune={"maxDelete": 3})
        await hands.rest()
        await hands.ask("delete", "Unit", "web")
        await hands.rest()
        assert hands.has("a0", "a3") == [True, True]
        assert hands.says("Unit", "web") == ("False", "Terminating")
        assert "more than prune.maxDelete (3)" in hands.message("Unit", "web")
        await hands.unit("web", prune={"maxDelete": 3, "deletionPolicy": "Delete"})
        await hands.rest()
        assert hands.get("Unit", "web") is None
        assert hands.has("a0", "a3") == [False, False]

    play(hands, script)


def test_a_unit_is_released_at_the_first_try_whatever_was_written_meanwhile(
    hands: House, caplog: pytest.LogCaptureFixture
) -> None:
    hands.push(web=[config_map("a", x="1")])
    key = ObjectKey(OWN_GROUP, "Unit", "shop", "web")
    tries: list[ApiRequest] = []

    def meanwhile(request: ApiRequest) -> None:
        """Another write, just before our finalizer is taken off."""
        obj = hands.stage.world.get(key)
        if request.resource.plural != "units" or "finalizers" not in str(request.body):
            return
        if obj is None or not obj["metadata"].get("deletionTimestamp"):
            return
        tries.append(request)
        if len(tries) == 1:
            meta = {"name": "web", "namespace": "shop", "annotations": {"a": "b"}}
            hands.stage.meddle(
                {"apiVersion": f"{OWN_GROUP}/v1alpha1", "kind": "Unit", "metadata": meta}
            )

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.rest()
        hands.stage.wire.refuse = meanwhile
        await hands.ask("delete", "Unit", "web")
        await hands.rest()
        assert hands.get("Unit", "web") is None
        assert len(tries) == 1

    play(hands, script)
    assert "is tried again" not in caplog.text


def test_a_finalizer_that_moved_in_its_list_is_found(hands: House) -> None:
    async def script() -> None:
        await hands.unit("web")
        await hands.ask(
            "patch", "Unit", "web", {"metadata": {"finalizers": [FINALIZER]}},
            content_type=MERGE_PATCH,
        )  # fmt: skip
        await hands.stage.live.discover()
        seen = hands.get("Unit", "web")
        stale = {**seen, "metadata": {**seen["metadata"], "finalizers": ["a.com/b", FINALIZER]}}
        await CustomResources(hands.stage.live, hands.stage.clock).release(stale)
        assert not hands.get("Unit", "web")["metadata"].get("finalizers")

    hands.stage.play(script)
