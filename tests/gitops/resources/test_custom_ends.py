"""A unit that is deleted as an object of the cluster ends by its deletionPolicy."""

from __future__ import annotations

from typing import Any

import pytest

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
