"""From pull request to Done on a model forge: plan, outcome, statuses; and what may go wrong."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest

from gitkruise.gitops.notify.channel import Channel, deliver
from gitkruise.gitops.notify.sender import Sender
from gitkruise.model.gitops.notifications import LastStatus
from gitkruise.sandbox.controllers import alongside
from gitkruise.wire.primitives.names import GroupKind
from tests.git.repos import run_git
from tests.gitops.forges.forges import away, reply
from tests.gitops.notify.harness import CHECK, ForgeHarness
from tests.gitops.stage import MakeStage, config_map, documents, web
from tests.worlds import SPACE, cloneset

pytestmark = pytest.mark.slow

Script = Callable[[ForgeHarness], Awaitable[None]]


def play(staged: MakeStage, folder: Path, script: Script, kind: str = "github") -> ForgeHarness:
    """One commit live, then `script`."""
    harness = ForgeHarness(staged(), folder, kind)

    async def main() -> None:
        async with harness.open():
            await harness.push(web(), message="first")
            await harness.stage.rest()
            await script(harness)

    harness.stage.play(main)
    return harness


def test_a_canary_from_plan_to_outcome(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(1, web("app:v2", partition=3))
        await harness.stage.rest(5)
        assert "· ✅ current" in harness.comment(1)
        assert "containers[app].image v1 → v2" in harness.comment(1)
        assert harness.status(head, CHECK)[0] == "success"
        merged = await harness.merge(1)
        await harness.stage.rest()
        for commit in (head, merged):
            assert harness.status(commit) == ("success", "held at partition 3 (1/4 updated)")
        assert f"### gitkruise: `{merged[:7]}` → `main` on `test` · ⏸ Held" in harness.comment(1)
        last = await harness.push(web("app:v2"), message="all")
        await harness.stage.rest()
        assert harness.status(last) == ("success", "done (4/4 updated)")
        assert f"; superseded by {last[:7]}" in harness.comment(1)
        states = [state for state, _ in harness.model.statuses[last, "gitkruise/test/shop/web"]]
        assert states[0] == "pending"
        assert len(states) <= 4

    play(staged, tmp_path, script)


def test_each_shard_has_its_own_section_and_check(staged: MakeStage, tmp_path: Path) -> None:
    """A shard plans for its own units: what another one said of its units stays."""

    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(1, web("app:v2", partition=3))
        await harness.stage.rest(5)
        shards = ("shard-0-of-2", "shard-1-of-2")
        for part in shards:
            sender = Sender(
                harness.outbox, part, partial(deliver, harness.forge), harness.stage.clock
            )
            loop = harness.loop(Channel(harness.outbox, part, sender.wake), part)
            async with alongside(sender.run()):
                await loop.look()
                await harness.stage.rest(5)
        for part in shards:
            heading = f"### gitkruise plan for `{head[:7]}` → `main` on `test.{part}`"
            assert heading in harness.comment(1)
            assert harness.status(head, f"{CHECK}/{part}")[0] == "success"
        assert "on `test` " not in harness.comment(1), "that of another number of shards"

    play(staged, tmp_path, script)


def test_an_environment_shows_what_is_deployed_to_it(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(1, web("app:v2", partition=3))
        merged = await harness.merge(1)
        await harness.stage.rest()
        await harness.push(web("app:bad"), message="bad")
        await harness.stage.rest(3 * 60)
        found = harness.model.deployments
        assert {d["environment"] for d in found} == {"on-test"}
        assert [d["sha"] for d in found[1:2]] == [merged]
        assert head not in [d["sha"] for d in found]
        states = [[state for state, _ in d["states"]] for d in found]
        assert [s[-1] for s in states] == ["inactive", "success", "failure"]
        assert all("success" in s for s in states[:2])
        assert "shop/web: held at partition 3 (1/4 updated)" in [w for _, w in found[1]["states"]]

    play(staged, tmp_path, script)


def test_a_token_that_may_not_deploy_holds_up_nothing_else(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        deployed = len(harness.model.deployments[-1]["states"])
        no = reply(403, {"message": "Resource not accessible by integration"})
        harness.model.fails = lambda _method, path: no if "/deployments" in path else None
        second = await harness.push(web("app:v2"), message="second")
        await harness.stage.rest()
        assert harness.status(second) == ("success", "done (4/4 updated)")
        assert len(harness.model.deployments[-1]["states"]) == deployed
        harness.model.fails = lambda _method, _path: None
        await harness.stage.rest(2 * 60)
        assert [d["states"][-1][0] for d in harness.model.deployments] == ["inactive", "success"]

    play(staged, tmp_path, script)


@pytest.mark.slow
def test_a_new_head_marks_the_plan_outdated_and_then_replaces_it(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        first = harness.branch(1, web("app:v2", partition=3))
        await harness.stage.rest(5)
        broken = harness.branch(1, text="a: [")
        await harness.stage.rest(5)
        assert "· ✗ no plan" in harness.comment(1)
        assert "GK1" in harness.comment(1)
        assert "Next: push a commit to its branch that mends this." in harness.comment(1)
        assert harness.status(broken, CHECK) == (
            "failure",
            "it cannot be merged or applied: see the comment",
        )
        assert harness.status(first, CHECK)[0] == "success"
        harness.stage.wire.cut = True  # the cluster is away: there can be no plan for now
        newer = harness.branch(1, web("app:v3", partition=1))
        await harness.stage.rest(5)
        assert f"⚠️ outdated: `{newer[:7]}` was pushed" in harness.comment(1)
        harness.stage.wire.cut = False
        await harness.stage.rest(60)
        assert f"`{newer[:7]}` → `main` on `test` · ✅ current" in harness.comment(1)
        harness.model.end_pull(1, "closed")
        await harness.stage.rest(60)
        assert "closed without a merge" in harness.comment(1)

    play(staged, tmp_path, script)


@pytest.mark.slow
def test_a_pull_request_that_touches_nothing_gets_a_check_and_no_comment(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        head = harness.branch(2, web())
        await harness.stage.rest(5)
        assert harness.status(head, CHECK) == ("success", "no units affected")
        assert 2 not in harness.model.comments

    play(staged, tmp_path, script)


def test_a_pull_request_that_removes_the_path_of_a_unit_is_refused_and_delays_no_other(
    staged: MakeStage, tmp_path: Path
) -> None:
    harness = ForgeHarness(staged(path="apps"), tmp_path)

    async def main() -> None:
        async with harness.open():
            await harness.push(apps__web=documents(web()))
            await harness.stage.rest()
            gone = harness.branch(1, files={"apps/web.yaml": None, "README.md": "x"})
            await harness.stage.rest(5)
            assert "· ✗ no plan" in harness.comment(1)
            assert f"GK3202: there is no apps at {gone[:7]}" in harness.comment(1)
            assert harness.status(gone, CHECK)[0] == "failure"
            harness.branch(2, files={"apps/web.yaml": documents(web("app:v2"))})
            await harness.stage.rest(5)
            assert "· ✅ current" in harness.comment(2)

    harness.stage.play(main)


def test_a_pull_request_that_adds_the_path_of_a_unit_is_planned(
    staged: MakeStage, tmp_path: Path
) -> None:
    harness = ForgeHarness(staged(path="apps"), tmp_path)

    async def main() -> None:
        async with harness.open():
            await harness.push(readme="x: y")
            head = harness.branch(1, files={"apps/web.yaml": documents(web())})
            await harness.stage.rest(5)
            assert "CloneSet shop/web" in harness.comment(1)
            assert harness.status(head, CHECK)[0] == "success"

    harness.stage.play(main)


def two_units(staged: MakeStage, folder: Path) -> ForgeHarness:
    """The unit web of apps, and another one that pull requests are planned for, too."""
    harness = ForgeHarness(staged(path="apps"), folder)
    harness.others = {"api": "api"}
    return harness


SETTINGS: Final = documents(config_map("settings", mode="slow"))
BROKEN: Final[dict[str, tuple[dict[str, str | None], str]]] = {
    "invalid": ({"api/map.yaml": "a: ["}, "GK1101"),
    "removed": ({"api/map.yaml": None}, "GK3202"),
    "emptied": ({"api/map.yaml": "# nothing\n"}, "GK2301"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_unit_that_would_reject_a_pull_request_hides_no_plan_of_others(
    staged: MakeStage, tmp_path: Path, name: str
) -> None:
    harness, (files, code) = two_units(staged, tmp_path), BROKEN[name]

    async def main() -> None:
        async with harness.open():
            await harness.push(apps__web=documents(web()), api__map=SETTINGS)
            await harness.stage.rest()
            head = harness.branch(1, files={"apps/web.yaml": documents(web("app:v2")), **files})
            await harness.stage.rest(5)
            assert "· ✗ rejected by shop/api" in harness.comment(1)
            assert code in harness.comment(1)
            assert "4 in place" in harness.comment(1)
            assert "map settings" not in harness.comment(1).casefold()
            status = harness.status(head, CHECK)
            assert status == ("failure", "rejected by shop/api: see the comment")

    harness.stage.play(main)


def test_a_unit_that_the_cluster_would_refuse_hides_no_plan_of_others(
    staged: MakeStage, tmp_path: Path
) -> None:
    harness = two_units(staged, tmp_path)
    db = cloneset("db", 2)
    moved = msgspec.json.decode(msgspec.json.encode(db).replace(b'"app":"db"', b'"app":"moved"'))

    async def main() -> None:
        async with harness.open():
            await harness.push(apps__web=documents(web()), api__db=documents(db))
            await harness.stage.rest()
            harness.stage.meddle(db)
            files = {"api/db.yaml": documents(moved)}
            head = harness.branch(1, files={"apps/web.yaml": documents(web("app:v2")), **files})
            alone = harness.branch(2, files=dict(files))
            await harness.stage.rest(5)
            assert "· ✗ rejected by shop/api" in harness.comment(1)
            assert harness.comment(1).count("GK2201") == 1
            assert "CloneSet shop/db" not in harness.comment(1)
            assert "4 in place" in harness.comment(1)
            status = ("failure", "rejected by shop/api: see the comment")
            assert harness.status(head, CHECK) == status
            assert "· ✗ no plan" in harness.comment(2)
            assert harness.status(alone, CHECK)[0] == "failure"

    harness.stage.play(main)


def test_a_unit_that_rejects_the_branch_already_fails_no_check_of_others(
    staged: MakeStage, tmp_path: Path
) -> None:
    harness = two_units(staged, tmp_path)

    async def main() -> None:
        async with harness.open():
            await harness.push(apps__web=documents(web()), api__map=SETTINGS)
            await harness.push(api__map="a: [")
            await harness.stage.rest()
            head = harness.branch(1, files={"apps/web.yaml": documents(web("app:v2"))})
            fixed = harness.branch(2, files={"api/map.yaml": SETTINGS})
            await harness.stage.rest(5)
            assert "A unit rejects `main` already" in harness.comment(1)
            assert "· ✅ current" in harness.comment(1)
            assert harness.status(head, CHECK)[0] == "success"
            assert "4 pods in place" in harness.status(head, CHECK)[1]
            assert harness.status(fixed, CHECK)[0] == "success"

    harness.stage.play(main)


def test_a_plan_is_made_again_when_its_unit_is_in_another_state(
    staged: MakeStage, tmp_path: Path
) -> None:
    harness = ForgeHarness(staged(drift={"mode": "detect"}), tmp_path)

    async def main() -> None:
        async with harness.open():
            await harness.push(web(), message="first")
            await harness.stage.rest()
            await harness.push(web("app:v2", partition=3), message="canary")
            await harness.stage.rest()
            head = harness.branch(1, web("app:v2", partition=1))
            await harness.stage.rest(5)
            assert "`2 pods restarted in place`" in harness.comment(1)
            harness.stage.meddle(web("app:v2", partition=0))
            await harness.stage.rest()
            assert harness.stage.state == "Drifted"
            assert "pods restarted in place" not in harness.comment(1)
            assert "· ✅ current" in harness.comment(1)
            checks = len(harness.model.statuses[head, CHECK])
            await harness.stage.rest(300)
            assert len(harness.model.statuses[head, CHECK]) == checks == 2

    harness.stage.play(main)


def test_a_plan_is_made_again_after_a_start_with_other_units(
    staged: MakeStage, tmp_path: Path
) -> None:
    harness = ForgeHarness(staged(), tmp_path)

    async def main() -> None:
        async with harness.open():
            await harness.push(web(), message="first")
            await harness.stage.rest()
            harness.branch(1, web("app:v2"))
            await harness.stage.rest(5)
            assert "4 in place" in harness.comment(1)
        harness.stage.start_over()
        harness.stage.spec = msgspec.structs.replace(harness.stage.spec, path="elsewhere")
        async with harness.open():
            await harness.stage.rest(5)
            assert "GK3202: there is no elsewhere" in harness.comment(1)

    harness.stage.play(main)


@pytest.mark.parametrize("followed", [True, False])
def test_a_pull_request_that_asks_for_another_branch_says_so(
    staged: MakeStage, tmp_path: Path, *, followed: bool
) -> None:
    async def script(harness: ForgeHarness) -> None:
        run_git(harness.stage.origin.work, "push", "--quiet", "origin", "main:refs/heads/release")
        head = harness.branch(1, web("app:v2"))
        await harness.stage.rest(5)
        assert "→ `main` on `test` · ✅ current" in harness.comment(1)
        if followed:
            harness.pulls.planners = {
                **harness.pulls.planners,
                "release": harness.planner("release"),
            }
        harness.model.pulls[1]["base"] = "release"
        await harness.stage.rest(60)
        if followed:
            assert "→ `release` on `test` · ✅ current" in harness.comment(1)
        else:
            line = "→ `main` on `test` · outdated: it asks for `release` now, which no unit follows"
            assert line in harness.comment(1)
            assert harness.status(head, CHECK) == ("success", "no units affected")
        harness.model.pulls[1]["base"] = "main"
        await harness.stage.rest(60)
        assert "→ `main` on `test` · ✅ current" in harness.comment(1)
        assert "pods" in harness.status(head, CHECK)[1]

    play(staged, tmp_path, script)


@pytest.mark.slow
def test_a_stranger_learns_no_name_of_a_pod(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.branch(3, web("app:v2"), repo=99)
        await harness.stage.rest(5)
        found = harness.stage.world.objects(GroupKind("", "Pod"), SPACE)
        names = [pod["metadata"]["name"].removeprefix("web") for pod in found]
        assert len(names) == 4
        assert "containers[app].image v1 → v2" in harness.comment(3)
        assert not [name for name in names if name in harness.comment(3)]

    play(staged, tmp_path, script)


@pytest.mark.slow
def test_a_silent_forge_holds_up_nothing_and_hears_all_of_it_later(
    staged: MakeStage, tmp_path: Path
) -> None:
    async def script(harness: ForgeHarness) -> None:
        harness.model.fails = away
        second = await harness.push(web("app:v2", maxUnavailable=1), message="second")
        await harness.stage.rest(1)
        third = await harness.push(web("app:v3"), config_map("x", a="b"), message="third")
        await harness.stage.rest(60)
        assert harness.stage.images() == ["app:v3"] * 4
        await harness.stage.rest(3600)
        harness.model.fails = lambda _method, _path: None
        await harness.stage.rest(120)
        assert harness.status(second) == ("success", f"superseded by {third[:7]}")
        assert harness.status(third)[0] == "success"

    play(staged, tmp_path, script)


@pytest.mark.slow
def test_a_restart_loses_no_last_word(staged: MakeStage, tmp_path: Path) -> None:
    harness = ForgeHarness(staged(), tmp_path)
    commits: list[str] = []

    async def main() -> None:
        async with harness.open():
            await harness.push(web(), message="first")
            await harness.stage.rest()
            commits.append(await harness.push(web("app:v2", maxUnavailable=1), message="second"))
            await harness.stage.rest(2)
            harness.branch(4, web("app:v2", partition=2))
            await harness.stage.rest(1)
            assert harness.status(commits[0])[0] == "pending"
            harness.model.fails = away
            await harness.stage.rest(30)
        harness.stage.start_over()
        harness.model.fails = lambda _method, _path: None
        async with harness.open():
            commits.append(await harness.push(web("app:v3"), message="third"))
            await harness.stage.rest(90)
        assert harness.status(commits[1]) == ("success", "done (4/4 updated)")
        assert harness.status(commits[0])[0] == "success"
        assert "GK3212" in harness.comment(4)  # the third commit changed the same lines

    harness.stage.play(main)


def test_a_status_of_a_removed_unit_is_closed_at_the_next_start(
    staged: MakeStage, tmp_path: Path
) -> None:
    harness = ForgeHarness(staged(), tmp_path)
    context = "gitkruise/test/shop/gone"

    async def main() -> None:
        async with harness.open():
            first = await harness.push(web(), message="first")
            await harness.stage.rest()
            left = msgspec.json.encode(LastStatus("pending", "rolling", harness.stage.clock.now()))
            harness.channel.put((), {f"sent/{first}/{context}": left})
        harness.stage.start_over()
        async with harness.open():
            await harness.stage.rest()
            assert harness.status(first, context) == ("success", "no unit has this status any more")
            assert harness.status(first) == ("success", "done (4/4 updated)")
            await harness.stage.rest(3600)
            assert len(harness.model.statuses[first, context]) == 1

    harness.stage.play(main)


CANARIES: Final = ("s3cr3t-canary-one", "s3cr3t-canary-two", "s3cr3t-canary-three")


def secret(value: str, image: str) -> list[Any]:
    """A Secret, and a CloneSet that is refused with it in a message, as bad manifests are."""
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
    return [{**obj, "stringData": {"password": value}}, web(image)]


def spellings(value: str) -> list[bytes]:
    encoded = base64.b64encode(value.encode())
    return [value.encode(), encoded, base64.b64encode(encoded)]


@pytest.mark.slow
def test_no_value_of_a_secret_reaches_any_sink(staged: MakeStage, tmp_path: Path) -> None:
    async def script(harness: ForgeHarness) -> None:
        await harness.push(*secret(CANARIES[0], "app:v1"), message="with a secret")
        await harness.stage.rest()
        harness.branch(6, *secret(CANARIES[1], "app:v2"))
        await harness.stage.rest(5)
        assert "Secret shop/db" in harness.comment(6)
        await harness.merge(6)
        await harness.stage.rest()
        refused = secret(CANARIES[2], "app:v2")[0] | {"stringData": {"password": [CANARIES[2]]}}
        bad = await harness.push(refused, web("app:v2"), message="refused")
        await harness.stage.rest()
        assert harness.status(bad)[0] == "error"
        stuck = {"name": "db", "labels": {"x": CANARIES[2] + " "}}
        await harness.push(secret(CANARIES[2], "app:v2")[0] | {"metadata": stuck}, web("app:v2"))
        await harness.stage.rest()

    harness = play(staged, tmp_path, script)
    published = repr((harness.model.comments, harness.model.statuses)).encode() + b"".join(
        harness.chat.received
    )
    kept = b"".join(file.read_bytes() for file in tmp_path.glob("outbox.sqlite*"))
    diary = run_git(harness.stage.origin.bare, "log", "-p", "--all", "--", "units").encode()
    assert len(harness.chat.received) >= 6
    for place in (published, kept, diary):
        assert b"shop/web" in place
        assert not [w for value in CANARIES for w in spellings(value) if w in place]
