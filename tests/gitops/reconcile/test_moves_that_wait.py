"""An object that moves to a unit which does not take the commit stays as it is until it does."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web

ONE, TWO = config_map("one", a="b"), config_map("two", a="b")
OLD, NEW = config_map("thing", a="old"), config_map("thing", a="new")
LOST: Final[Obj] = {**TWO, "metadata": {"name": "lost", "namespace": "nowhere"}}
CLOSED: Final = ', windows: [{{kind: deny, schedule: "* * * * *", duration: 1h}}]'
SINK: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: git, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
"""
# why the new unit does not take the commit: more of its spec, one more object of it
ROWS: dict[str, tuple[str, list[Obj]]] = {
    "it takes it": ("", []),
    "the cluster rejects an object": ("", [LOST]),
    "its window is closed": (CLOSED, []),
    "it waits for approval": (", approval: always", []),
    "it is suspended": (", suspend: true", []),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ROWS)
def test_the_unit_that_gave_it_up_does_not_delete_it(
    staged: MakeStage, tmp_path: Path, name: str
) -> None:
    more, objects = ROWS[name]
    stage, records = staged(), dict[str, UnitRecord]()

    def program(text: str) -> Any:
        heed = (lambda r: records.update({r.unit: r}),)
        return options(stage, tmp_path, text, listeners=heed)

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(ONE, OLD), "two/a.yaml": documents(TWO)})
        both = SOURCE + unit("one") + unit("two")
        async with controller(program(both), stage.wire, stage.clock):
            await stage.rest(60)
        uid = stage.get("ConfigMap", "thing")["metadata"]["uid"]
        async with controller(
            program(SOURCE + unit("one") + unit("two", more)), stage.wire, stage.clock
        ):
            await stage.rest(60)
            moved = documents(TWO, NEW, *objects)
            stage.origin.commit({"one/a.yaml": documents(ONE), "two/a.yaml": moved})
            await stage.rest(120)
        found = stage.get("ConfigMap", "thing")
        taken = name == "it takes it"
        assert found is not None
        assert (found["metadata"]["uid"], found["data"]["a"]) == (uid, "new" if taken else "old")
        assert str(records["shop/one"].state) == "Done"

    stage.play(script)


@pytest.mark.slow
def test_a_rollout_that_comes_back_after_a_restart_has_a_step(
    staged: MakeStage, tmp_path: Path
) -> None:
    """Its record ended when its unit gave it up; nothing is applied when it is in git again."""
    stage, records = staged(), dict[str, UnitRecord]()
    units = SOURCE + unit("one") + unit("two")
    heed = (lambda r: records.update({r.unit: r}),)
    program = options(stage, tmp_path, units, listeners=heed)
    lost = {"one/a.yaml": documents(ONE), "two/a.yaml": documents(TWO, web(), LOST)}

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(ONE, web()), "two/a.yaml": documents(TWO)})
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            stage.origin.commit(lost)
            await stage.rest(60)
            assert records["shop/one"].rollouts == ()
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            back = stage.origin.commit({"one/a.yaml": documents(ONE, web())})
            await stage.rest(60)
        ((_, steps),) = records["shop/one"].steps
        assert [(step.commit.id, str(step.state)) for step in steps] == [(back, "Done")]

    stage.play(script)


def release(stage: Stage) -> None:
    """Run `kubectl label configmap thing gitkruise.io/unit-`."""
    stage.world.handle(
        ApiRequest(
            verb="patch", resource=ResourceRef("", "v1", "configmaps"), namespace="shop",
            name="thing", body={"metadata": {"labels": {"gitkruise.io/unit": None}}},
            content_type=MERGE_PATCH,
        ),
        stage.clock.now(),
    )  # fmt: skip


@pytest.mark.slow
def test_what_a_unit_waited_for_was_never_its_own(staged: MakeStage, tmp_path: Path) -> None:
    """After a restart it takes over what its owner was told to release: nobody had changed that."""
    stage, records = staged(), dict[str, UnitRecord]()
    heed = (lambda r: records.update({r.unit: r}),)
    owner = unit("one", ", sinkRef: {{name: git}}")

    def program(more: str) -> Any:
        units = owner.replace("sinkRef", f"{more}sinkRef") + unit("two", ", sinkRef: {{name: git}}")
        return options(stage, tmp_path, SOURCE + SINK + units, listeners=heed)

    def text() -> str:
        return str(stage.get("ConfigMap", "thing")["data"]["a"])

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(ONE, OLD), "two/a.yaml": documents(TWO)})
        async with controller(program(""), stage.wire, stage.clock):
            await stage.rest(60)
        stage.origin.commit({"one/a.yaml": documents(ONE), "two/a.yaml": documents(TWO, NEW)})
        async with controller(program("suspend: true, "), stage.wire, stage.clock):
            await stage.rest(60)
        assert text() == "old"
        async with controller(program("suspend: true, "), stage.wire, stage.clock):
            await stage.rest(5)
            release(stage)
            await stage.rest(60)
        assert text() == "new"
        assert [str(one) for one in records["shop/two"].interventions] == []

    stage.play(script)


