"""gitkruise run writes newer images to git: by commits, or by one pull request per unit."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from gitkruise.gitops.actions.image_automation import ImageUpdater, image_branch
from gitkruise.gitops.actions.proposals import Proposer
from gitkruise.gitops.actions.pull_requests import ActionPullRequests
from gitkruise.gitops.images.tags import TagReader
from gitkruise.model.gitops.config import Config, Unit, UnitSpec
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.controllers import alongside
from gitkruise.wire.primitives.names import GroupKind
from tests.git.repos import run_git
from tests.gitops.actions.test_promotion_pulls import forge_of, shown
from tests.gitops.analysis.endpoint import fetch_now
from tests.gitops.charts.hosts import Host, serving
from tests.gitops.forges.forges import ModelForge, client
from tests.gitops.promoted import configured, written
from tests.gitops.stage import BOT, MakeStage, Stage, documents, web

LIST = "/v2/shop/web/tags/list?n=1000"
EVENT = GroupKind("", "Event")
BRANCH = "gitkruise/images/test/shop/web"


@pytest.fixture
def host() -> Iterator[Host]:
    with serving() as found:
        offer(found, "1.0.0")
        yield found


def offer(host: Host, *tags: str) -> None:
    host.has(LIST, json.dumps({"tags": tags}).encode())


def image(host: Host, tag: str = "") -> str:
    name = f"{host.url.removeprefix('http://')}/shop/web"
    return f"{name}:{tag}" if tag else name


def followed(host: Host, write: str) -> dict[str, Any]:
    policy = {"semver": {"range": "1.x"}}
    return {"repository": image(host), "policy": policy, "interval": "1m", "write": write}


@asynccontextmanager
async def updating(
    stage: Stage, model: ModelForge | None = None, **changed: Any
) -> AsyncIterator[None]:
    """gitkruise with what writes images for its unit, while the block runs; its end is a crash."""
    unit = stage.unit.unit
    proposer = Proposer(
        repository=stage.repository, branch="main", config=configured(stage), live=stage.live,
        gates=Gates(), clock=stage.clock, **{"identity": BOT, **changed},
    )  # fmt: skip
    forge = client(model, stage.clock) if model is not None else None
    updater = ImageUpdater(
        stage.unit, stage.reporter, proposer,
        pull_requests=ActionPullRequests(forge, proposer) if forge else None,
        reader=TagReader(
            unit=unit, transport=stage.live.transport, clock=stage.clock, get=fetch_now
        ),
        branch=image_branch("test", unit), has_news=stage.around.standings.has_news,
    )  # fmt: skip

    async def follow() -> None:
        while True:
            await stage.follower.check()
            await stage.clock.sleep(20)

    async with stage.running(), alongside(follow(), updater.run()):
        yield


def remarks(stage: Stage) -> list[str]:
    return [f.message for f in stage.record.findings if f.code == "GK3508"]


@pytest.mark.usefixtures("kubectl")
def test_a_base_that_another_unit_reads_is_not_edited(staged: MakeStage, host: Host) -> None:
    stage = staged(path="live", images=[followed(host, "commit")])
    spec = {"sourceRef": {"name": "src"}, "path": "other"}
    other = Unit("shop", "other", msgspec.convert(spec, UnitSpec))
    config = configured(stage)
    overlay = "resources: [../base]\n"

    async def script() -> None:
        offer(host, "1.0.0", "1.1.0")
        others = Config(config.sources, {other.id: other}, {})
        async with updating(stage, others=lambda: others):
            await stage.push(
                message="first",
                base__app=documents(web(image(host, "1.0.0"))),
                base__kustomization="resources: [app.yaml]\n",
                live__kustomization=overlay,
                other__kustomization=f"{overlay}namePrefix: other-\n",
            )
            await stage.rest(180)
            assert written(stage) == ["first"]
            (found,) = [f for f in stage.record.findings if f.code == "GK3508"]
            assert "edit of base/app.yaml would change other objects" in dict(found.notes)["why"]

    stage.play(script)


def test_a_newer_tag_is_committed_and_rolled_out_once(staged: MakeStage, host: Host) -> None:
    stage = staged(images=[followed(host, "commit")])

    async def script() -> None:
        async with updating(stage):
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(70)
            assert written(stage) == ["first"]
            offer(host, "1.0.0", "1.1.0", "2.0.0", "1.2.0-rc.1")
            await stage.rest(180)
            assert written(stage) == ["first", "web: web 1.1.0"]
            assert (stage.state, stage.images()) == ("Done", [image(host, "1.1.0")] * 4)
            messages = [e["message"] for e in stage.world.objects(EVENT, "shop")
                        if e["reason"] == "ImagesCommitted"]  # fmt: skip
            assert len(messages) == 1
            assert messages[0].startswith("unit shop/web: web: web 1.1.0: ")
            offer(host, "1.1.0", "1.3.0")
            await stage.rest(600)
            assert written(stage)[2:] == ["web: web 1.3.0"]
            assert remarks(stage) == []
            asked = host.paths.count(LIST)
        stage.start_over()
        async with updating(stage):
            await stage.rest(300)
            assert written(stage)[3:] == []
            assert 4 <= host.paths.count(LIST) - asked <= 6

    stage.play(script)


def test_the_signing_key_is_read_again_before_each_commit(staged: MakeStage, host: Host) -> None:
    stage = staged(images=[followed(host, "commit")])
    calls: list[str] = []

    def sign(commit: bytes) -> bytes:
        calls.append("signed")
        return commit

    async def renew() -> None:
        calls.append("renewed")

    async def script() -> None:
        async with updating(stage, identity=replace(BOT, sign=sign), renew=renew):
            await stage.push(web(image(host, "1.0.0")), message="first")
            offer(host, "1.0.0", "1.1.0")
            await stage.rest(120)
            assert written(stage) == ["first", "web: web 1.1.0"]
            assert calls == ["renewed", "signed"]

    stage.play(script)


def test_a_registry_that_is_away_is_a_warning_and_stops_nothing(
    staged: MakeStage, host: Host
) -> None:
    stage = staged(images=[followed(host, "commit")])

    async def script() -> None:
        async with updating(stage):
            host.replies.clear()
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(200)
            (remark,) = remarks(stage)
            assert remark.startswith(f"images: the tags of {image(host)} have not been readable")
            assert remark.endswith("since 2026-11-21T10:00:00Z")
            assert stage.state == "Done"
            await stage.push(web(image(host, "1.0.1")), message="by hand")
            await stage.rest(60)
            assert stage.images() == [image(host, "1.0.1")] * 4
            assert remarks(stage) == [remark]
            offer(host, "1.1.0")
            await stage.rest(120)
            assert written(stage)[-1] == "web: web 1.1.0"
            assert remarks(stage) == []

    stage.play(script)


def test_a_missing_secret_is_a_warning_that_says_what_to_do(staged: MakeStage, host: Host) -> None:
    stage = staged(images=[{**followed(host, "commit"), "secretRef": {"name": "none"}}])

    async def script() -> None:
        async with updating(stage):
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(70)
            (found,) = [f for f in stage.record.findings if f.code == "GK3508"]
            assert "its Secret shop/none does not exist" in dict(found.notes)["why"]
            assert dict(found.notes)["next"].startswith("correct images.repository or its Secret")
            assert stage.state == "Done"

    stage.play(script)


def test_a_branch_that_is_gone_is_a_warning_with_the_next_step_of_its_cause(
    staged: MakeStage, host: Host
) -> None:
    stage = staged(images=[followed(host, "commit")])

    async def script() -> None:
        async with updating(stage):
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(70)
            tip = run_git(stage.origin.bare, "rev-parse", "main")
            run_git(stage.origin.bare, "update-ref", "-d", "refs/heads/main")
            offer(host, "1.1.0")
            await stage.rest(120)
            (found,) = [f for f in stage.record.findings if f.code == "GK3508"]
            assert "newer images cannot be written; it is tried again" in found.message
            notes = dict(found.notes)
            assert notes["why"].startswith("GK3201: refs/heads/main is not in")
            assert not notes["next"].startswith("gitkruise images")
            run_git(stage.origin.bare, "update-ref", "refs/heads/main", tip)
            await stage.rest(400)
            assert remarks(stage) == []
            assert written(stage)[-1] == "web: web 1.1.0"

    stage.play(script)


def test_an_edit_that_is_refused_is_a_warning(staged: MakeStage, host: Host) -> None:
    given = {"substitute": {"vars": {"TAG": "1.0.0"}}}
    stage = staged(images=[followed(host, "commit")], render=given)

    async def script() -> None:
        async with updating(stage):
            offer(host, "1.1.0")
            await stage.push(web(image(host, "${TAG}")), message="first")
            await stage.rest(200)
            (found,) = [f for f in stage.record.findings if f.code == "GK3508"]
            assert "GK3602: cannot write" in dict(found.notes)["why"]
            assert stage.images() == [image(host, "1.0.0")] * 4
            await stage.push(web(image(host, "1.0.0")), message="written out")
            await stage.rest(120)
            assert written(stage) == ["first", "written out", "web: web 1.1.0"]
            assert remarks(stage) == []

    stage.play(script)


def test_a_tag_that_was_taken_back_is_not_written_again(staged: MakeStage, host: Host) -> None:
    stage = staged(images=[followed(host, "commit")])

    async def script() -> None:
        async with updating(stage):
            offer(host, "1.1.0")
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(180)
            run_git(stage.origin.work, "pull", "--quiet", "origin", "main")
            await stage.push(web(image(host, "1.0.0")), message="back")
            await stage.rest(300)
            assert written(stage) == ["first", "web: web 1.1.0", "back"]
            (remark,) = remarks(stage)
            assert "1.1.0 of" in remark
            assert "was taken back, and is not written again" in remark
            offer(host, "1.1.0", "1.1.1")
            await stage.rest(180)
            assert written(stage)[3:] == ["web: web 1.1.1"]
            assert remarks(stage) == []

    stage.play(script)


def test_a_commit_that_is_not_read_yet_is_waited_for(staged: MakeStage, host: Host) -> None:
    stage = staged(images=[followed(host, "commit")])

    async def script() -> None:
        async with updating(stage):
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(30)
            stage.origin.commit({"app.yaml": "not: [yaml"}, "broken")
            offer(host, "1.1.0")
            await stage.rest(300)
            assert written(stage) == ["first", "broken"]

    stage.play(script)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
def test_one_pull_request_is_opened_and_updated_by_newer_tags(
    kind: str, staged: MakeStage, host: Host
) -> None:
    stage = staged(images=[followed(host, "pullRequest")])
    model = forge_of(stage, kind)

    async def script() -> None:
        async with updating(stage, model):
            offer(host, "1.1.0")
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(120)
            assert shown(model) == [(BRANCH, "open")]
            assert model.pulls[1]["title"] == "web: web 1.1.0"
            assert "1.0.0 → 1.1.0" in model.pulls[1]["body"]
            assert remarks(stage) == []
            offer(host, "1.1.0", "1.2.0")
            await stage.rest(120)
            assert shown(model) == [(BRANCH, "open")]
            assert model.pulls[1]["title"] == "web: web 1.2.0"
            head = run_git(stage.origin.bare, "rev-parse", BRANCH)
            await stage.push(other="apiVersion: v1\nkind: ConfigMap\nmetadata: {name: o}\n")
            await stage.rest(120)
            assert run_git(stage.origin.bare, "rev-parse", BRANCH) == head
        stage.start_over()
        async with updating(stage, model):
            await stage.rest(120)
            assert run_git(stage.origin.bare, "rev-parse", BRANCH) == head
            model.pulls[1]["head"] = head
            model.end_pull(1, "merged", model.on_merge(1))
            await stage.rest(120)
            assert stage.images() == [image(host, "1.2.0")] * 4
            assert remarks(stage) == []
            offer(host, "1.3.0")
            await stage.rest(120)
            assert shown(model) == [(BRANCH, "merged"), (BRANCH, "open")]

    stage.play(script)


@pytest.mark.slow
def test_a_closed_pull_request_is_followed_by_that_of_another_tag(
    staged: MakeStage, host: Host
) -> None:
    stage = staged(images=[followed(host, "pullRequest")])
    model = forge_of(stage)

    async def script() -> None:
        async with updating(stage, model):
            offer(host, "1.1.0")
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(120)
            model.end_pull(1, "closed")
        stage.start_over()
        async with updating(stage, model):
            await stage.rest(300)
            assert shown(model) == [(BRANCH, "closed")]
            closed = "pull request #1, which proposed web: web 1.1.0, was closed"
            assert remarks(stage) == [f"images: {closed}"]
            offer(host, "1.2.0")
            await stage.rest(120)
            assert shown(model) == [(BRANCH, "closed"), (BRANCH, "open")]

    stage.play(script)


@pytest.mark.slow
def test_what_somebody_else_pushed_to_the_branch_is_left_to_people(
    staged: MakeStage, host: Host
) -> None:
    stage = staged(images=[followed(host, "pullRequest")])
    model = forge_of(stage)

    async def script() -> None:
        async with updating(stage, model):
            offer(host, "1.1.0")
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(120)
            run_git(stage.origin.work, "fetch", "--quiet", "origin")
            run_git(stage.origin.work, "checkout", "--quiet", "--detach", f"origin/{BRANCH}")
            head = stage.origin.commit({"more.yaml": "# more\n"}, "and this", branch=BRANCH)
            offer(host, "1.2.0")
            await stage.rest(120)
            assert run_git(stage.origin.bare, "rev-parse", BRANCH) == head
            assert remarks(stage) == [f"images: a user pushed to {BRANCH}"]

    stage.play(script)


@pytest.mark.slow
@pytest.mark.parametrize("overtaken", ["written by hand", "no longer listed"])
def test_a_pull_request_without_a_newer_image_is_closed_and_opened_for_the_next(
    overtaken: str, staged: MakeStage, host: Host
) -> None:
    stage = staged(images=[followed(host, "pullRequest")])
    model = forge_of(stage)
    has = "1.1.0" if overtaken == "written by hand" else "1.0.0"

    async def script() -> None:
        async with updating(stage, model):
            offer(host, "1.0.0", "1.1.0")
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(120)
            assert shown(model) == [(BRANCH, "open")]
            if overtaken == "written by hand":
                await stage.push(web(image(host, "1.1.0")), message="by hand")
            else:
                offer(host, "1.0.0")
            await stage.rest(120)
            assert shown(model) == [(BRANCH, "closed")]
            assert model.pulls[1]["title"] == "web: no newer images"
            text = f"git has {has}; the policy chooses {has}"
            assert text in model.pulls[1]["body"]
            assert remarks(stage) == []
            offer(host, "1.0.0", "1.1.0", *(["1.2.0"] if has == "1.1.0" else []))
            await stage.rest(120)
            assert shown(model) == [(BRANCH, "closed"), (BRANCH, "open")]

    stage.play(script)


@pytest.mark.slow
def test_a_pull_request_stays_open_while_its_registry_has_not_answered(
    staged: MakeStage, host: Host
) -> None:
    stage = staged(images=[followed(host, "pullRequest")])
    model = forge_of(stage)

    async def script() -> None:
        async with updating(stage, model):
            offer(host, "1.1.0")
            await stage.push(web(image(host, "1.0.0")), message="first")
            await stage.rest(120)
        stage.start_over()
        host.replies.clear()
        async with updating(stage, model):
            await stage.rest(300)
            assert shown(model) == [(BRANCH, "open")]
            assert model.pulls[1]["title"] == "web: web 1.1.0"
            offer(host, "1.0.0")
            await stage.rest(120)
            assert shown(model) == [(BRANCH, "closed")]

    stage.play(script)
