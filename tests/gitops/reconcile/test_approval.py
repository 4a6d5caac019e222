"""Commits that wait for a person's approval: which, under which hash, and how it is given."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.reconcile.approval import approvals
from gitkruise.wire.primitives.names import Obj
from tests.git.repos import make_origin, run_git
from tests.gitops.promoted import promotion
from tests.gitops.stage import MakeStage, Stage, config_map, web
from tests.planner.statefulset.build import GATE, IN_PLACE, advanced
from tests.worlds import deployment

KEEP: Final = config_map("keep", a="b")
EXTRA: Final = config_map("extra", a="b")
SPACE: Final[Obj] = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "more"}}


def asks(stage: Stage) -> str:
    """What it asks approval for; "" when it asks nothing."""
    words = stage.record.message.removeprefix("waits for ")
    waits = stage.state == "Waiting" and words.startswith("approval (")
    return words.removeprefix("approval (").partition("; ")[0] if waits else ""


async def agree(stage: Stage) -> str:
    """Do what the record says, and let gitkruise look; the hash."""
    words = stage.record.message.partition("; ")[2].removesuffix(")")
    command, work = shlex.split(words), stage.origin.work
    run_git(work, *command[1:])
    run_git(work, "push", "--quiet", "origin", "HEAD:main")
    await stage.follower.check()
    await stage.rest()
    return command[-1].rpartition(" ")[2]


@pytest.mark.slow
def test_always_every_change_waits_for_approval_and_drift_does_not(staged: MakeStage) -> None:
    stage = staged(approval="always")

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, EXTRA, message="first")
            await stage.rest()
            assert asks(stage) == "2 objects change"
            assert stage.get("ConfigMap", "keep") is None
            first = await agree(stage)
            assert (stage.state, asks(stage)) == ("Done", "")
            stage.meddle(config_map("keep", a="mine"))
            await stage.rest()
            assert stage.get("ConfigMap", "keep")["data"] == {"a": "b"}
            await stage.push(config_map("keep", a="c"), message="second")
            await stage.rest()
            assert asks(stage) == "2 objects change"  # one of them leaves
            stage.meddle(config_map("keep", a="mine"))
            await stage.rest(60)
            assert stage.get("ConfigMap", "keep")["data"] == {"a": "b"}
            assert await agree(stage) != first
            assert stage.get("ConfigMap", "keep")["data"] == {"a": "c"}
            assert stage.get("ConfigMap", "extra") is None

    stage.play(script)


@pytest.mark.slow
def test_a_start_asks_for_no_more_and_no_less(staged: MakeStage) -> None:
    stage = staged(approval="always")

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, EXTRA, message="first")
            await stage.rest()
            await agree(stage)
            await stage.push(KEEP, message="second")
            await stage.rest()
            assert asks(stage) == "1 object changes"
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            stage.meddle(config_map("keep", a="mine"))
            await stage.rest(60)
            assert asks(stage) == "1 object changes"
            assert stage.get("ConfigMap", "extra")
            assert stage.get("ConfigMap", "keep")["data"] == {"a": "b"}
            stage.approved = stage.record.message.rpartition(": ")[2].removesuffix('")')
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, stage.get("ConfigMap", "extra")) == ("Done", None)

    stage.play(script)


@pytest.mark.slow
def test_a_revert_withdraws_an_approval(staged: MakeStage) -> None:
    stage = staged(approval="always")

    def revert(commit: str) -> str:
        work = stage.origin.work
        message = f"Revert\n\nThis reverts commit {commit}."
        run_git(work, "commit", "--quiet", "--allow-empty", "-m", message)
        return run_git(work, "rev-parse", "HEAD")

    async def looks() -> None:
        run_git(stage.origin.work, "push", "--quiet", "origin", "HEAD:main")
        await stage.follower.check()
        await stage.rest()

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, message="first")
            await stage.rest()
            mark = stage.record.message.rpartition(": ")[2].removesuffix('")')
            words = ("--allow-empty", "-m", "Agreed", "--trailer", f"Gitkruise-Approve: {mark}")
            run_git(stage.origin.work, "commit", "--quiet", *words)
            withdrawn = revert(run_git(stage.origin.work, "rev-parse", "HEAD"))
            await looks()
            assert (asks(stage), stage.get("ConfigMap", "keep")) == ("1 object changes", None)
            revert(withdrawn)
            await looks()
            assert (stage.state, asks(stage)) == ("Done", "")

    stage.play(script)


@pytest.mark.slow
def test_an_approval_is_for_what_was_seen_and_for_one_time(staged: MakeStage) -> None:
    stage = staged(approval="always")

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, message="first")
            await stage.rest()
            await agree(stage)
            for number in range(2):  # there and back, and there again: asked each time
                await stage.push(config_map("keep", a=f"c{number}"))
                await stage.rest()
                assert asks(stage) == "1 object changes"
                await agree(stage)
                await stage.push(KEEP, message="back")
                await stage.rest()
                assert asks(stage) == "1 object changes"
                await agree(stage)
                assert stage.state == "Done"
            await stage.push(config_map("keep", a="c0"), message="there again")
            await stage.rest()
            assert asks(stage) == "1 object changes"
        stage.start_over()  # what was agreed to long ago is not agreed to now
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert asks(stage) == "1 object changes"
            words = stage.record.message
            await stage.push(config_map("keep", a="c9"), message="something else")
            await stage.rest()
            assert stage.record.message != words

    stage.play(script)


def env(image: str, **rolling: Any) -> dict[str, Any]:
    """The shop's CloneSet with a variable that pods cannot get in place."""
    made = web(image, **rolling)
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "A", "value": "b"}]
    return made


