"""Deletions, evictions and updates that a PodUnavailableBudget lets pass or refuses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from gitkruise.errors import Forbidden
from gitkruise.model.planning.unavailable_budget import NO_PROTECTION
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import PODS, STRATEGIC_PATCH, ApiRequest
from tests.worlds import SPACE, Lab, budget, cloneset, pod

BOTH = Gates(pod_unavailable_budget_update_gate=True)
USED_UP = (
    'admission webhook "vpod.kb.io" denied the request: podunavailablebudget.policy.kruise.io'
    ' "keep" is forbidden: pub unavailable allowed is negative'
)
IMAGE = {"spec": {"containers": [{"name": "app", "image": "app:v2"}]}}


def lab_of(replicas: int, gates: Gates | None = None, **spec: Any) -> Lab:
    lab = Lab(gates=gates)
    lab.apply(cloneset(replicas=replicas))
    lab.apply(budget(**spec))
    lab.run(60)
    return lab


def names(lab: Lab) -> list[str]:
    return [one["metadata"]["name"] for one in lab.pods()]


def delete(lab: Lab, name: str, **options: Any) -> bool:
    """Return whether the pod may be deleted."""
    return _passes(lab, verb="delete", name=name, body=options or None)


def evict(lab: Lab, name: str, **options: Any) -> bool:
    meta = {"name": name, "namespace": SPACE}
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    more = {"deleteOptions": options} if options else {}
    return _passes(lab, verb="create", name=name, subresource="eviction", body={**body, **more})


def change(lab: Lab, name: str, body: Obj) -> bool:
    return _passes(lab, verb="patch", name=name, body=body, content_type=STRATEGIC_PATCH)


def _passes(lab: Lab, **fields: Any) -> bool:
    try:
        lab.world.handle(ApiRequest(resource=PODS, namespace=SPACE, **fields), lab.now)
    except Forbidden as error:
        if error.message != USED_UP:
            raise
        return False
    return True


def status(lab: Lab) -> Mapping[str, Any]:
    found: Mapping[str, Any] = lab.get(budget())["status"]
    return found


def test_budget_20_nothing_is_allowed() -> None:
    lab = lab_of(2, minAvailable=2)
    assert not delete(lab, names(lab)[0])
    assert not evict(lab, names(lab)[0])
    assert len(names(lab)) == 2


def test_budget_21_a_pod_that_is_not_available_is_free() -> None:
    lab = lab_of(2, minAvailable=2)
    mark = {"metadata": {"labels": {"unavailable-pod.fluid.io/drain": "yes"}}}
    lab.patch(pod(names(lab)[0]), mark)
    assert delete(lab, names(lab)[0])
    assert not delete(lab, names(lab)[1])


@pytest.mark.parametrize("word", ["true", "1", "T"])
def test_budget_22_a_pod_may_be_exempt(word: str) -> None:
    lab = lab_of(2, minAvailable=2)
    lab.patch(pod(names(lab)[0]), {"metadata": {"annotations": {NO_PROTECTION: word}}})
    assert delete(lab, names(lab)[0])


def test_budget_22_another_word_exempts_nothing() -> None:
    lab = lab_of(2, minAvailable=2)
    lab.patch(pod(names(lab)[0]), {"metadata": {"annotations": {NO_PROTECTION: "yes"}}})
    assert not delete(lab, names(lab)[0])


def test_budget_23_an_operation_that_is_not_protected() -> None:
    lab = lab_of(2, minAvailable=2, protectOperations=["EVICT"])
    assert not evict(lab, names(lab)[0])
    assert delete(lab, names(lab)[0])
    other = lab_of(2, minAvailable=2, protectOperations=["DELETE"])
    assert evict(other, names(other)[0])  # and its deletion is not asked for again


def test_budget_24_26_each_pod_is_paid_for_once() -> None:
    lab = lab_of(3, maxUnavailable=1)
    first, second, _ = names(lab)
    assert delete(lab, first)
    assert status(lab)["unavailableAllowed"] == 0
    assert list(status(lab)["disruptedPods"]) == [first]
    assert not delete(lab, second)
    assert delete(lab, first)


def test_budget_25_a_dry_run_records_nothing() -> None:
    lab = lab_of(3, maxUnavailable=1)
    first, second, _ = names(lab)
    assert delete(lab, first, dryRun=["All"])
    assert evict(lab, second, dryRun=["All"])
    assert status(lab)["unavailableAllowed"] == 1
    assert "disruptedPods" not in status(lab)
    used_up = lab_of(2, minAvailable=2)
    assert not delete(used_up, names(used_up)[0], dryRun=["All"])


def test_budget_27_the_gate_of_deletions() -> None:
    lab = lab_of(
        2,
        Gates(pod_unavailable_budget_delete_gate=False, pod_unavailable_budget_update_gate=True),
        minAvailable=2,
    )
    assert delete(lab, names(lab)[0])


def test_budget_28_to_30_updates_behind_their_gate() -> None:
    off, on = lab_of(2, minAvailable=2), lab_of(2, BOTH, minAvailable=2)
    assert change(off, names(off)[0], IMAGE)
    assert not change(on, names(on)[0], IMAGE)
    assert change(on, names(on)[0], {"metadata": {"labels": {"a": "b"}}})
    assert not change(
        on, names(on)[0], {"metadata": {"labels": {"unavailable-pod.fluid.io/a": ""}}}
    )


def test_an_update_that_passes_is_recorded() -> None:
    lab = lab_of(3, BOTH, maxUnavailable=1)
    assert change(lab, names(lab)[0], IMAGE)
    assert list(status(lab)["unavailablePods"]) == names(lab)[:1]
    assert not change(lab, names(lab)[1], IMAGE)


def test_budget_31_without_its_budget_a_pod_is_free() -> None:
    lab = lab_of(2, minAvailable=2)
    lab.delete(budget())
    assert delete(lab, names(lab)[0])


def test_budget_32_ignored_pods() -> None:
    ignored = {"matchLabels": {"force": "yes"}}
    lab = lab_of(2, minAvailable=2, ignoredPodSelector=ignored)
    lab.patch(pod(names(lab)[0]), {"metadata": {"labels": {"force": "yes"}}})
    assert delete(lab, names(lab)[0])
    assert not delete(lab, names(lab)[1])


def test_budget_33_a_collection_ends_at_the_first_refusal() -> None:
    lab = lab_of(3, maxUnavailable=1)
    request = ApiRequest(verb="deletecollection", resource=PODS, namespace=SPACE)
    with pytest.raises(Forbidden, match="pub unavailable allowed is negative"):
        lab.world.handle(request, lab.now)
    going = [one for one in lab.pods() if "deletionTimestamp" in one["metadata"]]
    assert len(going) == 1


def test_pub_50_too_many_records() -> None:
    lab = lab_of(2, minAvailable=1)
    at = "2026-11-21T10:00:00Z"
    many = {"disruptedPods": {f"p{n}": at for n in range(2001)}}
    lab.patch(budget(), {"status": many}, subresource="status")
    with pytest.raises(Forbidden, match="map too big"):
        delete(lab, names(lab)[0])
