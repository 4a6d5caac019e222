"""A cluster that serves CloneSets in another version than gitkruise drives says so."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.conversion.registry import convert
from gitkruise.gitops.cluster.engine import DRIVEN_VERSION
from gitkruise.kube.client.discovery import CRDS
from gitkruise.planner.statefulset.plan import ADVANCED
from gitkruise.planner.workloads import CLONESET, SIDECARSET
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from tests.gitops.stage import MakeStage, Stage, documents, web
from tests.worlds import installable_crds

NAME = "clonesets.apps.kruise.io"


def serve(stage: Stage, **versions: bool) -> None:
    """Let the definition of CloneSets serve only some versions."""
    (crd,) = (crd for crd in installable_crds() if crd["metadata"]["name"] == NAME)
    changed: list[Any] = [
        {**v, "served": versions[v["name"]], "storage": v["name"] == "v1alpha1"}
        for v in crd["spec"]["versions"]
    ]
    body = {"spec": {"versions": changed}}
    request = ApiRequest(
        verb="patch", resource=CRDS, name=NAME, body=body, content_type=MERGE_PATCH
    )
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


def test_the_version_that_is_driven_is_the_planners() -> None:
    assert {w.version for w in (CLONESET, SIDECARSET, ADVANCED)} == {DRIVEN_VERSION}


@pytest.mark.slow
def test_a_unit_says_that_no_engine_drives_its_version(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        serve(stage, v1alpha1=True, v1beta1=False)
        stage.origin.commit({"web.yaml": documents(convert(web(), "v1alpha1"))})
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            (finding,) = stage.record.findings
            assert (finding.code, stage.state) == ("GK4403", "Stuck")
            assert finding.message == (
                "no engine drives the pods of CloneSet shop/web: this cluster serves CloneSet in"
                " v1alpha1, and gitkruise drives v1beta1"
            )
            serve(stage, v1alpha1=True, v1beta1=True)
            await stage.rest(120)
            assert (stage.record.findings, stage.state) == ((), "Done")

    stage.play(script)
