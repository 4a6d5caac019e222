"""Quirks of OpenKruise's SidecarSets that stay, because objects and pods depend on them."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.conversion.registry import convert
from gitkruise.errors import InvalidObject
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from gitkruise.model.workloads.sidecarset_revision import new_revision, sidecarset_revision_data
from tests.admission.kruise.test_sidecarset import HOT, LAVISH, refused, side, sidecarset
from tests.admission.writes import admitted
from tests.world.write.test_sidecar_injection import born, names, web
from tests.world.write.test_sidecar_injection import sidecarset as for_pods
from tests.worlds import empty_world


def hashes(**spec: Any) -> tuple[str, str]:
    notes = admitted(sidecarset(**spec), gates=LAVISH)["metadata"]["annotations"]
    return notes[HASH], notes[HASH_WITHOUT_IMAGE]


def data(**spec: Any) -> bytes:
    return sidecarset_revision_data(admitted(sidecarset(**spec), gates=LAVISH))


@pytest.mark.parametrize(
    "more",
    [
        {"volumes": [{"name": "v"}]},
        {"imagePullSecrets": [{"name": "s"}]},
        {"patchPodMetadata": [{"annotations": {"k": "v"}}]},
        {"initContainers": [side("i")]},
    ],
    ids=lambda more: next(iter(more)),
)
def test_quirk_what_is_no_container_makes_a_revision_but_no_hash(more: dict[str, Any]) -> None:
    """Pods stay "updated", and get the change together with the next image alone (#1942)."""
    assert hashes(**more) == hashes()
    assert data(**more) != data()


@pytest.mark.parametrize(
    "more",
    [{"upgradeStrategy": {**HOT, "hotUpgradeEmptyImage": "e:2"}}, {"imagePullPolicy": "Never"}],
    ids=["empty image", "pull policy"],
)
def test_quirk_empty_images_and_pull_policies_count_without_images(more: dict[str, Any]) -> None:
    """So that changing one makes running pods not upgradable (#1697)."""
    base = side(upgradeStrategy=HOT)
    assert hashes(containers=[{**base, **more}])[1] != hashes(containers=[base])[1]
    assert hashes(containers=[{**base, "image": "side:2"}])[1] == hashes(containers=[base])[1]


def test_quirk_a_tag_that_becomes_latest_makes_pods_not_upgradable() -> None:
    """A whole replacement without imagePullPolicy gets another default (#1697)."""
    before, after = (hashes(containers=[side(image=i)]) for i in ("side:1", "side:latest"))
    assert before[1] != after[1]


def test_quirk_fields_no_container_has_are_dropped() -> None:
    """The CRD would keep them; the webhook's patch does not, and no hash may see them."""
    made = admitted(sidecarset(containers=[side(gpu=1)]))
    assert "gpu" not in made["spec"]["containers"][0]
    assert hashes(containers=[side(gpu=1)]) == hashes()


def test_quirk_every_annotation_goes_into_every_revision() -> None:
    """kubectl's last-applied configuration among them."""
    made = admitted(sidecarset(notes={"kubectl.kubernetes.io/last-applied-configuration": "{}"}))
    found = new_revision(sidecarset_facts(made), 1).annotations
    assert found == made["metadata"]["annotations"]
    assert len(found) == 3


def test_quirk_pods_that_missed_the_webhook_never_get_sidecars() -> None:
    """Injection is for pods that are being made (#54, #368)."""
    world = empty_world(gates=Gates(pod_webhook=False))
    born(world, for_pods())
    assert names(born(world, web())) == ["app"]


def test_quirk_a_startup_probe_must_say_its_threshold() -> None:
    """It alone gets no defaults, and 0 is no threshold; defaults would change hashes."""
    probe: dict[str, Any] = {"exec": {"command": ["true"]}}
    field = "spec.containers[0].startupProbe.successThreshold"
    assert refused(sidecarset(containers=[side(startupProbe=probe)])) == [field]
    assert refused(sidecarset(containers=[side(livenessProbe=probe)])) == []


@pytest.mark.parametrize(("label", "injected"), [("control-plane", False), ("other", True)])
def test_quirk_namespaces_of_the_control_plane_are_spared(label: str, *, injected: bool) -> None:
    """Its pod webhook is configured so, whatever the SidecarSets say."""
    world = empty_world()
    meta = {"name": "x", "labels": {label: ""}}
    born(world, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    born(world, for_pods())
    sent = web()
    sent["metadata"]["namespace"] = "x"
    assert ("log" in names(born(world, sent))) is injected


@pytest.mark.parametrize(
    "spec",
    [
        {"updateStrategy": {"type": "Sometimes"}},
        {"containers": [side(upgradeStrategy={"upgradeType": "Lukewarm"})]},
        {"patchPodMetadata": [{"annotations": {"k": "v"}, "patchPolicy": "Never"}]},
    ],
    ids=["updateStrategy.type", "upgradeType", "patchPolicy"],
)
def test_quirk_some_words_are_not_checked(spec: dict[str, Any]) -> None:
    """An unknown type rolls, an unknown upgrade is cold, an unknown policy does nothing."""
    assert refused(sidecarset(**spec)) == []


def test_quirk_a_strategy_is_not_looked_at_where_nothing_is_updated() -> None:
    spec = {"type": "NotUpdate", "partition": "a third", "selector": {}, "maxUnavailable": -1}
    assert refused(sidecarset(updateStrategy=spec)) == []


def test_quirk_a_namespace_reads_back_as_a_selector() -> None:
    """Applying `namespace` again always shows a difference; with both fields, one is lost."""
    both: dict[str, Any] = {"namespace": "ns-1", "namespaceSelector": {"matchLabels": {"a": "b"}}}
    made = admitted(sidecarset(version="v1alpha1", **both))
    read = convert(convert(made, "v1beta1"), "v1alpha1")["spec"]
    assert "namespace" not in read
    assert read["namespaceSelector"] == {"matchLabels": {"kubernetes.io/metadata.name": "ns-1"}}


def test_quirk_a_field_of_the_name_is_advertised_and_refused() -> None:
    term = {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    with pytest.raises(InvalidObject, match=r"spec\[0\]\.transferEnv\.fieldRef\.fieldPath"):
        admitted(sidecarset(containers=[side(transferEnv=[term])]))


def test_quirk_sidecars_may_leave_but_not_come() -> None:
    """Pods that run keep what left for ever, and are counted all the same."""
    two = sidecarset(containers=[side(), side("two")])
    assert refused(sidecarset(), two) == []
    assert refused(two, sidecarset()) == ["spec.containers.name"]
