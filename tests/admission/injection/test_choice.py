"""SidecarSets of a pod and the revision of each (SIDE-68, SIDE-88 to SIDE-92, canaries)."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.model.workloads.revision import Revision
from gitkruise.model.workloads.sidecarset import SidecarSetFacts
from gitkruise.model.workloads.sidecarset_annotations import INJECTED_LIST, mark_of
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from gitkruise.model.workloads.sidecarset_revision import sidecarset_revision_data
from gitkruise.wire.primitives.names import Obj
from tests.admission.injection.scene import (
    AFTER,
    app,
    injected,
    injection,
    names,
    pod,
    side,
    sidecarset,
)

NEW_IMAGE, OLD_IMAGE = "canary:2", "stable:1"
BAD: Final = {"matchExpressions": [{"key": "a", "operator": "Near", "values": ["b"]}]}


def revision(name: str, *containers: Obj, **more: Any) -> Revision:
    recorded = sidecarset(containers=list(containers), **more)
    return Revision(name=name, number=1, data=sidecarset_revision_data(recorded.raw))


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param(None, True, id="SIDE-68: no namespace selector"),
        pytest.param({"matchLabels": {"ns": "app1"}}, True, id="SIDE-68: app1"),
        pytest.param({"matchLabels": {"ns": "app2"}}, False, id="SIDE-68: app2"),
        pytest.param(BAD, False, id="a senseless selector"),
    ],
)
def test_namespaces(selector: Any, *, matches: bool) -> None:
    one = sidecarset(
        containers=[side("a")], **({"namespaceSelector": selector} if selector else {})
    )
    assert ("a" in names(injected(pod(), one))) is matches


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"injectionStrategy": {"paused": True}}, id="SIDE-88: paused"),
        pytest.param({"selector": {"matchLabels": {"app": "other"}}}, id="SIDE-88: labels"),
        pytest.param({"selector": {}}, id="an empty selector"),
    ],
)
def test_not_for_this_pod(spec: dict[str, Any]) -> None:
    found = injection(pod(), sidecarset(containers=[side("a")], **spec))
    assert (found.patch, found.sets) == ([], ())


def test_side_89_a_pinned_version_brings_its_own_containers() -> None:
    one = sidecarset(
        containers=[side("a"), side("b")],
        initContainers=[side("x"), side("y")],
        injectionStrategy={"revision": {"customVersion": "v1", "policy": "Always"}},
    )
    old = revision("ss-old", side("a"), initContainers=[side("x")])
    made = injected(pod(), one, history={"v1": old})
    assert names(made) == ["a", "app"]
    assert names(made, "initContainers") == ["x"]
    mark = mark_of(made["metadata"]["annotations"], "ss")
    assert (mark.revision, mark.sidecars) == ("ss-old", ("a",))
    assert mark.hash != "H"


def partial(partition: Any = None, **update: Any) -> SidecarSetFacts:
    chosen = {"selector": {"matchLabels": {"canary": "true"}}, **update}
    if partition is not None:
        chosen["partition"] = partition
    return sidecarset(
        containers=[{**side("a"), "image": NEW_IMAGE}],
        updateStrategy=chosen,
        injectionStrategy={"revision": {"revisionName": "ss-old", "policy": "Partial"}},
    )


STABLE: Final = {"ss-old": revision("ss-old", {**side("a"), "image": OLD_IMAGE})}
CANARY: Final = {"canary": "true"}


@pytest.mark.parametrize(
    ("labels", "chosen", "image"),
    [
        pytest.param({}, partial(), OLD_IMAGE, id="SIDE-90: a stable pod"),
        pytest.param(CANARY, partial(), NEW_IMAGE, id="SIDE-90: a canary pod"),
        pytest.param(CANARY, partial(0), NEW_IMAGE, id="SIDE-90: the default partition"),
        pytest.param(CANARY, partial(5), NEW_IMAGE, id="a number counts for nothing"),
        pytest.param(CANARY, partial("100%"), OLD_IMAGE, id="SIDE-90: 100%"),
        pytest.param(CANARY, partial("0%"), NEW_IMAGE, id="SIDE-90: 0%"),
        pytest.param(CANARY, partial("0%", paused=True), OLD_IMAGE, id="SIDE-90: paused"),
        pytest.param({}, partial(selector=None), NEW_IMAGE, id="no update selector"),
    ],
)
def test_partial(labels: dict[str, str], chosen: SidecarSetFacts, image: str) -> None:
    made = injected(pod(labels=labels), chosen, history=STABLE)
    assert made["spec"]["containers"][0]["image"] == image


@pytest.mark.parametrize(
    ("chosen", "history", "problem"),
    [
        pytest.param(partial("abc%"), STABLE, "'abc%' is no percentage", id="SIDE-90: abc%"),
        pytest.param(partial(), {}, "its revision ss-old was not found", id="SIDE-90: no revision"),
        pytest.param(
            partial(selector=BAD), STABLE, "updateStrategy.selector", id="SIDE-90: operator"
        ),
        pytest.param(sidecarset(selector=BAD), {}, "spec.selector", id="a senseless selector"),
    ],
)
def test_a_denied_pod(chosen: SidecarSetFacts, history: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        injection(pod(labels=CANARY), chosen, history=history)


def test_a_percentage_is_drawn_by_the_pod() -> None:
    """About that share of pods takes the pinned revision, the same pods every time."""
    chosen = partial("30%")

    def pinned(lot: str) -> bool:
        made = injected(pod(labels=CANARY), chosen, history=STABLE, lot=lot)
        return bool(made["spec"]["containers"][0]["image"] == OLD_IMAGE)

    drawn = [pinned(f"/shop/web-{number}") for number in range(400)]
    assert 0.2 < sum(drawn) / len(drawn) < 0.4
    assert drawn == [pinned(f"/shop/web-{number}") for number in range(400)]


def test_a_canary_takes_the_place_of_its_base() -> None:
    notes = {
        "apps.kruise.io/sidecarset-canary": "true",
        "apps.kruise.io/sidecarset-base": "mesh",
    }
    base = sidecarset("mesh", containers=[side("mesh")])
    labels = {"matchLabels": CANARY}
    canary = sidecarset("mesh-canary", containers=[side("mesh")], selector=labels, notes=notes)
    assert injection(pod(), base, canary).sets == ("mesh",)
    found = injection(pod(labels=CANARY), base, canary)
    assert found.sets == ("mesh-canary",)
    assert found.pod["metadata"]["annotations"][INJECTED_LIST] == "mesh-canary"


def test_quirk_sets_come_in_name_order_those_of_the_namespace_first() -> None:
    """OpenKruise takes them as a hash map gives them, differently each time (#1933)."""
    here = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "app1"}}}
    listed = {
        "matchExpressions": [
            {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["b", "app1"]}
        ]
    }
    sets = [
        sidecarset("d", containers=[side("d")]),
        sidecarset("z", containers=[side("z")], **here),
        sidecarset("b", containers=[side("b")]),
        sidecarset("y", containers=[side("y")], namespaceSelector=listed),
    ]
    labels = {"kubernetes.io/metadata.name": "app1"}
    for order in (sets, sets[::-1]):
        made = injected(pod(), *order, space_labels=labels)
        assert names(made) == ["y", "z", "b", "d", "app"]