@pytest.mark.slow
def test_a_unit_releases_to_the_unit_that_it_depends_on(staged: MakeStage, tmp_path: Path) -> None:
    """Its commit waits for the other unit, and the other one for the object that it lacks."""
    stage, records = staged(), dict[str, UnitRecord]()
    heed = (lambda r: records.update({r.unit: r}),)
    text = SOURCE + unit("one", ", dependsOn: [{{name: two}}]") + unit("two")
    program = options(stage, tmp_path, text, listeners=heed)
    newer = config_map("one", a="c")

    def states() -> list[str]:
        return [str(records[f"shop/{name}"].state) for name in ("one", "two")]

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(ONE, OLD), "two/a.yaml": documents(TWO)})
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            assert states() == ["Done", "Done"]
            uid = stage.get("ConfigMap", "thing")["metadata"]["uid"]
            moved = {"one/a.yaml": documents(newer), "two/a.yaml": documents(TWO, NEW)}
            stage.origin.commit(moved)
            await stage.rest(60)
            assert states() == ["Done", "Done"]
            found = stage.get("ConfigMap", "thing")
            assert (found["metadata"]["uid"], found["data"]) == (uid, {"a": "new"})
            assert stage.get("ConfigMap", "one")["data"] == {"a": "c"}

    stage.play(script)


@pytest.mark.slow
@pytest.mark.parametrize("approval", ["risky", "always"])
def test_a_unit_with_approval_releases_what_a_user_agreed_to(
    staged: MakeStage, tmp_path: Path, approval: str
) -> None:
    """It releases nothing before, and asks once, although the object has left before it begins."""
    stage, records = staged(), dict[str, UnitRecord]()
    heed = (lambda r: records.update({r.unit: r}),)
    text = SOURCE + unit("one", f", approval: {approval}, dependsOn: [{{{{name: two}}}}]")
    program = options(stage, tmp_path, text + unit("two"), listeners=heed)
    newer, asked = config_map("one", a="c"), approval == "always"

    async def agree() -> None:
        words = records["shop/one"].message
        if asked:
            mark = words.partition("Approve: ")[2][:12]
            stage.origin.commit({}, f"agreed\n\nGitkruise-Approve: {mark}")
            await stage.rest(60)
        assert asked == ("waits for approval" in words)

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(ONE, OLD), "two/a.yaml": documents(TWO)})
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            await agree()
            uid = stage.get("ConfigMap", "thing")["metadata"]["uid"]
            moved = {"one/a.yaml": documents(newer), "two/a.yaml": documents(TWO, NEW)}
            stage.origin.commit(moved)
            await stage.rest(60)
            assert stage.get("ConfigMap", "thing")["data"] == {"a": "old" if asked else "new"}
            await agree()
            assert {str(record.state) for record in records.values()} == {"Done"}
            found = stage.get("ConfigMap", "thing")
            assert (found["metadata"]["uid"], found["data"]) == (uid, {"a": "new"})
            assert stage.get("ConfigMap", "one")["data"] == {"a": "c"}

    stage.play(script)


@pytest.mark.slow
def test_what_was_released_comes_back_with_a_commit_that_has_it(
    staged: MakeStage, tmp_path: Path
) -> None:
    """The other unit took it over and gets stuck, so the commit of the first one still waits."""
    stage, records = staged(), dict[str, UnitRecord]()
    heed = (lambda r: records.update({r.unit: r}),)
    text = SOURCE + unit("one", ", dependsOn: [{{name: two}}]") + unit("two")
    program = options(stage, tmp_path, text, listeners=heed)
    before = {"one/a.yaml": documents(ONE, OLD), "two/a.yaml": documents(TWO)}
    newer = config_map("one", a="c")

    async def script() -> None:
        stage.origin.commit(before)
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            uid = stage.get("ConfigMap", "thing")["metadata"]["uid"]
            broken = documents(TWO, NEW, web("app:broken"))
            stage.origin.commit({"one/a.yaml": documents(newer), "two/a.yaml": broken})
            await stage.rest(120)
            assert stage.get("ConfigMap", "thing")["data"] == {"a": "new"}
            states = {name: str(record.state) for name, record in records.items()}
            assert states == {"shop/one": "Waiting", "shop/two": "Stuck"}
            assert records["shop/one"].findings == ()
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(120)
            assert stage.get("ConfigMap", "thing")["data"] == {"a": "new"}
            assert str(records["shop/one"].state) == "Waiting"
            stage.origin.commit(before)
            await stage.rest(120)
            assert {str(record.state) for record in records.values()} == {"Done"}
            found = stage.get("ConfigMap", "thing")
            assert (found["metadata"]["uid"], found["data"]) == (uid, {"a": "old"})

    stage.play(script)


@pytest.mark.slow
def test_a_deletion_that_waits_is_not_done_while_another_unit_reads(
    staged: MakeStage, tmp_path: Path
) -> None:
    """A commit that changes the other unit alone: what left git before waits for approval still."""
    stage, states = staged(), list[str]()
    heed = (lambda r: states.append(str(r.state)) if r.unit == "shop/one" else None,)
    program = options(stage, tmp_path, SOURCE + unit("one") + unit("two"), listeners=heed)
    volume = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        },
    }  # fmt: skip

    async def script() -> None:
        stage.origin.commit({"one/a.yaml": documents(ONE, volume), "two/a.yaml": documents(TWO)})
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            stage.origin.commit({"one/a.yaml": documents(ONE)})
            await stage.rest(60)
            assert states[-1] == "Waiting"
            for text in "cde":
                states.clear()
                stage.origin.commit({"two/a.yaml": documents(config_map("two", a=text))})
                await stage.rest(60)
                assert stage.get("ConfigMap", "two")["data"]["a"] == text
                assert "Done" not in states
                assert states[-1] == "Waiting"

    stage.play(script)
