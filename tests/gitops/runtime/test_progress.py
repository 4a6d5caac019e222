"""How far one pass came: applied in part has its own ending."""

from __future__ import annotations

from gitkruise.errors import Forbidden, PartlyApplied
from gitkruise.gitops.runtime.progress import progress_of
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, config_map


def test_7_what_is_applied_in_part_names_what_is_not(staged: MakeStage) -> None:
    stage = staged()

    def denied(request: ApiRequest) -> Forbidden | None:
        late = request.name == "two" and request.verb == "patch" and "dryRun" not in request.params
        return Forbidden('configmaps "two" is forbidden') if late else None

    async def script() -> None:
        stage.wire.refuse = denied
        async with stage.running():
            await stage.push(config_map("one", a="b"), config_map("two", a="b"))
            await stage.rest(5)
            now, standings = stage.clock.now(), stage.around.standings
            found = progress_of(stage.unit, stage.reporter, stage.follower, standings, now)
            assert isinstance(found.error, PartlyApplied)
            assert (found.error.exit_code, found.applied) == (7, False)
            assert [f.object for f in found.error.findings] == ["ConfigMap shop/two"]
            assert stage.get("ConfigMap", "one")

    stage.play(script)