def test_quirk_a_manifest_taken_from_an_injected_pod_keeps_its_old_marks() -> None:
    """They are merged and never pruned, and a namesake of a sidecar gives way to it (#565)."""
    notes = {
        HASH: '{"gone":{"hash":"G","sidecarSetName":"gone"}}',
        HASH_WITHOUT_IMAGE: '{"gone":{"hash":"g","sidecarSetName":"gone"}}',
        INJECTED_LIST: "gone",
    }
    made = injected(pod(app(), app("a"), notes=notes), sidecarset(containers=[side("a", AFTER)]))
    assert made["metadata"]["annotations"][INJECTED_LIST] == "gone,ss"
    assert mark_of(made["metadata"]["annotations"], "gone").hash == "G"
    assert [c["image"] for c in made["spec"]["containers"]] == ["app:1", "a:1"]


def test_quirk_an_empty_inject_policy_means_after() -> None:
    """Only the SidecarSet webhook writes Before; what was stored without it goes behind."""
    assert names(injected(pod(), sidecarset(containers=[side("a", "")]))) == ["app", "a"]


def test_quirk_the_mark_of_injection_stands_there_once() -> None:
    """OpenKruise appends it to a sidecar that has a variable of that name already."""
    mark = {"name": "IS_INJECTED", "value": "no"}
    made = injected(pod(), sidecarset(containers=[side("a", env=[mark])]))
    assert made["spec"]["containers"][0]["env"] == [{"name": "IS_INJECTED", "value": "true"}]


def test_quirk_policy_always_ignores_the_update_selector() -> None:
    """The API's comment says otherwise: pods that would be updated get the pinned one too."""
    one = sidecarset(
        containers=[{**side("a"), "image": NEW_IMAGE}],
        updateStrategy={"selector": {"matchLabels": CANARY}, "partition": 0},
        injectionStrategy={"revision": {"revisionName": "ss-old"}},
    )
    made = injected(pod(labels=CANARY), one, history=STABLE)
    assert made["spec"]["containers"][0]["image"] == OLD_IMAGE


def test_two_sets_with_one_new_name_both_bring_it() -> None:
    """The API server refuses such a pod; conflicts are looked for when SidecarSets are written."""
    sets = [sidecarset(name, containers=[side("a")]) for name in ("one", "two")]
    assert names(injected(pod(), *sets)) == ["a", "a", "app"]


def test_annotations_that_cannot_be_merged_deny_the_pod() -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        injected(pod(notes={HASH: "garbage"}), sidecarset(containers=[side("a")]))


@pytest.mark.parametrize("policy", ["Retain", "Overwrite"])
def test_side_91_metadata_come_first(policy: str) -> None:
    """A transferEnv that reads an annotation sees what was patched."""
    term = {
        "sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.annotations['from']"}},
        "envName": "A",
    }
    one = sidecarset(
        containers=[side("a", transferEnv=[term])],
        patchPodMetadata=[{"annotations": {"from": "app"}, "patchPolicy": policy}],
    )
    made = injected(pod(app(env=[{"name": "A", "value": "1"}])), one)
    assert [v["name"] for v in made["spec"]["containers"][0]["env"]] == ["IS_INJECTED", "A"]


def test_side_92_the_patches_of_two_sets_merge() -> None:
    sets = [
        sidecarset(
            name,
            containers=[side(name)],
            patchPodMetadata=[
                {"annotations": {"oom": f'{{"{name}":1}}'}, "patchPolicy": "MergePatchJson"}
            ],
        )
        for name in ("b", "a")
    ]
    assert injected(pod(), *sets)["metadata"]["annotations"]["oom"] == '{"a":1,"b":1}'
