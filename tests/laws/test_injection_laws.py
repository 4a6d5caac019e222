"""Laws of injection: deterministic, idempotent, careful with the pod, true to its patch."""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.workloads.sidecarset import SidecarSetFacts
from gitkruise.model.workloads.sidecarset_annotations import injected_sets
from gitkruise.wire.patch.json_patch import json_patch
from tests.admission.injection.scene import (
    AFTER,
    BEFORE,
    app,
    hot,
    injection,
    names,
    pod,
    side,
    sidecarset,
)

NAMES: Final = st.sampled_from(("a", "b", "c", "mesh", "log"))
PLACES: Final = st.sampled_from((BEFORE, AFTER, ""))
POLICIES: Final = st.sampled_from(("Retain", "Overwrite", "MergePatchJson"))


@st.composite
def sidecars(draw: st.DrawFn, prefix: str) -> dict[str, Any]:
    name = prefix + draw(NAMES)
    shared = {"type": draw(st.sampled_from(("enabled", "disabled")))}
    term = {"sourceContainerName": "app", "envNames": draw(st.lists(NAMES, max_size=2))}
    mounts = [{"name": v, "mountPath": f"/{v}"} for v in draw(st.sets(NAMES, max_size=2))]
    more: dict[str, Any] = {
        "shareVolumePolicy": shared,
        "shareVolumeDevicePolicy": shared,
        "transferEnv": [term],
        "volumeMounts": sorted(mounts, key=lambda mount: mount["name"]),
    }
    if draw(st.booleans()):
        return hot(name, **more)
    return side(name, draw(PLACES), **more)


@st.composite
def sets(draw: st.DrawFn) -> list[SidecarSetFacts]:
    """SidecarSets that share no container name, as admission lets them be."""
    out = []
    for name in sorted(draw(st.sets(NAMES, min_size=1, max_size=3))):
        listed = draw(st.lists(sidecars(f"{name}-"), max_size=2, unique_by=lambda s: s["name"]))
        inits = draw(st.lists(sidecars(f"{name}-i"), max_size=2, unique_by=lambda s: s["name"]))
        native = {"restartPolicy": "Always"} if draw(st.booleans()) else {}
        note = {"annotations": {draw(NAMES): '{"x":1}'}, "patchPolicy": draw(POLICIES)}
        out.append(
            sidecarset(
                name,
                containers=listed,
                initContainers=[{**one, **native} for one in inits],
                volumes=[{"name": v, "emptyDir": {}} for v in ("a", "b", "c")],
                imagePullSecrets=[{"name": s} for s in sorted(draw(st.sets(NAMES, max_size=2)))],
                patchPodMetadata=[note],
            )
        )
    return out


@st.composite
def pods(draw: st.DrawFn) -> dict[str, Any]:
    listed = sorted(draw(st.sets(NAMES, max_size=2)))
    variables = [{"name": n, "value": "v"} for n in listed]
    mounts = [{"name": n, "mountPath": f"/app/{n}", "subPathExpr": f"$({n})"} for n in listed]
    first = app("app", env=variables, volumeMounts=mounts)
    more = [app(f"more-{n}") for n in sorted(draw(st.sets(NAMES, max_size=1)))]
    return pod(first, *more, volumes=[{"name": n, "secret": {}} for n in listed])


@given(pods(), sets(), st.randoms())
def test_the_same_input_in_any_order_gives_the_same_pod(
    sent: dict[str, Any], chosen: list[SidecarSetFacts], random: Any
) -> None:
    shuffled = list(chosen)
    random.shuffle(shuffled)
    assert injection(sent, *chosen).pod == injection(sent, *shuffled).pod


@given(pods(), sets())
def test_a_second_injection_changes_nothing(
    sent: dict[str, Any], chosen: list[SidecarSetFacts]
) -> None:
    """A manifest taken from a pod that has its sidecars gets them once."""
    made = injection(sent, *chosen).pod
    again = injection(dict(made), *chosen).pod
    assert names(again) == names(made)
    assert names(again, "initContainers") == names(made, "initContainers")
    assert again["spec"].get("volumes") == made["spec"].get("volumes")
    assert again["spec"].get("imagePullSecrets") == made["spec"].get("imagePullSecrets")
    assert injected_sets(again["metadata"]["annotations"]) == injected_sets(
        made["metadata"]["annotations"]
    )


@given(pods(), sets())
def test_what_is_the_pods_stays_as_it_is(
    sent: dict[str, Any], chosen: list[SidecarSetFacts]
) -> None:
    """App containers keep their content and their order; nothing handed in is changed."""
    before = repr(sent)
    made = injection(sent, *chosen).pod
    own = [one for one in made["spec"]["containers"] if one in sent["spec"]["containers"]]
    assert own == sent["spec"]["containers"]
    volumes = made["spec"]["volumes"][: len(sent["spec"]["volumes"])]
    assert volumes == sent["spec"]["volumes"]
    assert repr(sent) == before


@given(pods(), sets())
def test_the_patch_applied_to_the_pod_is_the_result(
    sent: dict[str, Any], chosen: list[SidecarSetFacts]
) -> None:
    found = injection(sent, *chosen)
    assert json_patch(sent, found.patch) == found.pod


@given(pods(), sets())
def test_every_mount_of_a_sidecar_has_its_volume_and_no_path_is_used_twice(
    sent: dict[str, Any], chosen: list[SidecarSetFacts]
) -> None:
    made = injection(sent, *chosen).pod
    volumes = {volume["name"] for volume in made["spec"]["volumes"]} | {"mesh", "log"}
    for container in made["spec"]["containers"]:
        mounts = container.get("volumeMounts") or []
        assert {mount["name"] for mount in mounts} <= volumes
        paths = [mount["mountPath"] for mount in mounts]
        assert len(paths) == len(set(paths))
        variables = [variable["name"] for variable in container.get("env") or ()]
        assert len(variables) == len(set(variables))
