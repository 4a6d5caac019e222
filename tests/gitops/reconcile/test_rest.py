"""A unit at rest: no round before its interval ends, unless something happens."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from tests.gitops.stage import MakeStage, Stage, config_map, web

pytestmark = pytest.mark.slow

INTERVAL_S = 600  # the default


def counted(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> list[datetime]:
    """The times at which rounds begin from now on."""
    rounds: list[datetime] = []
    play = stage.unit.guarded_round

    async def guarded_round() -> datetime | None:
        rounds.append(stage.clock.now())
        return await play()

    monkeypatch.setattr(stage.unit, "guarded_round", guarded_round)
    return rounds


def test_rounds_come_with_events_or_the_interval(
    staged: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), config_map("settings", mode="fast"))
            await stage.rest(120)
            assert stage.state == "Done"
            rounds = counted(stage, monkeypatch)
            await stage.rest(INTERVAL_S - 150)
            assert rounds == []
            seen = stage.unit.reconciled_at
            assert seen is not None
            assert stage.clock.now() - seen < timedelta(seconds=1), "nothing happened"
            await stage.rest(INTERVAL_S)
            assert len(rounds) == 1
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            assert len(rounds) > 1

    stage.play(script)


def test_a_cluster_that_falls_silent_is_reported_within_a_minute(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest(120)
            stage.wire.cut = True
            await stage.rest(60)
            assert stage.state == "Unknown"
            stage.wire.cut = False
            await stage.rest(120)
            assert stage.state == "Done"

    stage.play(script)
