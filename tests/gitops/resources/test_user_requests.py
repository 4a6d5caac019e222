"""Suspend, resume, reconcile: what a user's request writes, and what the controller makes of it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from gitkruise.errors import TimedOut
from gitkruise.gitops.resources.user_requests import (
    Target,
    confirmed,
    follow_round,
    read,
    ready_of,
    request_round,
    resume,
    suspend,
    suspension_of,
)
from gitkruise.model.gitops.config import Suspend
from gitkruise.wire.primitives.names import Obj
from tests.gitops.objects import House, play
from tests.gitops.stage import config_map
from tests.worlds import START

WEB = Target("Unit", "shop", "web")
SOURCE = Target("GitSource", "shop", "src")
LIMIT = ("1m", 60.0)
PAST, FUTURE = "2026-11-21T09:00:00Z", "2026-11-21T11:00:00Z"

SUSPENSIONS: list[tuple[Any, Suspend | None]] = [
    (None, None),
    (False, None),
    (True, Suspend()),
    ({}, Suspend()),
    ({"by": "dana", "reason": "fire"}, Suspend(by="dana", reason="fire")),
    ({"until": FUTURE}, Suspend(until=FUTURE)),
    ({"until": PAST}, None),
    ({"until": "tomorrow"}, Suspend(until="tomorrow")),
]


@pytest.mark.parametrize(("asked", "found"), SUSPENSIONS, ids=[str(row[0]) for row in SUSPENSIONS])
def test_suspensions_in_force(asked: Any, found: Suspend | None) -> None:
    spec = {} if asked is None else {"suspend": asked}
    assert suspension_of({"kind": "Unit", "spec": spec}, START) == found


REQUESTS = [
    ("", "a", "a", False),  # no request of ours
    ("b", "", "b", False),
    ("b", "a", "b", False),
    ("b", "b", "b", True),
    ("b", "c", "c", True),  # that of another user, which came later
    ("b", "b", "c", True),
    ("b", "a", "c", False),
]


@pytest.mark.parametrize(("value", "handled", "asked", "found"), REQUESTS)
def test_confirmations(value: str, handled: str, asked: str, found: bool) -> None:
    annotations = {"gitkruise.io/reconcile-at": asked}
    status = {"lastHandledReconcileAt": handled} if handled else {}
    obj: Obj = {"metadata": {"annotations": annotations}, "status": status}
    assert confirmed(obj, value) is found


async def reconciled(hands: House, target: Target) -> Obj:
    clock = hands.stage.clock
    value = await request_round(hands.hands, target, clock.now())
    return await follow_round(hands.hands, clock, target, value, LIMIT)


@pytest.mark.slow
def test_a_suspended_unit_takes_nothing_until_it_is_resumed(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web")
        await hands.rest()
        await suspend(hands.hands, WEB, Suspend(by="dana", reason="fire", until=FUTURE))
        await suspend(hands.hands, WEB, Suspend(by="eli"))
        assert hands.get("Unit", "web")["spec"]["suspend"] == {"by": "eli"}
        await hands.rest()
        commit = hands.push(web=[config_map("a", x="2")])
        await hands.rest()
        assert hands.stage.get("ConfigMap", "a")["data"] == {"x": "1"}
        left = await reconciled(hands, WEB)  # it returns, although nothing is confirmed
        assert "lastHandledReconcileAt" not in left["status"]
        await resume(hands.hands, WEB)
        assert "suspend" not in hands.get("Unit", "web")["spec"]
        await reconciled(hands, WEB)
        assert hands.stage.get("ConfigMap", "a")["data"] == {"x": "2"}
        assert hands.status("Unit", "web")["lastAppliedRevision"] == f"main@sha1:{commit}"

    play(hands, script)


@pytest.mark.slow
def test_a_reconciled_object_is_returned_as_it_is_after_the_round(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source(interval="1h")
        await hands.unit("web")
        await hands.rest()
        commit = hands.push(web=[config_map("a", x="2")])
        source = await reconciled(hands, SOURCE)
        assert source["status"]["revision"] == f"main@sha1:{commit}"
        unit = await reconciled(hands, WEB)
        assert unit["status"]["lastAppliedRevision"] == f"main@sha1:{commit}"
        assert ready_of(unit)["status"] == "True"

    play(hands, script)


def test_without_a_controller_a_request_times_out_and_stays(hands: House) -> None:
    async def script() -> None:
        await hands.unit("web")
        began = hands.stage.clock.now()
        with pytest.raises(TimedOut, match="no controller confirmed the round after 1m"):
            await reconciled(hands, WEB)
        assert (hands.stage.clock.now() - began).total_seconds() >= LIMIT[1]
        asked = (await read(hands.hands, WEB))["metadata"]["annotations"]
        assert datetime.fromisoformat(asked["gitkruise.io/reconcile-at"]) == began

    hands.stage.play(script)
