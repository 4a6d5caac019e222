"""A unit with a chart of a repository: new versions, a repository that is away, credentials."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gitkruise.errors import InvalidManifests
from gitkruise.git.helm import render as helm_render
from gitkruise.git.helm.release import FetchedChart
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.post_build import offline
from gitkruise.gitops.charts.cache import ChartCache, wanted_of
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.preview.preview import offline_preview
from gitkruise.gitops.preview.report import report_of
from gitkruise.gitops.workers.pool import WorkerPool
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec, Unit, UnitSpec
from gitkruise.model.gitops.record import ChartRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.feature_gates import Gates
from tests.git.helm_program import real
from tests.git.repos import make_origin, run_git
from tests.gitops.build.test_charts import commit, stage_with
from tests.gitops.build.test_post_build import all_output, secret
from tests.gitops.charts.hosts import SETTINGS, Host, chart, serving
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, documents
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

CANARY = "hunter2-hunter2"
ONE, TWO = chart("1.0.0"), chart("1.1.0")


@pytest.fixture
def host() -> Iterator[Host]:
    with serving() as found:
        found.publish(("1.0.0", ONE))
        yield found


def render(host: Host, version: str = "1.x", **more: Any) -> dict[str, Any]:
    return {
        "kind": "helm",
        "helm": {"repository": host.url, "chart": "web", "version": version, **more},
    }


def fetching(staged: MakeStage, host: Host, version: str = "1.x", **more: Any) -> Stage:
    return stage_with(staged, real(), path=".", interval="1m", render=render(host, version, **more))


def version(stage: Stage) -> str:
    return str(stage.get("ConfigMap", "settings")["data"]["version"])


def test_a_new_version_is_taken_at_the_same_commit(staged: MakeStage, host: Host) -> None:
    stage = fetching(staged, host, valuesFiles=["prod/web.yaml"])

    async def script() -> None:
        async with stage.running():
            await commit(stage, {"prod/web.yaml": "region: eu\n"})
            assert stage.state == "Done", stage.record.findings
            assert stage.get("ConfigMap", "settings")["data"] == {
                "version": "1.0.0", "region": "eu",
            }  # fmt: skip
            writes = len(stage.wire.writes())
            await stage.rest(200)
            assert len(stage.wire.writes()) == writes
            host.publish(("1.0.0", ONE), ("1.1.0", TWO))
            await stage.rest(90)
            assert version(stage) == "1.1.0"
            assert (stage.state, stage.record.findings) == ("Done", ())
            await stage.rest(60)

    stage.play(script)
    digest = hashlib.sha256(TWO).hexdigest()
    assert stage.record.chart == ChartRecord(
        repository=host.url, name="web", version="1.1.0", digest=digest
    )
    status = stage.status_file(f"units/{stage.record.unit}/status.yaml")
    assert f"version: 1.1.0\n  digest: sha256:{digest}" in status
    body = run_git(stage.origin.bare, "log", "-1", "--format=%B", STATUS)
    assert f"chart web 1.1.0 of {host.url}" in body


def test_a_version_that_is_not_there_changes_nothing(staged: MakeStage, host: Host) -> None:
    stage = fetching(staged, host)

    async def script() -> None:
        async with stage.running():
            await commit(stage, {"README": "x"})
            assert version(stage) == "1.0.0"
            host.publish(("2.0.0", chart("2.0.0")))
            await stage.rest(90)
            (finding,) = stage.record.findings
            assert (stage.record.state, finding.code) == (State.REJECTED, "GK3414")
            assert dict(finding.notes)["newest"] == "2.0.0"
            assert version(stage) == "1.0.0"
            host.publish(("1.1.0", TWO))
            await stage.rest(300)
            assert (stage.state, version(stage)) == ("Done", "1.1.0")

    stage.play(script)


def test_a_repository_that_is_away_is_reported_and_deletes_nothing(
    staged: MakeStage, host: Host
) -> None:
    stage = fetching(staged, host)

    async def script() -> None:
        async with stage.running():
            await commit(stage, {"README": "x"})
            host.replies.clear()
            await stage.rest(90)
            (finding,) = stage.record.findings
            assert (stage.state, finding.code) == ("Done", "GK3417")
            await commit(stage, {"README": "y"})
            assert [f.code for f in stage.record.findings] == ["GK3417"]
            assert stage.record.attempted == stage.record.causal, "no commit changes the unit"
            stage.meddle(config_map("settings", version="other"))
            await stage.rest()
            assert version(stage) == "1.0.0", "drift is corrected meanwhile"
            host.publish(("2.0.0", TWO))
            await stage.rest(90)
            (finding,) = stage.record.findings  # the repository answers again
            assert (stage.state, finding.code) == ("Rejected", "GK3414")
            assert dict(finding.notes)["unchanged"].startswith("what was applied of commit")
            host.publish(("1.1.0", TWO))
            await stage.rest(300)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert version(stage) == "1.1.0"

    stage.play(script)


def test_a_unit_without_a_chart_says_why_and_others_go_on(staged: MakeStage, host: Host) -> None:
    stage = fetching(staged, host)
    host.replies.clear()
    plain = msgspec.convert({"sourceRef": {"name": "src"}, "path": "plain"}, UnitSpec)
    other, reporter = stage.add_unit("shop/other", plain)

    async def script() -> None:
        async with stage.running(other):
            head = stage.origin.commit({"plain/a.yaml": documents(config_map("a"))})
            await stage.follower.check()
            other.offer(head)
            await stage.rest()
            assert [f.code for f in stage.record.findings] == ["GK3413"]
            assert reporter.record.state is State.DONE
            host.publish(("1.0.0", ONE))
            await stage.rest(120)
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_credentials_are_those_of_the_units_namespace(staged: MakeStage, host: Host) -> None:
    host.user = "Basic " + base64.b64encode(f"ann:{CANARY}".encode()).decode()
    stage = fetching(staged, host, secretRef={"name": "charts"})

    async def script() -> None:
        async with stage.running():
            await commit(stage, {"README": "x"})
            (finding,) = stage.record.findings
            assert (finding.code, finding.message) == (
                "GK4203",
                f"Secret {SPACE}/charts, which render.helm.secretRef names, does not exist",
            )
            stage.meddle(secret("charts", username="ann"))
            await stage.rest()
            assert [f.code for f in stage.record.findings] == ["GK7025"]
            stage.meddle(secret("charts", username="ann", password="wrong"))
            await stage.rest()
            assert [f.code for f in stage.record.findings] == ["GK3413"]
            stage.meddle(secret("charts", username="ann", password=CANARY))
            await stage.rest(120)
            assert stage.state == "Done", stage.record.findings

    stage.play(script)
    assert CANARY not in all_output(stage)


def test_errors_name_files_of_the_archive(staged: MakeStage, host: Host) -> None:
    host.publish(("1.0.0", chart("1.0.0", template=SETTINGS + "x: {{ .Values.a.b }}")))
    stage = fetching(staged, host, version="1.0.0")

    async def script() -> None:
        async with stage.running():
            await commit(stage, {"README": "x"})
            (finding,) = stage.record.findings
            assert finding.code == "GK3408"
            assert str(finding.places[0]) == "web-1.0.0.tgz/templates/settings.yaml:7:14"
            following = dict(finding.notes)["next"]
            assert f"helm template web --repo {host.url} --version 1.0.0" in following

    stage.play(script)


def test_an_archive_with_another_chart_is_refused(staged: MakeStage, host: Host) -> None:
    host.publish(("1.0.0", TWO))
    stage = fetching(staged, host)

    async def script() -> None:
        async with stage.running():
            await commit(stage, {"README": "x"})
            (finding,) = stage.record.findings
            assert finding.code == "GK3415"
            assert "the archive of chart web 1.0.0 has chart web 1.1.0" in finding.message
            assert dict(finding.notes)["next"].startswith("name another version")

    stage.play(script)


# Plans ------------------------------------------------------------------------------------------


def unit_of(host: Host, written: str = "1.x") -> Unit:
    spec = {"sourceRef": {"name": "src"}, "render": render(host, written)}
    return Unit("shop", "web", msgspec.convert(spec, UnitSpec))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ChartCache:
    cache = ChartCache(tmp_path / "charts")
    monkeypatch.setattr(ChartCache, "shared", cache)
    return cache


def keep(cache: ChartCache, unit: Unit, at: str, data: bytes) -> FetchedChart:
    wanted = wanted_of(unit)
    assert wanted is not None
    return cache.keep(wanted, at, data)


def test_an_offline_plan_uses_what_was_fetched_and_says_so(
    host: Host, kept: ChartCache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = f"{real()}/helm", 3
    monkeypatch.setattr(helm_render, "find", lambda _: program)
    source = {"shop/src": GitSource("shop", "src", GitSourceSpec(url="."))}
    before, after = unit_of(host, "1.0.0"), unit_of(host, "1.1.0")
    head = make_origin(tmp_path).commit({"README": "x"})
    with Repository.open(str(tmp_path / "origin.git")) as repository:

        def side(unit: Unit) -> Any:
            config = Config(source, {unit.id: unit})
            return read_side(repository, head, config, load_catalog(), Gates())

        (finding,) = side(before).findings
        assert finding.code == "GK3418"
        assert "chart web 1.0.0 of unit shop/web was not fetched yet" in finding.message
        keep(kept, before, "1.0.0", ONE)
        keep(kept, after, "1.1.0", TWO)
        sides = side(before), side(after)
    assert sides[1].objects[0].obj["data"] == {"version": "1.1.0", "region": "none"}
    assert host.requests == []
    preview = offline_preview(*sides, load_catalog(), Gates())
    report = report_of(preview, *sides)
    text = "\n".join(span.text for span in report.blast)
    digest = hashlib.sha256(TWO).hexdigest()[:12]
    assert f"unit shop/web: chart web 1.0.0 → 1.1.0, sha256:{digest}" in text


def test_without_a_cache_nothing_is_known(host: Host) -> None:
    with pytest.raises(InvalidManifests, match="GK3418"):
        offline(unit_of(host))


def test_a_stranger_sees_no_chart_that_was_fetched(
    host: Host, kept: ChartCache, tmp_path: Path
) -> None:
    unit = unit_of(host, "1.0.0")
    keep(kept, unit, "1.0.0", ONE)
    origin = make_origin(tmp_path)
    head = origin.commit({"README": "x"})
    config = Config({"shop/src": GitSource("shop", "src", GitSourceSpec(url="."))}, {unit.id: unit})
    pool = WorkerPool(tmp_path, 1)
    try:
        with Repository.open(str(origin.bare)) as repository:
            rules = (config, load_catalog(), Gates())
            ours = asyncio.run(pool.side(repository, head, *rules))
            theirs = asyncio.run(pool.plan_text(repository, *rules, base="", head=head))
    finally:
        pool.close()
    assert "GK3418" not in {finding.code for finding in ours.findings}
    assert [finding.code for finding in theirs.findings] == ["GK3418"]
