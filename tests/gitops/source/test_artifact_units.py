"""A unit that follows an artifact of a registry, also while the registry is away."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.source.poller import Polling
from gitkruise.model.gitops.config import UnitSpec
from gitkruise.sandbox.controllers import alongside
from tests.gitops.registry.artifacts import Pushed, Shelf, artifact
from tests.gitops.source.test_artifacts import Factory, bench, shelf
from tests.gitops.stage import MakeStage, config_map, documents

__all__ = ["bench", "shelf"]  # fixtures


def manifest(text: str, *more: str) -> Pushed:
    maps = [config_map("settings", text=text), *(config_map(name) for name in more)]
    return artifact({"deploy/app.yaml": documents(*maps)})


@pytest.mark.slow
def test_a_unit_follows_the_tag_and_keeps_what_is_live_while_the_registry_is_away(
    bench: Factory, shelf: Shelf, tmp_path: Path, staged: MakeStage
) -> None:
    one, two = manifest("one", "more"), manifest("two")
    shelf.push(one, "latest")
    source = bench(tmp_path / "state", shelf, interval="5s")
    stage = staged()
    stage.followed = source.repository
    spec = msgspec.convert({"sourceRef": {"name": "app"}, "path": "deploy"}, UnitSpec)
    unit, reporter = stage.add_unit("shop/app", spec)
    source.reader.clock = stage.clock
    follower = SourceFollower(
        source.source, source.repository, on_commit=unit.offer, on_problem=unit.source_problem,
        live=lambda: filter(None, [unit.live_commit]),
    )  # fmt: skip
    polling = Polling(source.repository, [follower], stage.clock, resolve=source.reader.resolve)

    def live() -> tuple[str, str]:
        obj = stage.get("ConfigMap", "settings")
        return obj["data"]["text"], obj["metadata"]["annotations"]["gitkruise.io/artifact"]

    async def script() -> None:
        async with stage.running(unit), alongside(polling.run()):
            await stage.rest(10)
            assert live() == ("one", f"{shelf.url}@{one.digest}")
            assert stage.get("ConfigMap", "more")
            assert follower.revision == f"latest@{one.digest}"
            shelf.push(two, "latest")
            await stage.rest(10)
            assert live() == ("two", f"{shelf.url}@{two.digest}")
            await stage.rest(10)
            assert stage.get("ConfigMap", "more") is None, "an artifact is all that is wanted"
            assert (str(reporter.record.state), reporter.record.findings) == ("Done", ())
            kept = dict(shelf.host.replies)
            shelf.host.replies.clear()
            for path in kept:
                shelf.host.replies[path] = (503, {}, b"")
            stage.meddle(config_map("settings", text="other"))
            await stage.rest(30)
            assert live()[0] == "two", "drift is corrected meanwhile"
            (finding,) = reporter.record.findings
            assert finding.code == "GK3109"
            assert dict(finding.notes)["since"].startswith("2026-")
            assert "still running" in dict(finding.notes)["unchanged"]
            shelf.host.replies.update(kept)
            shelf.push(one, "latest")
            await stage.rest(400)
            assert live()[0] == "one", "a tag is free to move back"
            assert reporter.record.findings == ()

    stage.play(script)
