"""A controller that loses its Lease: its account may not write it, or another process leads."""

from __future__ import annotations

from pathlib import Path

from gitkruise.app import controller
from gitkruise.errors import ApiError, Forbidden
from gitkruise.kube.cache.leader_election import Lease
from gitkruise.kube.system.lease_terms import LeaseName
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.planner.sync.annotations import COMMIT, DIGEST, MANAGER
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, config_map, documents, web

SINK = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: out, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
"""
PROMOTED = (
    ", sinkRef: {{name: out}}, target: {{namespace: shop}}, promotion: {{via: commit,"
    " workload: {{kind: CloneSet, name: web}}, steps: [{{partition: 2, soak: 2m}},"
    " {{partition: 0}}]}}"
)
DENIED = Forbidden("leases.coordination.k8s.io is forbidden: no update")


def test_a_unit_reports_the_missing_right_and_recovers(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("web") + unit("other"))

    def refuse(request: ApiRequest) -> ApiError | None:
        return DENIED if (request.verb, request.name) == ("update", "gitkruise-sync") else None

    async def script() -> None:
        one = {"other/app.yaml": documents(config_map("calm", key="v1"))}
        stage.origin.commit(one | {"web/app.yaml": documents(config_map("moved", key="v1"))}, "v1")
        async with controller(program, stage.wire, stage.clock) as running:
            await stage.rest(60)
            records = running.reporters
            stage.wire.refuse = refuse
            await stage.rest(60)
            states = {name: str(one.record.state) for name, one in records.items()}
            assert states == {"shop/web": "Done", "shop/other": "Done"}, "there is nothing to write"
            stage.origin.commit({"web/app.yaml": documents(config_map("moved", key="v2"))}, "v2")
            await stage.rest(120)
            web = records["shop/web"].record
            (finding,) = web.findings
            assert (str(web.state), finding.code) == ("Unknown", "GK4105")
            assert finding.message == (
                "nothing may be written: lease kube-system/gitkruise-sync cannot be written: "
                "leases.coordination.k8s.io is forbidden: no update"
            )
            assert str(records["shop/other"].record.state) == "Done"
            assert stage.get("ConfigMap", "moved")["data"] == {"key": "v1"}
            stage.wire.refuse = lambda _: None
            await stage.rest(60)
            web = records["shop/web"].record
            assert (str(web.state), web.findings) == ("Done", ())
            assert stage.get("ConfigMap", "moved")["data"] == {"key": "v2"}

    stage.play(script)


def test_no_step_is_committed_while_another_process_leads(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + SINK + unit("web", PROMOTED))
    name = LeaseName(namespace="kube-system", name="gitkruise-sync", identity="other")
    other = Lease(name, stage.wire, stage.clock, urgent=True)

    async def script() -> None:
        stage.origin.commit({"web/app.yaml": documents(web())}, "first")
        async with controller(program, stage.wire, stage.clock) as running:
            await stage.rest(60)
            canary = documents(web("app:v2", partition=2))
            head = stage.origin.commit({"web/app.yaml": canary}, "canary")
            await stage.rest(90)
            assert str(running.reporters["shop/web"].record.state) == "Held"
            async with other.held():
                await stage.rest(600)
                assert run_git(stage.origin.bare, "rev-parse", "main") == head
            await stage.rest(60)
            assert run_git(stage.origin.bare, "rev-parse", "main") != head

    stage.play(script)


def test_what_another_leader_applied_is_news_for_the_next(
    staged: MakeStage, tmp_path: Path
) -> None:
    """The process that leads again has to read git first: the other one may have seen more."""
    stage, records = staged(), list[UnitRecord]()
    program = options(stage, tmp_path, SOURCE + unit("web"), listeners=(records.append,))
    name = LeaseName(namespace="kube-system", name="gitkruise-sync", identity="other")
    other = Lease(name, stage.wire, stage.clock, urgent=True)

    async def script() -> None:
        stage.origin.commit({"web/app.yaml": documents(config_map("moved", key="v1"))}, "v1")
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)
            async with other.held():
                newer = documents(config_map("moved", key="v2"))
                commit = stage.origin.commit({"web/app.yaml": newer}, "v2")
                meta = stage.get("ConfigMap", "moved")["metadata"]
                notes = {**meta["annotations"], DIGEST: "d" * 16, COMMIT: commit}
                marks = {"annotations": notes, "labels": meta["labels"]}
                theirs = config_map("moved", key="v2")
                theirs = {**theirs, "metadata": {**theirs["metadata"], **marks}}
                stage.meddle(theirs, manager=MANAGER)
                away = stage.origin.bare.rename(tmp_path / "away")
                await stage.rest(60)
            records.clear()
            await stage.rest(60)
            away.rename(stage.origin.bare)
            await stage.rest(300)
        *earlier, last = [str(record.state) for record in records]
        assert (set(earlier), last) == ({"Rolling"}, "Done"), "not Done before git was read"
        assert stage.get("ConfigMap", "moved")["data"] == {"key": "v2"}

    stage.play(script)
