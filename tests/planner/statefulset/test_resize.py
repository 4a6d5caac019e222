"""Claims of an Advanced StatefulSet grow while its pods are updated."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.errors import ApiError
from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET
from gitkruise.planner.statefulset.observe import observe_stateful_set
from gitkruise.planner.statefulset.plan import plan_stateful_set
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from tests.planner.statefulset.build import ASKED, CLAIM, GATE, IN_PLACE, StatefulLab, advanced
from tests.worlds import SPACE

ON: Final = Gates(stateful_set_auto_resize_pvc_gate=True)
WITH_PODS: Final = {"type": "OnPodRollingUpdate"}
KEY: Final = ObjectKey(*ADVANCED_STATEFULSET, SPACE, "db")


def data(size: str, **spec: Any) -> list[Obj]:
    """Claim templates."""
    asked = {**ASKED, "resources": {"requests": {"storage": size}}, **spec}
    return [{"metadata": {"name": "data"}, "spec": asked}]


def lab_of(gates: Gates = ON, *, claim: Obj | None = None, **spec: Any) -> StatefulLab:
    fields = {
        "volumeClaimTemplates": data("1Gi", **(claim or {})),
        "volumeClaimUpdateStrategy": WITH_PODS,
        **spec,
    }
    rolling = {**IN_PLACE, **fields.pop("rolling", {})}
    return StatefulLab(gates=gates, pod=GATE, rolling=rolling, **fields)


def sizes(lab: StatefulLab) -> list[tuple[str, str]]:
    """(asked, capacity) of the claims by ordinal."""
    return [
        (
            get(c, "spec", "resources", "requests", "storage"),
            get(c, "status", "capacity", "storage"),
        )
        for c in lab.world.objects(CLAIM, SPACE)
    ]


def storage_class(name: str, *, expands: bool) -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "namespace": ""},
        "provisioner": "example.com/disk",
        "allowVolumeExpansion": expands,
    }


def holds(lab: StatefulLab) -> dict[str, str]:
    snapshot = observe_stateful_set(lab.world, KEY, lab.now)
    assert snapshot is not None
    held = plan_stateful_set(snapshot, ON).held
    return {one.pod: one.detail for one in held if one.why in {Hold.UPDATING, Hold.CANNOT_UPDATE}}


def test_asts_55_claims_grow_with_the_update_of_their_pods() -> None:
    lab = lab_of(rolling={"partition": 2})
    spec: Any = {"volumeClaimTemplates": data("2Gi")}
    lab.change(**spec)
    assert sizes(lab) == [("1Gi", "1Gi"), ("1Gi", "1Gi"), ("2Gi", "2Gi")]
    lab.update(partition=1)
    assert lab.images == {"db-0": "v1", "db-1": "v2", "db-2": "v2"}
    assert sizes(lab) == [("1Gi", "1Gi"), ("2Gi", "2Gi"), ("2Gi", "2Gi")]
    assert "SuccessfulResize" in lab.events("db")
    (counts,) = lab.status["volumeClaims"]
    assert (counts["compatibleReplicas"], counts["compatibleReadyReplicas"]) == (2, 2)


def test_asts_55_alone_a_new_size_moves_no_pod() -> None:
    lab = lab_of()
    before = lab.uids
    lab.change(volumeClaimTemplates=data("2Gi"))
    assert sizes(lab) == [("2Gi", "2Gi")] * 3
    assert lab.uids == before


def test_asts_56_a_pod_whose_volumes_grow_counts_as_unavailable() -> None:
    lab = lab_of(claim={"storageClassName": "fixed"})
    lab.apply(storage_class("fixed", expands=False))
    lab.change(volumeClaimTemplates=data("2Gi", storageClassName="fixed"))
    assert sizes(lab) == [("1Gi", "1Gi"), ("1Gi", "1Gi"), ("2Gi", "1Gi")]
    lab.update()
    assert set(lab.images.values()) == {"v1"}
    assert holds(lab) == {"db-2": "waits for claim data-db-2 to grow"}
    (claim,) = (c for c in lab.world.objects(CLAIM, SPACE) if c["metadata"]["name"] == "data-db-2")
    waits = {"type": "FileSystemResizePending", "status": "True"}
    lab.patch(claim, {"status": {"conditions": [waits]}}, subresource="status")
    lab.run()
    assert lab.images == {"db-0": "v1", "db-1": "v1", "db-2": "v2"}


def test_asts_57_a_claim_that_cannot_follow_its_template() -> None:
    lab = lab_of(volumeClaimUpdateStrategy={"type": "OnDelete"}, claim={"storageClassName": "slow"})
    lab.change(volumeClaimTemplates=data("2Gi", storageClassName="fast"))
    lab.delete(lab.world.objects(CLAIM, SPACE)[0])
    lab.delete(lab.pod_named("db-0"))
    lab.run()
    assert sizes(lab)[0] == ("2Gi", "2Gi")
    lab.change(volumeClaimUpdateStrategy=WITH_PODS)
    lab.update(maxUnavailable=1)
    assert lab.images == {"db-0": "v1", "db-1": "v1", "db-2": "v1"}
    assert "data-db-2" in str(lab.status["conditions"])
    assert "differs from its template" in holds(lab)["db-2"]


def test_asts_57_a_larger_claim_stays() -> None:
    lab = lab_of()
    lab.change(volumeClaimTemplates=data("512Mi"))
    assert sizes(lab) == [("1Gi", "1Gi")] * 3
    (counts,) = lab.status["volumeClaims"]
    assert counts["compatibleReadyReplicas"] == 3


@pytest.mark.parametrize(
    ("gates", "strategy"),
    [
        pytest.param(ON, {"type": "OnDelete"}, id="ASTS-54"),
        pytest.param(ON, None, id="default"),
        pytest.param(Gates(), WITH_PODS, id="without the gate"),
    ],
)
def test_claims_stay_as_they_are(gates: Gates, strategy: Obj | None) -> None:
    lab = lab_of(gates, volumeClaimUpdateStrategy=strategy)
    lab.change(volumeClaimTemplates=data("2Gi"))
    lab.update()
    assert sizes(lab) == [("1Gi", "1Gi")] * 3
    assert set(lab.images.values()) == {"v2"}


OTHER: Final = {"metadata": {"name": "logs"}, "spec": ASKED}


@pytest.mark.parametrize(
    ("templates", "field"),
    [
        pytest.param([*data("1Gi"), OTHER], "spec.volumeClaimTemplates", id="added"),
        pytest.param([], "spec.volumeClaimTemplates", id="removed"),
        pytest.param(
            data("1Gi", accessModes=["ReadWriteMany"]), "spec.volumeClaimTemplates[0]", id="modes"
        ),
    ],
)
def test_asts_22_changes_that_no_claim_can_follow_are_refused(
    templates: list[Obj], field: str
) -> None:
    lab = lab_of()
    with pytest.raises(ApiError, match="OnPodRollingUpdate") as error:
        lab.patch(advanced(), {"spec": {"volumeClaimTemplates": templates}})
    assert field in str(error.value)
    free = lab_of(Gates())
    free.patch(advanced(), {"spec": {"volumeClaimTemplates": templates}})


def test_asts_22_the_strategy_is_a_known_one() -> None:
    with pytest.raises(ApiError, match="volumeClaimUpdateStrategy"):
        lab_of(volumeClaimUpdateStrategy={"type": "Sometimes"})
