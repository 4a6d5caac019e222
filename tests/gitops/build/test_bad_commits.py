"""A commit that cannot be taken is told with file and line; what was live runs on and is healed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gitkruise.errors import Finding, Forbidden, SourcePlace
from gitkruise.gitops.build.builder import next_step
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

SETTINGS = config_map("settings", mode="fast")
GOOD = documents(web(), SETTINGS)
RENAMED = {**web(), "spec": {**web()["spec"], "selector": {"matchLabels": {"app": "other"}}}}
MOVED = {
    **RENAMED,
    "spec": {
        **RENAMED["spec"],
        "template": {**web()["spec"]["template"], "metadata": {"labels": {"app": "other"}}},
    },
}
ROWS: list[tuple[str, str, str, str]] = [
    ("broken yaml", "GK1", "app.yaml:4:2", "kind: A\nspec:\n  - a\n b: [\n"),
    ("unknown field", "GK1203", "app.yaml:18:3", GOOD.replace("updateStrategy:", "updteStrategy:")),
    ("declared twice", "GK1301", "app.yaml:2:1", documents(web(), web(), SETTINGS)),
    ("selector mismatch", "GK2202", "app.yaml:7:3", documents(RENAMED, SETTINGS)),
    ("selector moved", "GK2201", "app.yaml:7:3", documents(MOVED, SETTINGS)),
    ("not an integer", "GK1204", "app.yaml:6:13", GOOD.replace("replicas: 4", "replicas: yes")),
    ("no such namespace", "GK4202", "", documents(
        web(), SETTINGS, {**SETTINGS, "metadata": {"name": "x", "namespace": "nowhere"}})),
]  # fmt: skip


@pytest.mark.parametrize(("name", "code", "place", "text"), ROWS, ids=[row[0] for row in ROWS])
def test_rejected(staged: MakeStage, name: str, code: str, place: str, text: str) -> None:
    stage = staged()
    del name

    async def script() -> None:
        async with stage.running():
            good = await stage.push(web(), SETTINGS)
            await stage.rest()
            writes = len(stage.wire.writes())
            bad = await stage.push(app=text, message="bad")
            await stage.rest()
            record = stage.record
            finding = next(f for f in record.findings if f.is_error)
            assert stage.state == "Rejected"
            assert record.attempted
            assert record.applied
            assert (record.attempted.id, record.applied.id) == (bad, good)
            assert finding.code.startswith(code), finding
            assert place in str(finding.places[0])
            unchanged = dict(finding.notes)["unchanged"]
            assert good[:7] in unchanged or "the live" in unchanged
            assert len(stage.wire.writes()) == writes
            await heals(stage)
            await stage.push(web(), SETTINGS, message="fixed")
            await stage.rest()
            assert (stage.record.state, stage.record.findings) == (State.DONE, ())

    stage.play(script)
    phases = [line.split()[1] for line in stage.diary()]
    expected = ["done", "rejected", "DriftCorrected", "done"]
    assert [p for p in phases if p != "rolling"] == expected


async def heals(stage: Stage) -> None:
    """What somebody changes in the cluster is put back while the newest commit is rejected."""
    state = stage.state
    stage.meddle(config_map("settings", mode="slow"))
    await stage.rest(5)
    assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
    assert stage.state == state


def test_the_first_finding_of_a_rejection_is_an_error(staged: MakeStage) -> None:
    stage = staged()
    text = GOOD.replace("replicas: 4", "replicas: 1_0").replace("updateStrategy:", "updteStrategy:")

    async def script() -> None:
        async with stage.running():
            await stage.push(app=text, message="bad")
            await stage.rest()
            found = [(f.code, f.is_error) for f in stage.record.findings]
            assert found == [("GK1203", True), ("GK1013", False)]

    stage.play(script)


GONE: list[tuple[str, Mapping[str, str | None], str]] = [
    ("all files deleted", {"apps/web.yaml": None, "README.md": "x"}, "GK3202"),
    ("nothing but comments", {"apps/web.yaml": "# empty\n"}, "GK2301"),
    ("moved away", {"apps/web.yaml": None, "elsewhere/web.yaml": GOOD}, "GK3202"),
]


def test_a_namespace_that_is_there_already_is_no_reason_not_to_ask_the_cluster(
    staged: MakeStage,
) -> None:
    stage = staged()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}

    def refuse(request: ApiRequest) -> Forbidden | None:
        return Forbidden("by a policy") if request.name == "settings" else None

    async def script() -> None:
        stage.wire.refuse = refuse
        async with stage.running():
            await stage.push(space, web(), SETTINGS)
            await stage.rest()
            assert stage.state == "Rejected"
            assert stage.wire.writes() == []

    stage.play(script)


@pytest.mark.parametrize(("name", "files", "code"), GONE, ids=[row[0] for row in GONE])
def test_an_emptied_source_deletes_nothing(
    staged: MakeStage, name: str, files: Mapping[str, str | None], code: str
) -> None:
    stage = staged(path="apps")
    del name

    async def script() -> None:
        async with stage.running():
            stage.origin.commit({"apps/web.yaml": GOOD}, "good")
            await stage.follower.check()
            await stage.rest()
            stage.origin.commit(dict(files), "emptied")
            await stage.follower.check()
            await stage.rest()
            assert stage.state == "Rejected"
            assert stage.record.findings[0].code == code
            await heals(stage)
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert stage.state == "Rejected"
            await heals(stage)

    stage.play(script)
    assert len(stage.images()) == 4
    assert not any(w.startswith("delete") for w in stage.wire.writes())


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_a_change_that_cannot_go_in_place_is_caught_in_both_versions(
    staged: MakeStage, version: str
) -> None:
    """B-M24"""
    stage = staged()

    def in_place(**env: Any) -> dict[str, Any]:
        obj = web(podUpdatePolicy="InPlaceOnly")
        if version == "v1alpha1":
            obj["apiVersion"] = "apps.kruise.io/v1alpha1"
            obj["spec"]["updateStrategy"] = {"type": "InPlaceOnly"}
        container = obj["spec"]["template"]["spec"]["containers"][0]
        container["env"] = [{"name": k, "value": v} for k, v in env.items()]
        return obj

    async def script() -> None:
        async with stage.running():
            await stage.push(in_place(LEVEL="info"))
            await stage.rest()
            await stage.push(in_place(LEVEL="debug"))
            await stage.rest()
            finding = stage.record.findings[0]
            assert (finding.code, stage.record.state) == ("GK2104", State.REJECTED)
            assert finding.message.endswith('env of container "app"')
            assert "debug" in finding.places[0].snippet[-1][1]
            assert finding.places[0].label == "was info"

    stage.play(script)


STEPS = {
    "a manifest": ("GK1101", "b.yaml", "gitkruise validate a/b.yaml"),
    "a file that a shell would run": (
        "GK1101", "b $(id); c.yaml", "gitkruise validate 'a/b $(id); c.yaml'"
    ),
    "no manifest": (
        "GK3012", "b.yaml", "commit plain files in its place, or list a/b.yaml in .gitkruiseignore"
    ),
    "a pointer of LFS, which stays one": (
        "GK3013", "b.yaml", "commit plain files in its place, or list a/b.yaml in .gitkruiseignore"
    ),
    "a name that no command line takes": (
        "GK3015", "b\udcff.yaml", "give the file a name in UTF-8, with git mv"
    ),
    "a file that is too large": (
        "GK9005", "b.yaml",
        "split a/b.yaml into smaller files, or an object of more than 1 MiB into smaller ones",
    ),
    "a kustomization": (
        "GK3404", "kustomization.yaml",
        "correct a/kustomization.yaml, and try: gitkruise plan --include-dirty",
    ),
    "a base without a kustomization": (
        "GK3404", "base", "correct a/base, and try: gitkruise plan --include-dirty"
    ),
    "what only the cluster rejects": (
        "GK2102", "b.yaml",
        ("correct a/b.yaml, or the rule of the cluster that the message names, and try: "
         "gitkruise plan --server --include-dirty"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("code", "file", "step"), STEPS.values(), ids=STEPS)
def test_the_next_step_is_a_command_that_reads_the_file(code: str, file: str, step: str) -> None:
    places = (SourcePlace(file=f"a/{file}", line=1, column=1),)
    assert next_step(Finding(code=code, message="wrong", places=places)) == step
