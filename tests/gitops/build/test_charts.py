"""A unit with a chart: values of the cluster, broken templates, a machine without helm."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gitkruise.git.helm import render
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import Builder
from gitkruise.gitops.build.post_build import offline, wants
from gitkruise.gitops.build.release import ASSUMED, release_of
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec, Unit, UnitSpec
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import kept
from gitkruise.wire.primitives.names import Obj
from tests.git.helm_program import real, stand_in
from tests.git.repos import make_origin
from tests.gitops.build.test_post_build import all_output, secret
from tests.gitops.stage import MakeStage, Stage, config_map, documents
from tests.worlds import SPACE

CANARY = "hunter2-hunter2"
SETTINGS = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data:
  region: {{ .Values.region }}
  kube: {{ .Capabilities.KubeVersion.Version }}
  engine: {{ .Capabilities.APIVersions.Has "apps.kruise.io/v1alpha1/CloneSet" | quote }}
"""
SECRET = """\
apiVersion: v1
kind: Secret
metadata: {name: made}
stringData: {token: {{ .Values.token | quote }}}
"""
CHART = {
    "chart/Chart.yaml": "apiVersion: v2\nname: web\nversion: 1.0.0\n",
    "chart/values.yaml": "region: none\ntoken: none\n",
    "chart/templates/settings.yaml": SETTINGS,
    "chart/templates/secret.yaml": SECRET,
}
HELM = {"kind": "helm", "helm": {"valuesFrom": [{"configMap": "web"}]}}


def values(text: str) -> Obj:
    return {**config_map("web"), "data": {"values.yaml": text}}


def stage_with(staged: MakeStage, search: str, path: str = "chart", **spec: Any) -> Stage:
    """A stage whose builder finds helm in `search`."""
    stage = staged(path=path, **spec)
    validator = stage.unit._validator
    validator._reader = Builder(
        repository=stage.repository, unit=stage.unit.unit, gates=Gates(),
        cache=validator._reader.cache, search=search,
    )  # fmt: skip
    return stage


async def commit(stage: Stage, files: dict[str, str | None]) -> None:
    stage.origin.commit(files)
    await stage.follower.check()
    await stage.rest()


@pytest.mark.slow
def test_values_of_the_cluster_are_rendered_again_when_they_change(staged: MakeStage) -> None:
    stage = stage_with(staged, real(), render=HELM, interval="1m")
    stage.meddle(values("region: eu"))

    async def script() -> None:
        async with stage.running():
            await commit(stage, {**CHART})
            assert stage.state == "Done", stage.record.findings
            data = stage.get("ConfigMap", "settings")["data"]
            assert data == {"region": "eu", "kube": data["kube"], "engine": "true"}
            assert data["kube"].startswith("v1.34")
            writes = len(stage.wire.writes())
            await stage.rest(600)
            assert len(stage.wire.writes()) == writes
            stage.meddle(values("region: us"))
            await stage.rest(90)
            assert stage.get("ConfigMap", "settings")["data"]["region"] == "us"
            assert stage.state == "Done"

    stage.play(script)


@pytest.mark.slow
def test_a_source_of_values_is_waited_for_unless_it_is_optional(staged: MakeStage) -> None:
    sources = [{"configMap": "web"}, {"secret": "more", "optional": True}]
    stage = stage_with(staged, real(), render={"kind": "helm", "helm": {"valuesFrom": sources}})

    async def script() -> None:
        async with stage.running():
            await commit(stage, {**CHART})
            (finding,) = stage.record.findings
            assert (finding.code, finding.message) == (
                "GK4203",
                f"ConfigMap {SPACE}/web, which render.helm.valuesFrom names, does not exist",
            )
            stage.meddle(config_map("web", other="x"))
            await stage.rest()
            assert "has no entry values.yaml" in stage.record.findings[0].message
            stage.meddle(values("region: eu"))
            await stage.rest()
            assert stage.state == "Done"

    stage.play(script)


@pytest.mark.slow
def test_a_secret_value_reaches_secrets_and_nothing_else(staged: MakeStage) -> None:
    stage = stage_with(
        staged, real(), render={"kind": "helm", "helm": {"valuesFrom": [{"secret": "web"}]}}
    )
    stage.meddle(secret("web", values_yaml=f"token: {CANARY}"))

    async def script() -> None:
        async with stage.running():
            await commit(stage, {**CHART})
            assert stage.state == "Done", stage.record.findings
            data = stage.get("Secret", "made")["data"]
            assert base64.b64decode(data["token"]).decode() == CANARY
            leak = SETTINGS.replace(".Values.region", ".Values.token")
            await commit(stage, {"chart/templates/settings.yaml": leak})
            assert [f.code for f in stage.record.findings] == ["GK1403"]
            await commit(stage, {"chart/templates/settings.yaml": "{{ fail .Values.token }}"})
            assert [f.code for f in stage.record.findings] == ["GK3408"]

    stage.play(script)
    assert CANARY not in all_output(stage)