def db(image: str = "app:v1", **rolling: Any) -> dict[str, Any]:
    """An Advanced StatefulSet of four pods that are updated in place."""
    return advanced(4, image=image, pod=GATE, rolling={**IN_PLACE, **rolling})


def env_db() -> dict[str, Any]:
    made = db()
    (container,) = made["spec"]["template"]["spec"]["containers"]
    container["env"] = [{"name": "A", "value": "b"}]
    return made


def plain(image: str = "app:v1", partition: int = 0) -> dict[str, Any]:
    """The same as Kubernetes' StatefulSet."""
    made = advanced(4, image=image, rolling={"partition": partition})
    return {**made, "apiVersion": "apps/v1"}


def rolled(image: str = "app:v1", canary: str = "") -> dict[str, Any]:
    made = {**deployment("web", 4, image)}
    notes = {"gitkruise.io/canary": canary} if canary else {}
    return {**made, "metadata": {**made["metadata"], "annotations": notes}}


def promoted(kind: str, name: str = "db", **workload: str) -> dict[str, Any]:
    """A unit that promotes an object of a kind."""
    return {"promotion": promotion(workload={"kind": kind, "name": name, **workload})}


ADVANCED: Final = promoted("StatefulSet", apiVersion="apps.kruise.io/v1beta1")
PLAIN: Final = promoted("StatefulSet")


