"""A plan names what an object loses when git takes it over from another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.admission.conversion.registry import convert
from gitkruise.app import controller
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.preview.preview import Preview, live_preview
from gitkruise.kube.client.discovery import CRDS
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.takeover import handed_over
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, Stage, config_map, documents, web

pytestmark = pytest.mark.slow

GATES: Final = Gates()
FLUX: Final = {"kustomize.toolkit.fluxcd.io/name": "apps"}


def labelled(obj: Obj) -> dict[str, Any]:
    return {**obj, "metadata": {**obj["metadata"], "labels": FLUX}}


def with_env(obj: dict[str, Any]) -> dict[str, Any]:
    obj["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "OLD", "value": "1"}]
    return obj


def unsized(obj: dict[str, Any]) -> dict[str, Any]:
    del obj["spec"]["replicas"]
    return obj


WRITTEN: Final = ("spec.", "data.", "metadata.labels.")
ENV: Final = "spec.template.spec.containers.0.env"
ROWS: dict[str, tuple[Obj, Obj, str, list[str]]] = {
    # what it shows: what the tool applied, what git has, the tool, fields that go
    "a label": (labelled(config_map("a", x="1")), config_map("a", x="1"), "kustomize-controller",
                ["metadata.labels"]),
    "a value": (config_map("a", x="1", y="2"), config_map("a", x="1"), "helm", ["data.y"]),
    "what nobody applied as a whole stays": (
        config_map("a", x="1", y="2"), config_map("a", x="1"), "dashboard", []),
    "an environment variable": (with_env(web()), web(), "argocd-controller", [ENV]),
    "a number that has a default": (web(), unsized(web()), "kubectl", ["spec.replicas"]),
    "nothing": (web(), web(), "kubectl-client-side-apply", []),
}  # fmt: skip


def values(obj: Any, path: tuple[str | int, ...] = ()) -> dict[str, Any]:
    """The leaves of an object by path, without what a server writes."""
    if isinstance(obj, dict):
        items = [(key, one) for key, one in obj.items() if key not in {"managedFields", "status"}]
        return {k: v for key, one in items for k, v in values(one, (*path, key)).items()}
    if isinstance(obj, list):
        return {k: v for n, one in enumerate(obj) for k, v in values(one, (*path, n)).items()}
    return {".".join(map(str, path)): obj}


async def planned(stage: Stage, program: Any, commit: str) -> Preview:
    target = read_side(stage.repository, commit, program.config, stage.world.catalog, GATES)
    return await live_preview(
        None, target, stage.world.catalog, GATES, transport=stage.wire, now=stage.clock.now()
    )


@pytest.mark.parametrize("name", ROWS)
def test_a_plan_says_what_a_takeover_removes(staged: MakeStage, tmp_path: Path, name: str) -> None:
    there, wanted, tool, gone = ROWS[name]
    stage = staged()

    async def script() -> None:
        stage.meddle(there, manager=tool)
        await stage.rest(60)
        kind, own, group = there["kind"], there["metadata"]["name"], there["apiVersion"]
        before = values(stage.get(kind, own, group.rpartition("/")[0]))
        commit = stage.origin.commit({"one/a.yaml": documents(wanted)})
        program = options(stage, tmp_path, SOURCE + unit("one"))
        preview = await planned(stage, program, commit)
        (change,) = preview.changes
        paths = [".".join(map(str, f.path)) for f in change.fields]
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(120)
        after = values(stage.get(kind, own, group.rpartition("/")[0]))
        lost = [p for p in before if p.startswith(WRITTEN) and after.get(p) != before[p]]
        assert {path for path in lost if not any(path.startswith(one) for one in gone)} == set()
        assert [any(path.startswith(one) for path in lost) for one in gone] == [True] * len(gone)
        assert paths == gone
        assert preview.live
        assert (preview.forecast is not None) == any(one.startswith("spec.") for one in gone)

    stage.play(script)


@pytest.mark.parametrize(("served", "git"), [("v1alpha1", "v1beta1"), ("v1beta1", "v1alpha1")])
def test_a_cluster_that_serves_another_version_than_git_has(
    staged: MakeStage, tmp_path: Path, served: str, git: str
) -> None:
    """OpenKruise serves v1alpha1 alone up to 1.8."""
    stage = staged()
    there, wanted = convert(with_env(web()), served), convert(web("app:v2"), git)

    async def script() -> None:
        _serve(stage, "clonesets.apps.kruise.io", served)
        stage.meddle(there, manager="kubectl")
        await stage.rest(60)
        commit = stage.origin.commit({"one/a.yaml": documents(wanted)})
        program, catalog = options(stage, tmp_path, SOURCE + unit("one")), load_catalog()
        target = read_side(stage.repository, commit, program.config, catalog, GATES)
        preview = await live_preview(
            None, target, catalog, GATES, transport=stage.wire, now=stage.clock.now()
        )
        (change,) = preview.changes
        image = ENV.replace("env", "image")
        assert [".".join(map(str, f.path)) for f in change.fields] == [image, ENV]
        assert (preview.unplayed, preview.forecast is not None) == ((), True)

    stage.play(script)


def _serve(stage: Stage, definition: str, version: str) -> None:
    """Serve and store one version of a kind alone."""
    crd: Any = stage.get("CustomResourceDefinition", definition, CRDS.group)
    versions = [
        {**one, "served": one["name"] == version, "storage": one["name"] == version}
        for one in crd["spec"]["versions"]
    ]
    body = {**crd, "spec": {**crd["spec"], "versions": versions}}
    update = ApiRequest(verb="update", resource=CRDS, name=definition, body=body)
    stage.world.handle(update, stage.clock.now())
    stage.cluster.publish()


def test_a_plan_says_where_it_does_not_know(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    there, wanted = config_map("a", x="1"), config_map("a", x="2")

    async def script() -> None:
        stage.meddle({**there, "immutable": True}, manager="kubectl")
        commit = stage.origin.commit({"one/a.yaml": documents(wanted)})
        preview = await planned(stage, options(stage, tmp_path, SOURCE + unit("one")), commit)
        unknown, refused = preview.unplayed
        assert (unknown.code, unknown.is_error) == ("GK2110", False)
        assert "immutable" in dict(unknown.notes)["why"]
        assert (refused.code, refused.is_error) == ("GK2203", True)

    stage.play(script)


def test_an_object_that_is_ours_by_now_is_handed_over_as_it_is() -> None:
    """A controller may take it over while a plan reads the cluster."""
    ours = {"manager": "gitkruise", "operation": "Apply", "fieldsV1": {"f:data": {}}}
    live = config_map("a", x="1")
    live["metadata"]["managedFields"] = [ours]
    assert handed_over(live) is live
