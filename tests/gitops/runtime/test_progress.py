"""How far one pass came: applied in part has its own ending."""

from __future__ import annotations

import msgspec

from gitkruise.errors import Forbidden, PartlyApplied
from gitkruise.gitops.runtime.progress import progress_of
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, config_map, documents


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


def test_a_pass_waits_for_deletions_that_another_unit_holds_for_a_moment(
    staged: MakeStage,
) -> None:
    stage = staged(path="a")
    other, _ = stage.add_unit("shop/other", msgspec.structs.replace(stage.spec, path="b"))
    keep, goes = config_map("keep", a="b"), config_map("goes", a="b")

    def applied() -> bool:
        now, standings = stage.clock.now(), stage.around.standings
        return progress_of(stage.unit, stage.reporter, stage.follower, standings, now).applied

    async def script() -> None:
        async with stage.running():  # the other unit is slow: it does not run yet
            for objects in ((keep, goes), (keep,)):
                files = {
                    "a/app.yaml": documents(*objects),
                    "b/app.yaml": documents(config_map("b")),
                }
                other.offer(stage.origin.commit(files))
                await stage.follower.check()
                await stage.rest()
            assert (stage.state, stage.record.findings) == ("Rolling", ())
            held = "unit shop/other shares the source and has not taken this commit"
            assert stage.record.message == f"ConfigMap shop/goes left git: {held}"
            assert not applied()
            stage.around.standings.busy(other.unit.id, with_news=False)
            assert applied(), "one that reads nothing is not waited for"

    stage.play(script)