# what the unit says besides, what is live, what is asked for, why approval is needed
RISKS: Final[list[tuple[str, dict[str, Any], list[Obj], list[Obj], str]]] = [
    ("an image", {}, [web()], [web("app:v2")], ""),
    ("a new object", {}, [KEEP], [KEEP, EXTRA], ""),
    ("an object leaves", {}, [KEEP, EXTRA], [KEEP], ""),
    ("recreated", {}, [web()], [env("app:v1")],
     "pods of CloneSet shop/web are recreated, which went in place before"),
    ("without a canary", {"promotion": promotion()}, [web()], [web("app:v2")],
     "all pods of CloneSet shop/web change without a canary"),
    ("with a canary", {"promotion": promotion()}, [web()], [web("app:v2", partition="75%")], ""),
    ("the last step", {"promotion": promotion()}, [web("app:v2", partition="75%")],
     [web("app:v2")], ""),
    ("another promoted", {"promotion": promotion(workload={"kind": "CloneSet", "name": "x"})},
     [web()], [web("app:v2")], ""),
    ("a stateful set in place", {}, [db()], [db("app:v2")], ""),
    ("a stateful set recreated", {}, [db()], [env_db()],
     "pods of StatefulSet shop/db are recreated, which went in place before"),
    ("a stateful set without a canary", ADVANCED, [db()], [db("app:v2")],
     "all pods of StatefulSet shop/db change without a canary"),
    ("a stateful set with a canary", ADVANCED, [db()], [db("app:v2", partition=3)], ""),
    ("the other kind of stateful set", PLAIN, [db()], [db("app:v2")], ""),
    ("a plain stateful set without a canary", PLAIN, [plain()], [plain("app:v2")],
     "all pods of StatefulSet shop/db change without a canary"),
    ("a plain stateful set with a canary", PLAIN, [plain()], [plain("app:v2", 3)], ""),
    ("a deployment without a canary", promoted("Deployment", "web"), [rolled()],
     [rolled("app:v2")], "all pods of Deployment shop/web change without a canary"),
    ("a deployment with a canary", promoted("Deployment", "web"), [rolled()],
     [rolled("app:v2", "25%")], ""),
    ("for the whole cluster", {}, [KEEP, SPACE], [KEEP], "Namespace more leaves the cluster"),
    ("kept in the cluster", {"prune": {"enabled": False}}, [KEEP, SPACE], [KEEP], ""),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "old", "new", "why"), [r[1:] for r in RISKS], ids=[r[0] for r in RISKS]
)
def test_risky_changes_wait_for_approval(
    embedded: MakeStage, unit: dict[str, Any], old: list[Obj], new: list[Obj], why: str
) -> None:
    stage = embedded(approval="risky", **unit)

    async def script() -> None:
        async with stage.running():
            await stage.push(*old, message="first")
            await stage.rest()
            assert stage.state in {"Done", "Held"}
            await stage.push(*new, message="second")
            await stage.rest()
            assert asks(stage) == why
            if why:
                assert stage.images() in ([], ["app:v1"] * 4)
                await agree(stage)
                if "leaves the cluster" in why:  # the deletion itself asks for what it holds
                    held = "deletion of Namespace more: deleting it would delete what it holds"
                    assert asks(stage) == held
                    await agree(stage)
                assert asks(stage) == ""

    stage.play(script)


@pytest.mark.slow
def test_a_commit_that_waits_is_shown_without_the_findings_of_the_one_before(
    staged: MakeStage,
) -> None:
    stage = staged(approval="always")

    async def script() -> None:
        async with stage.running():
            await stage.push({**KEEP, "spec": 1}, message="a slip")
            await stage.rest()
            assert (stage.state, len(stage.record.findings)) == ("Rejected", 1)
            await stage.push(KEEP, message="mended")
            await stage.rest()
            assert (asks(stage), stage.record.findings) == ("1 object changes", ())

    stage.play(script)


def test_a_repository_that_was_made_again_has_its_approvals(tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    origin.commit({}, "yes\n\nGitkruise-Approve: 0123456789ab")
    with Repository.open(str(origin.bare)) as repository:
        tip = run_git(origin.bare, "rev-parse", "main")
        assert approvals(repository, tip, "0" * 39 + "1") == {"0123456789ab"}
        assert approvals(repository, tip, tip) == frozenset()


@pytest.mark.slow
def test_approval_is_asked_for_and_given_before_the_window_opens(staged: MakeStage) -> None:
    window = {"kind": "allow", "schedule": "0 11 * * *", "duration": "10m"}  # it is ten o'clock
    stage = staged(approval="always", windows=[window])

    async def script() -> None:
        async with stage.running():
            await stage.push(KEEP, message="first")
            await stage.rest()
            assert asks(stage) == "1 object changes"
            waits = stage.record.waits
            assert waits.endswith(", a window (it opens at 2026-11-21T11:00:00Z)")
            command = shlex.split(waits.partition("; ")[2].partition("),")[0])
            run_git(stage.origin.work, *command[1:])
            run_git(stage.origin.work, "push", "--quiet", "origin", "HEAD:main")
            await stage.follower.check()
            await stage.rest()
            assert stage.record.waits == "a window (it opens at 2026-11-21T11:00:00Z)"
            assert stage.get("ConfigMap", "keep") is None
            await stage.rest(3600)
            assert (stage.state, stage.get("ConfigMap", "keep")["data"]) == ("Done", {"a": "b"})

    stage.play(script)
