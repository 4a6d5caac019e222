"""What happens by itself when a rollout fails: the rollback, pushed or proposed, and only once."""

from __future__ import annotations

import pytest

from gitkruise.errors import Finding, Severity
from gitkruise.gitops.actions.on_failure import FailureHandler
from tests.git.repos import run_git
from tests.gitops.actions.test_promotion_pulls import forge_of, shown
from tests.gitops.forges.forges import away, client, reply
from tests.gitops.promoted import promoting, written
from tests.gitops.stage import MakeStage, web


@pytest.mark.slow
def test_a_failed_rollout_is_rolled_back_by_a_push(staged: MakeStage) -> None:
    stage = staged(onFailure="revert-push")

    async def script() -> None:
        async with promoting(stage, None, FailureHandler):
            good = await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:bad", partition=2), message="bad")
            await stage.rest(3 * 60)
            assert written(stage) == ["first", "bad", f"web: roll back to {good[:7]}"]
            assert (stage.state, stage.images()) == ("Done", ["app:v1"] * 4)
            assert stage.record.findings == ()
            await stage.rest(5 * 60)
            assert len(written(stage)) == 3

    stage.play(script)


@pytest.mark.slow
@pytest.mark.parametrize("hours", [1, -1], ids=["ahead", "back"])
def test_a_set_clock_shortens_no_grace(staged: MakeStage, hours: int) -> None:
    """Stuck may still mend by itself, for 10 s that pass."""
    stage = staged(onFailure="revert-push")

    async def script() -> None:
        async with promoting(stage, None, FailureHandler):
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:bad", partition=2), message="bad")
            while stage.state != "Stuck":
                await stage.rest(1)
            stage.clock.step(hours * 3600)
            news = Finding(code="GK2405", message="news", severity=Severity.WARNING)
            stage.reporter.remark("news", news)
            await stage.rest(6)
            assert written(stage) == ["first", "bad"]
            await stage.rest(60)
            assert len(written(stage)) == 3

    stage.play(script)


@pytest.mark.slow
def test_a_failed_rollout_gets_one_pull_request_over_restarts(staged: MakeStage) -> None:
    stage = staged(onFailure="revert-pr")
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock), FailureHandler):
            await stage.push(web(), message="first @dana <img src=x>")
            await stage.rest()
            bad = await stage.push(web("app:bad"), message="bad")
            await stage.rest(2 * 60)
            assert shown(model) == [(f"gitkruise/revert/test/shop/web/web-{bad[:7]}", "open")]
            body = model.pulls[1]["body"]
            assert "first" in body
            assert "@dana" not in body
            assert "\\<img" in body
            trailers = "Gitkruise-Action: rollback\nGitkruise-Unit: shop/web\n"
            assert body.rpartition("\n\n")[2].startswith(trailers)
        stage.start_over()
        async with promoting(stage, client(model, stage.clock), FailureHandler):
            await stage.rest(2 * 60)
            (finding,) = stage.record.findings
            assert (finding.code, finding.severity) == ("GK3505", "warning")
            assert "the rollback is proposed: https://" in finding.message
            assert dict(finding.notes)["next"].startswith("merge https://")
            assert [state for _, state in shown(model)] == ["open"]
            assert (stage.state, len(written(stage))) == ("Stuck", 2)
            model.end_pull(1, "closed")
            await stage.rest(60)
            (finding,) = stage.record.findings
            assert dict(finding.notes)["next"] == "gitkruise rollback cloneset/web -n shop"
            assert "the pull request of its rollback was closed: https://" in finding.message
            model.pulls[1]["state"] = "open"
            await stage.rest(60)
            assert "the rollback is proposed: https://" in stage.record.findings[0].message
            model.end_pull(1, "merged", model.on_merge(1))
            await stage.rest(2 * 60)
            assert (stage.state, stage.images()) == ("Done", ["app:v1"] * 4)
            assert stage.record.findings == ()

    stage.play(script)


@pytest.mark.slow
def test_a_rollback_is_logged_as_proposed_when_the_forge_has_it(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = staged(onFailure="revert-pr")
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock), FailureHandler):
            await stage.push(web(), message="first")
            await stage.rest()
            model.fails = lambda method, _: reply(403, {}) if method == "POST" else None
            await stage.push(web("app:bad"), message="bad")
            await stage.rest(2 * 60)
            assert "cannot be prepared" in stage.record.findings[0].message
            assert "rollback-proposed" not in caplog.text
            model.fails = lambda _method, _path: None
            await stage.rest(3 * 60)
            assert [state for _, state in shown(model)] == ["open"]
            assert caplog.text.count("rollback-proposed") == 1

    stage.play(script)


