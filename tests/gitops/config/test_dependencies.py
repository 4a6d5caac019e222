"""Units and objects wait for what they depend on, say for whom, and hold nobody else up."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.model.gitops.config import UnitSpec
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web

pytestmark = pytest.mark.slow

SETTINGS: Final = config_map("settings", mode="fast")


def second(stage: Stage, **depends: Any) -> tuple[UnitReconciler, Reporter]:
    """A unit `shop/app` over folder app/ that depends on the stage's own over folder db/."""
    spec = {"sourceRef": {"name": "src"}, "path": "app", "dependsOn": [{"name": "web", **depends}]}
    unit, reporter = stage.add_unit("shop/app", msgspec.convert(spec, UnitSpec))
    offer = stage.unit.offer

    def both(commit: str) -> None:
        offer(commit)
        unit.offer(commit)

    stage.follower._on_commit = both
    return unit, reporter


@pytest.mark.parametrize("partition", [0, 3], ids=["current", "held"])
def test_a_unit_waits_until_the_other_is_ready_and_held_is_ready(
    staged: MakeStage, partition: int
) -> None:
    stage = staged(path="db")
    app, reporter = second(stage)

    async def script() -> None:
        async with stage.running(app):
            await stage.push(db__app=documents(web()), app__a=documents(SETTINGS))
            await stage.rest(0.5)
            assert (stage.state, str(reporter.record.state)) == ("Rolling", "Waiting")
            assert reporter.record.message.startswith("waits for shop/web (Rolling, ")
            assert stage.get("ConfigMap", "settings") is None
            await stage.rest()
            assert str(reporter.record.state) == "Done"
            stage.wire.requests.clear()
            faster = documents(config_map("settings", mode="faster"))
            canary = documents(web("app:v2", partition=partition, maxUnavailable=1))
            await stage.push(db__app=canary, app__a=faster)
            await stage.rest()
            assert stage.wire.writes() == ["patch web", "patch settings"]
            assert str(reporter.record.state) == "Done"
            assert reporter.record.superseded == ()

    stage.play(script)


def test_a_commit_that_changes_nothing_of_a_unit_waits_for_nobody(staged: MakeStage) -> None:
    stage = staged(path="db")
    app, reporter = second(stage)

    async def script() -> None:
        async with stage.running(app):
            await stage.push(db__app=documents(web()), app__a=documents(SETTINGS))
            await stage.rest()
            slow = documents(web("app:v2", maxUnavailable=1))
            await stage.push(db__app=slow)
            await stage.rest(1)
            assert (stage.state, str(reporter.record.state)) == ("Rolling", "Done")

    stage.play(script)


def test_what_was_live_is_healed_while_the_next_commit_waits_also_after_a_restart(
    staged: MakeStage,
) -> None:
    stage = staged(path="db")
    app, reporter = second(stage)

    async def script() -> None:
        async with stage.running(app):
            await stage.push(db__app=documents(web()), app__a=documents(SETTINGS))
            await stage.rest()
            stuck = documents(web("app:broken-image"))
            faster = documents(config_map("settings", mode="faster"))
            await stage.push(db__app=stuck, app__a=faster)
            await stage.rest(1)
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            assert str(reporter.record.state) == "Waiting"
            await stage.rest(60)
        stage.start_over()
        again, second_reporter = second(stage)
        async with stage.running(again):
            await stage.follower.check()
            await stage.rest(1)
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            assert str(second_reporter.record.state) == "Waiting"
            await stage.push(db__app=documents(web("app:v2")))
            await stage.rest()
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "faster"}

    stage.play(script)


def test_ready_may_be_spelled_in_other_words(staged: MakeStage) -> None:
    stage = staged(path="db")
    app, reporter = second(stage, ready="updated >= 2")

    async def script() -> None:
        async with stage.running(app):
            await stage.push(
                db__app=documents(web(partition=0)), app__a=documents(SETTINGS), message="first"
            )
            await stage.rest()
            await stage.push(
                db__app=documents(web("app:v2", partition=3)),
                app__a=documents(config_map("settings", mode="faster")),
            )
            await stage.rest()
            assert reporter.record.message.startswith("waits for shop/web (Held, ")
            await stage.push(db__app=documents(web("app:v2", partition=2)))
            await stage.rest()
            assert str(reporter.record.state) == "Done"

    stage.play(script)


def test_an_object_waits_for_those_it_names_and_holds_nobody_up(staged: MakeStage) -> None:
    stage = staged()
    waits = {"config.kubernetes.io/depends-on": "apps.kruise.io/namespaces/shop/CloneSet/web"}
    after = config_map("after", waits, x="1")

    async def script() -> None:
        async with stage.running():
            await stage.push(after, web(), SETTINGS)
            await stage.rest()
            assert stage.wire.writes() == ["patch settings", "patch web", "patch after"]
            assert stage.state == "Done"

    stage.play(script)


MAP: Final = "/namespaces/shop/ConfigMap/"
KEY: Final = "gitkruise.io/depends-on"
ROWS: list[tuple[str, str, str, tuple[Any, ...]]] = [
    # row, code, words, objects
    ("no id", "GK2011", '"ConfigMap/b"', (config_map("a", {KEY: "ConfigMap/b"}),)),
    ("nobody", "GK2012", "ConfigMap shop/b, which", (config_map("a", {KEY: f"{MAP}b"}),)),
    ("later", "GK2013", "turn is later", (
        config_map("a", {KEY: f"{MAP}b"}), config_map("b", {"gitkruise.io/wave": "1"}))),
    ("circle", "GK2014", "shop/a → ConfigMap shop/b → ConfigMap shop/a", (
        config_map("a", {KEY: f"{MAP}b"}), config_map("b", {KEY: f"{MAP}a"}))),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_an_order_that_cannot_be_is_rejected(
    staged: MakeStage, row: tuple[str, str, str, tuple[Any, ...]]
) -> None:
    stage = staged()
    _, code, words, objects = row

    async def script() -> None:
        async with stage.running():
            await stage.push(*objects)
            await stage.rest()
            finding = stage.record.findings[0]
            assert (stage.state, finding.code) == ("Rejected", code)
            assert words in finding.message
            assert finding.places[0].line == 6
            assert stage.wire.writes() == []

    stage.play(script)
