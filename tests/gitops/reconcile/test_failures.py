"""Silence and surprises: no crash, no deletes, and on it goes when they are over."""

from __future__ import annotations

import msgspec
import pytest

from gitkruise.errors import (
    ApiError,
    Forbidden,
    InternalError,
    NotLeading,
    TooManyRequests,
    Unauthorized,
)
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.git.repos import run_git
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

SETTINGS = config_map("settings", mode="fast")
CONFIG_MAPS = ResourceRef("", "v1", "configmaps")


def test_a_silent_cluster_is_reported_and_asked_again_until_it_answers(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS)
            await stage.rest()
            stage.wire.cut = True
            await stage.push(web("app:v2"), SETTINGS)
            asked = len(stage.wire.requests)
            await stage.rest(600)
            assert stage.state == "Unknown"
            assert {f.code for f in stage.record.findings} == {"GK4102", "GK4103"}
            new = stage.wire.requests[asked:]  # pauses grow; a limit of 1 is in place of a watch
            assert len([r for r in new if r.params.get("limit") != "1"]) < 200
            stage.wire.cut = False
            await stage.rest(120)
            assert stage.state == "Done"
            assert stage.images() == ["app:v2"] * 4

    stage.play(script)


def test_a_start_without_a_cluster_waits_for_it(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            stage.wire.cut = True
            await stage.push(web())
            await stage.rest(300)
            assert stage.state == "Unknown"
            stage.wire.cut = False
            await stage.rest(120)
            assert stage.state == "Done"

    stage.play(script)


def test_an_unreadable_repository_changes_nothing_and_is_reported_once(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS)
            await stage.rest()
            run_git(stage.origin.bare, "update-ref", "-d", "refs/heads/main")
            for _ in range(5):
                await stage.follower.check()
                await stage.rest()
            assert stage.state == "Done"  # of what is live
            assert stage.record.findings[0].code == "GK3201"
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            count = len(stage.diary())
            await stage.push(web("app:v2"), SETTINGS)
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.images() == ["app:v2"] * 4
            assert len(stage.diary()) > count

    stage.play(script)
    assert not any(w.startswith("delete") for w in stage.wire.writes())


def test_a_start_without_the_remote_heals_what_is_live(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
        run_git(stage.origin.bare, "update-ref", "refs/heads/kept", "refs/heads/main")
        run_git(stage.origin.bare, "update-ref", "-d", "refs/heads/main")
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert stage.record.findings[0].code == "GK3201"
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}

    stage.play(script)
    assert not any(w.startswith("delete") for w in stage.wire.writes())


async def rewritten(stage: Stage, onto: str) -> None:
    """A user pushes another history on top of `onto`."""
    run_git(stage.origin.work, "reset", "--hard", "-q", onto)
    run_git(stage.origin.bare, "update-ref", "refs/heads/main", onto)
    await stage.push(web("app:v3"), SETTINGS)
    await stage.rest()


@pytest.mark.parametrize("restarted", [False, True])
def test_a_rewritten_branch_stops_until_it_is_put_back(
    staged: MakeStage, *, restarted: bool
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            first = await stage.push(web(), SETTINGS)
            good = await stage.push(web("app:v2"), SETTINGS)
            await stage.rest()
        if restarted:
            stage.start_over()
        async with stage.running():
            await rewritten(stage, first)
            assert (stage.state, stage.record.findings[-1].code) == ("Rejected", "GK3204")
            assert stage.images() == ["app:v2"] * 4
            run_git(stage.origin.bare, "update-ref", "refs/heads/main", good)
            stage.offered.clear()
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert {str(record.state) for record in stage.offered} == {"Done"}
            assert stage.images() == ["app:v2"] * 4

    stage.play(script)


def test_a_rewrite_that_drops_a_rollout_in_progress_stops_after_a_restart(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            first = await stage.push(web(), SETTINGS)
            await stage.rest()
            await stage.push(web("app:broken"), SETTINGS)
            await stage.rest()
            assert stage.state == "Stuck"
        stage.start_over()
        async with stage.running():
            await rewritten(stage, first)
            assert (stage.state, stage.record.findings[-1].code) == ("Rejected", "GK3204")

    stage.play(script)


def test_a_rewrite_that_a_person_agreed_to_is_followed_and_the_next_is_not(
    staged: MakeStage,
) -> None:
    stage = staged()

    def rewritten(to: str) -> None:
        run_git(stage.origin.work, "reset", "--hard", "-q", to)
        run_git(stage.origin.bare, "update-ref", "refs/heads/main", to)

    async def script() -> None:
        async with stage.running():
            first = await stage.push(web(), SETTINGS)
            await stage.push(web("app:v2"), SETTINGS)
            await stage.rest()
            rewritten(first)
            accepted = await stage.push(web("app:v3"), SETTINGS)
            await stage.rest()
            assert stage.state == "Rejected"
        stage.accepted = accepted
        stage.start_over()
        async with stage.running():
            await stage.push(web("app:v4"), SETTINGS)  # on top of what was agreed to
            await stage.rest()
            assert (stage.state, stage.images()) == ("Done", ["app:v4"] * 4)
            rewritten(accepted)
            await stage.push(web("app:v5"), SETTINGS)
            await stage.rest()
            assert (stage.state, stage.record.findings[-1].code) == ("Rejected", "GK3204")
            assert stage.images() == ["app:v4"] * 4

    stage.play(script)


def test_a_rejected_commit_may_be_taken_back_by_rewriting(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            good = await stage.push(web(), SETTINGS)
            await stage.rest()
            await stage.push({**web(), "spce": {}}, SETTINGS)
            await stage.rest()
            assert stage.state == "Rejected"
            run_git(stage.origin.work, "reset", "--hard", "-q", good)
            run_git(stage.origin.bare, "update-ref", "refs/heads/main", good)
            await stage.push(web("app:v2"), SETTINGS)
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.images() == ["app:v2"] * 4

    stage.play(script)


def test_a_refusal_is_not_repeated_until_time_has_passed(staged: MakeStage) -> None:
    stage = staged()

    def no_rights(request: ApiRequest) -> Forbidden | None:
        denied = request.name == "settings" and request.verb == "patch"
        return Forbidden("no patch on configmaps") if denied else None

    async def script() -> None:
        async with stage.running():
            stage.wire.refuse = no_rights
            await stage.push(web(), SETTINGS)
            await stage.rest(25)
            assert (stage.state, stage.record.findings[0].code) == ("Rejected", "GK4301")
            assert stage.wire.writes(dry=True) == ["patch web", "patch settings"]
            assert stage.wire.writes() == []
            stage.wire.refuse = lambda _: None  # somebody gave us the right, without a commit
            await stage.rest(30)
            assert stage.state == "Done"

    stage.play(script)


def test_expired_credentials_are_no_word_against_a_commit(staged: MakeStage) -> None:
    stage = staged()

    def expired(request: ApiRequest) -> Unauthorized | None:
        return Unauthorized("Unauthorized") if request.verb in {"patch", "delete"} else None

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS)
            await stage.rest()
            stage.wire.refuse = expired
            await stage.push(web("app:v2"))
            await stage.rest(30)
            assert (stage.state, stage.record.findings[0].code) == ("Unknown", "GK4102")
            stage.wire.refuse = lambda _: None
            await stage.rest(90)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("ConfigMap", "settings") is None

    stage.play(script)


def test_a_clock_that_is_set_back_puts_off_no_next_try(staged: MakeStage) -> None:
    stage = staged()

    def no_rights(request: ApiRequest) -> Forbidden | None:
        denied = request.name == "settings" and request.verb == "patch"
        return Forbidden("no patch on configmaps") if denied else None

    async def script() -> None:
        async with stage.running():
            stage.wire.refuse = no_rights
            await stage.push(web(), SETTINGS)
            await stage.rest(10)
            assert stage.state == "Rejected"
            stage.wire.refuse = lambda _: None
            stage.clock.step(-6 * 3600)
            await stage.rest(150)
            assert stage.state == "Done"

    stage.play(script)


def test_a_refusal_past_the_dry_run_stops_what_comes_after_and_every_delete(
    staged: MakeStage,
) -> None:
    stage = staged()
    old = config_map("old", a="b")

    def not_now(request: ApiRequest) -> Forbidden | None:
        wet = request.verb == "patch" and "dryRun" not in request.params
        return Forbidden("quota") if wet and request.name == "settings" else None

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS, old)
            await stage.rest()
            stage.wire.refuse = not_now
            await stage.push(web("app:v2"), config_map("settings", mode="slow"))
            await stage.rest(60)
            assert (stage.state, stage.record.findings[0].code) == ("Stuck", "GK4301")
            assert stage.images() == ["app:v1"] * 4
            assert stage.get("ConfigMap", "old")
            stage.wire.refuse = lambda _: None
            await stage.rest(180)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.images() == ["app:v2"] * 4
            assert stage.get("ConfigMap", "old") is None

    stage.play(script)


def test_a_server_error_is_tried_again_soon(staged: MakeStage) -> None:
    stage = staged()
    left = [3]

    def flaky(request: ApiRequest) -> InternalError | None:
        if request.name != "web" or "dryRun" in request.params or not left[0]:
            return None
        left[0] -= 1
        return InternalError("etcd leader changed")

    async def script() -> None:
        async with stage.running():
            stage.wire.refuse = flaky
            await stage.push(web())
            await stage.rest(30)
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_a_lease_that_is_lost_and_taken_again_is_no_finding_of_an_object(staged: MakeStage) -> None:
    stage, records = staged(), list[UnitRecord]()
    refused = list[str]()

    def paused(request: ApiRequest) -> NotLeading | None:
        is_write = request.verb == "patch" and "dryRun" not in request.params
        if not is_write or request.name not in {"settings", "more"} or len(refused) == 5:
            return None
        refused.append(request.name)
        return NotLeading("lease kube-system/gitkruise-sync was not renewed in time")

    async def script() -> None:
        stage.reporter.listen(records.append)
        async with stage.running():
            stage.wire.refuse = paused
            await stage.push(web(), SETTINGS, config_map("more"))
            await stage.rest(30)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert len(refused) == 5
            assert [f for record in records for f in record.findings] == []
            applied = [name for name in stage.wire.writes() if name == "patch web"]
            assert len(applied) == 1, "what was accepted is not sent again"

    stage.play(script)


def test_what_two_units_want_is_changed_by_neither(staged: MakeStage) -> None:
    stage = staged(path="a")
    other, reporter = stage.add_unit("shop/other", msgspec.structs.replace(stage.spec, path="b"))

    async def push(**files: str | None) -> None:
        paths = {f"{name}/app.yaml": text for name, text in files.items()}
        other.offer(stage.origin.commit(paths))
        await stage.follower.check()
        await stage.rest()

    async def script() -> None:
        async with stage.running(other):
            await push(a=documents(SETTINGS), b=documents(config_map("else", a="b")))
            assert (stage.state, str(reporter.record.state)) == ("Done", "Done")
            both = config_map("settings", mode="slow")
            await push(b=documents(config_map("else", a="b"), both))
            assert [r.findings[0].code for r in (stage.record, reporter.record)] == ["GK2402"] * 2
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            await push(a=documents(config_map("mine", a="b")))  # the first unit lets go
            assert (stage.state, str(reporter.record.state)) == ("Done", "Done")
            moved = stage.get("ConfigMap", "settings")
            assert moved["data"] == {"mode": "slow"}
            assert moved["metadata"]["labels"]["gitkruise.io/unit"] == other.label

    stage.play(script)
    assert not any(w.startswith("delete") for w in stage.wire.writes())


@pytest.mark.parametrize(
    ("error", "state"),
    [
        (Forbidden("it is being terminated"), "Stuck"),
        (InternalError('failed calling webhook "x.example.com": failed to call'), "Stuck"),
        (TooManyRequests("slow down"), "Unknown"),
    ],
)
def test_an_object_that_cannot_be_put_back_stays_stuck_while_it_is_tried(
    staged: MakeStage, error: ApiError, state: str
) -> None:
    """Each try is no news: the status branch and alerts would flap for as long as it lasts."""
    stage = staged()
    gone = ApiRequest(
        verb="delete", resource=CONFIG_MAPS, namespace=SPACE, name="settings"
    )  # fmt: skip

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS, config_map("other", a="1"))
            await stage.rest()
            stage.wire.refuse = lambda request: error if request.verb == "patch" else None
            stage.world.handle(gone, stage.clock.now())
            stage.cluster.publish()
            await stage.rest(30)
            assert stage.state == state
            before, known = len(stage.wire.writes()), len(stage.offered)
            await stage.rest(600)
            assert len(stage.wire.writes()) > before
            assert {str(record.state) for record in stage.offered[known:]} <= {state}
            stage.wire.refuse = lambda request: None
            await stage.rest()
            assert stage.state == "Done"

    stage.play(script)


@pytest.mark.parametrize(
    "error",
    [
        Forbidden("not allowed"),
        InternalError('failed calling webhook "x.example.com": failed to call'),
    ],
)
def test_a_correction_that_is_refused_is_none(staged: MakeStage, error: ApiError) -> None:
    """Nothing was put back: the unit is not Done, and the other manager undoes no correction."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            stage.wire.refuse = lambda request: error if request.verb == "patch" else None
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(30)
            known, subjects = len(stage.offered), len(stage.diary())
            await stage.rest(600)
            assert {str(record.state) for record in stage.offered[known:]} <= {"Stuck"}
            assert (stage.state, len(stage.record.drift)) == ("Stuck", 1)
            assert not any(f.code == "GK2501" for f in stage.record.findings)
            assert len(stage.diary()) <= subjects + 1
            stage.wire.refuse = lambda request: None
            await stage.rest(120)
            assert (stage.state, stage.get("ConfigMap", "settings")["data"]) == (
                "Done", SETTINGS["data"]
            )  # fmt: skip

    stage.play(script)