@pytest.mark.slow
def test_only_older_rollbacks_of_the_same_object_give_way(staged: MakeStage) -> None:
    stage = staged(onFailure="revert-pr")
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock), FailureHandler):
            good = await stage.push(web(), message="first")
            await stage.rest()
            run_git(stage.origin.bare, "branch", "gitkruise/revert/test/shop/web/db-0000000", good)
            model.open_pull(1, good, branch="gitkruise/revert/test/shop/web/db-0000000")
            await stage.push(web("app:bad", partition=2), message="bad")
            await stage.rest(2 * 60)
            await stage.push(web("app:broken", partition=2), message="worse")
            await stage.rest(2 * 60)
            assert [state for _, state in shown(model)] == ["open", "closed", "open"]
            assert "Overtaken by #3" in model.comments[2][0]["body"]

    stage.play(script)


@pytest.mark.slow
def test_the_rollback_of_a_unit_that_recovered_is_withdrawn_and_proposed_again(
    staged: MakeStage,
) -> None:
    stage = staged(onFailure="revert-pr")
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock), FailureHandler):
            await stage.push(web(), message="first")
            await stage.rest()
            bad = await stage.push(web("app:bad", partition=2), message="bad")
            await stage.rest(2 * 60)
            assert [state for _, state in shown(model)] == ["open"]
            await stage.push(web("app:v3"), message="mended")
            await stage.rest(4 * 60)
            assert stage.state == "Done"
            assert [state for _, state in shown(model)] == ["open"], "it may fail again"
            await stage.rest(3 * 60)
            assert [state for _, state in shown(model)] == ["closed"]
            (comment,) = model.comments[1]
            assert "shop/web is Done at" in comment["body"]
            assert model.pulls[1]["title"].startswith("Withdrawn: web: roll back to")
            assert bad[:7] in model.pulls[1]["branch"]
            assert stage.record.findings == ()

    stage.play(script)


@pytest.mark.slow
def test_a_silent_forge_is_reported_for_what_it_was_asked(staged: MakeStage) -> None:
    stage = staged(onFailure="revert-pr")
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock), FailureHandler):
            model.fails = away
            await stage.push(web(), message="first")
            await stage.rest(6 * 60)
            (finding,) = stage.record.findings
            assert stage.state == "Done"
            assert "rollbacks that are over cannot be withdrawn: " in finding.message
            assert dict(finding.notes)["next"].startswith("check that the forge answers")
            model.fails = lambda _method, _path: None
            bad = await stage.push(web("app:bad"), message="bad")
            await stage.rest(5 * 60)
            assert "the rollback is proposed" in stage.record.findings[0].message
            model.fails = away
            await stage.rest(2 * 60)
            branch = f"gitkruise/revert/test/shop/web/web-{bad[:7]}"
            message = f"the pull request of {branch} cannot be read: "
            assert message in stage.record.findings[0].message

    stage.play(script)


@pytest.mark.slow
def test_a_second_failure_in_a_row_goes_back_over_the_first(staged: MakeStage) -> None:
    stage = staged(onFailure="revert-pr")
    model = forge_of(stage)

    async def script() -> None:
        async with promoting(stage, client(model, stage.clock), FailureHandler):
            good = await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:bad"), message="bad")
            await stage.rest(2 * 60)
            await stage.push(web("app:broken"), message="worse")
            await stage.rest(2 * 60)
            assert [state for _, state in shown(model)] == ["closed", "open"]
            model.end_pull(2, "merged", model.on_merge(2))
            await stage.rest(2 * 60)
            assert f"web: roll back to {good[:7]}" in written(stage)
            assert (stage.state, stage.images()) == ("Done", ["app:v1"] * 4)

    stage.play(script)


@pytest.mark.slow
def test_without_anything_to_go_back_to_people_are_notified(staged: MakeStage) -> None:
    stage = staged(onFailure="revert-push")

    async def script() -> None:
        async with promoting(stage, None, FailureHandler):
            await stage.push(web("app:bad"), message="the first is bad")
            await stage.rest(5 * 60)
            assert len(written(stage)) == 1
            found = [f.message for f in stage.record.findings if f.code == "GK3505"]
            assert "git contains no earlier template of it" in found[0]
            await stage.push(web(), message="mended")
            await stage.rest(5 * 60)
            assert (stage.state, len(written(stage)), stage.record.findings) == ("Done", 2, ())

    stage.play(script)


@pytest.mark.slow
def test_what_people_push_meanwhile_comes_first(staged: MakeStage) -> None:
    stage = staged(onFailure="revert-push")

    async def script() -> None:
        async with promoting(stage, None, FailureHandler):
            await stage.push(web(), message="first")
            await stage.rest()
            await stage.push(web("app:bad"), message="bad")
            await stage.rest(8)
            await stage.push(web("app:v3"), message="mended")
            await stage.rest(3 * 60)
            assert written(stage) == ["first", "bad", "mended"]
            assert (stage.state, stage.images()) == ("Done", ["app:v3"] * 4)

    stage.play(script)