@pytest.mark.slow
def test_a_broken_template_changes_nothing(staged: MakeStage) -> None:
    stage = stage_with(staged, real(), render={"kind": "helm"})

    async def script() -> None:
        async with stage.running():
            await commit(stage, {**CHART})
            broken = SETTINGS + "x: {{ .Values.a.b }}"
            await commit(stage, {"chart/templates/settings.yaml": broken})
            (finding,) = stage.record.findings
            assert (stage.record.state, finding.code) == (State.REJECTED, "GK3408")
            assert str(finding.places[0]) == "chart/templates/settings.yaml:8:14"
            assert stage.get("ConfigMap", "settings")["data"]["region"] == "none"

    stage.play(script)


def test_without_helm_the_unit_reports_it_and_keeps_its_objects(
    staged: MakeStage, tmp_path: Path
) -> None:
    shown = (
        "printf -- '---\\n# Source: web/templates/settings.yaml\\n"
        "apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: settings}\\n'"
    )
    search = stand_in(tmp_path / "bin", shown)
    stage = stage_with(staged, search, render={"kind": "helm"})

    async def script() -> None:
        async with stage.running():
            await commit(stage, {**CHART})
            assert stage.state == "Done", stage.record.findings
            (tmp_path / "bin" / "helm").unlink()
            await commit(stage, {"chart/values.yaml": "region: us\n"})
            assert [f.code for f in stage.record.findings] == ["GK3401"]
            assert stage.get("ConfigMap", "settings")

    stage.play(script)


@pytest.mark.slow
def test_a_finding_of_a_template_leads_to_no_check_of_manifests(staged: MakeStage) -> None:
    stage = stage_with(staged, real(), render={"kind": "helm"})

    async def script() -> None:
        async with stage.running():
            slip = SETTINGS.replace("\ndata:", "\ndat:")
            await commit(stage, {**CHART, "chart/templates/settings.yaml": slip})
            (finding,) = stage.record.findings
            assert finding.code == "GK1203"
            assert str(finding.places[0]) == "chart/templates/settings.yaml:4:1"
            following = dict(finding.notes)["next"]
            assert following == "correct the template or the values, and try: gitkruise plan"

    stage.play(script)


def test_a_release_without_a_cluster_says_what_it_assumes() -> None:
    spec = {"sourceRef": {"name": "src"}, "render": HELM, "target": {"namespace": "prod"}}
    unit = Unit("shop", "web", msgspec.convert(spec, UnitSpec))
    given = offline(unit).release
    assert given is not None
    assert (given.kube_version, given.assumed, given.unread) == (
        ASSUMED, True, ("ConfigMap shop/web",),
    )  # fmt: skip
    assert wants(unit)
    release = release_of(unit, load_catalog(), given)
    assert release is not None
    assert (release.name, release.namespace) == ("web", "prod")
    assert "apps.kruise.io/v1alpha1/CloneSet" in release.api_versions
    assert "apps/v1/Deployment" not in release.api_versions


def test_an_object_that_helm_would_keep_is_kept() -> None:
    assert kept(config_map("a", {"helm.sh/resource-policy": "keep"}))
    assert not kept(config_map("a", {"helm.sh/resource-policy": "other"}))


def test_a_plan_without_helm_reports_the_unit_with_the_chart_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(render, "UNDERSTOOD", ())  # whatever is installed here
    origin = make_origin(tmp_path)
    head = origin.commit({**CHART, "plain/a.yaml": documents(config_map("a"))})
    units = {
        name: Unit("shop", name, msgspec.convert({"sourceRef": {"name": "src"}, **spec}, UnitSpec))
        for name, spec in (
            ("web", {"path": "chart", "render": {"kind": "helm"}}),
            ("rest", {"path": "plain"}),
        )
    }
    config = Config(
        {"shop/src": GitSource("shop", "src", GitSourceSpec(url="."))},
        {f"shop/{name}": unit for name, unit in units.items()},
    )
    with Repository.open(str(origin.bare)) as repository:
        side = read_side(repository, head, config, load_catalog(), Gates())
    assert [f.code for f in side.findings] == ["GK3401"]
    assert [d.key.name for d in side.objects] == ["a"]
