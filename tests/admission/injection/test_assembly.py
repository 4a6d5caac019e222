"""Place of sidecars in a pod, and what they bring along (SIDE-72 to SIDE-87)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitkruise.model.workloads.sidecarset_annotations import (
    INJECTED_LIST,
    WORKING,
    mark_of,
    working_containers,
)
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from tests.admission.injection.scene import (
    AFTER,
    BEFORE,
    app,
    env,
    hot,
    injected,
    injection,
    mounts,
    named,
    names,
    pod,
    side,
    sidecarset,
)

NATIVE = {"restartPolicy": "Always"}


def test_side_72_sidecars_around_the_app() -> None:
    one = sidecarset(
        containers=[side("dns-f"), side("log-agent", AFTER)],
        initContainers=[side("init-2", AFTER), side("init-1", AFTER)],
    )
    made = injected(pod(app("nginx"), initContainers=[app("init-0")]), one)
    assert names(made) == ["dns-f", "nginx", "log-agent"]
    assert names(made, "initContainers") == ["init-0", "init-1", "init-2"]
    for kind in ("containers", "initContainers"):
        marked = {c["name"]: "IS_INJECTED" in env(c) for c in made["spec"][kind]}
        assert {n for n, there in marked.items() if not there} <= {"nginx", "init-0"}


NEW, FIRST, SECOND = side("new-sidecar-1"), side("sidecar-1", AFTER), side("sidecar-2", AFTER)


@pytest.mark.parametrize(
    ("origin", "result"),
    [
        pytest.param(["app"], "new-sidecar-1 app sidecar-1 sidecar-2", id="SIDE-73"),
        pytest.param(
            ["sidecar-1", "app", "sidecar-2"], "new-sidecar-1 sidecar-1 app sidecar-2", id="SIDE-74"
        ),
        pytest.param([], "new-sidecar-1 sidecar-1 sidecar-2", id="SIDE-75"),
    ],
)
def test_merging(origin: list[str], result: str) -> None:
    sent = pod(containers=[app(name) for name in origin])
    made = injected(sent, sidecarset(containers=[NEW, FIRST, SECOND]))
    assert " ".join(names(made)) == result
    assert {c["image"] for c in made["spec"]["containers"] if c["name"] != "app"} == {
        "new-sidecar-1:1",
        "sidecar-1:1",
        "sidecar-2:1",
    }


@pytest.mark.parametrize(
    ("places", "result"),
    [
        pytest.param((AFTER, BEFORE, BEFORE), "b c app1-init app2-init a", id="SIDE-76"),
        pytest.param(("", "", ""), "app1-init app2-init a b c", id="SIDE-76: no policy"),
    ],
)
def test_merging_init_containers(places: tuple[str, str, str], result: str) -> None:
    listed = [side(n, at) for n, at in zip("acb", (places[0], *places[1:]), strict=True)]
    sent = pod(initContainers=[app("app1-init"), app("app2-init")])
    made = injected(sent, sidecarset(initContainers=listed))
    assert " ".join(names(made, "initContainers")) == result


@pytest.mark.parametrize(
    ("own", "result"),
    [
        pytest.param("s2 s3 s3", "s2 s3 s0 s1", id="SIDE-77"),
        pytest.param("s3 s4 s5", "s3 s4 s5 s0 s1 s2", id="SIDE-77: none shared"),
        pytest.param("", "s0 s1 s2", id="SIDE-77: none in the pod"),
    ],
)
def test_pull_secrets(own: str, result: str) -> None:
    sent = pod(imagePullSecrets=[{"name": name} for name in own.split()])
    one = sidecarset(
        containers=[side("a")], imagePullSecrets=[{"name": f"s{number}"} for number in range(3)]
    )
    assert " ".join(names(injected(sent, one), "imagePullSecrets")) == result


def volume(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "emptyDir": {}, **more}


def mount(name: str, path: str = "") -> dict[str, Any]:
    return {"name": name, "mountPath": path or f"/{name}"}


def test_side_78_only_volumes_that_are_used_come_along() -> None:
    one = sidecarset(
        containers=[side("a", volumeMounts=[mount("volume-1")])],
        volumes=[volume("volume-1"), volume("volume-2")],
    )
    made = injected(pod(volumes=[volume("volume-a"), volume("volume-b")]), one)
    assert names(made, "volumes") == ["volume-a", "volume-b", "volume-1"]


def test_side_79_a_mount_without_volume_adds_nothing() -> None:
    one = sidecarset(containers=[side("a", volumeMounts=[mount("nowhere")])])
    made = injected(pod(), one)
    assert "volumes" not in made["spec"]
    assert mounts(named(made, "a")) == ["/nowhere"]


def test_the_volume_of_the_pod_wins_over_a_namesake() -> None:
    one = sidecarset(
        containers=[side("a", volumeMounts=[mount("v")])], volumes=[volume("v", emptyDir={"x": 1})]
    )
    assert injected(pod(volumes=[volume("v")]), one)["spec"]["volumes"] == [volume("v")]


def test_side_85_two_sets_on_one_pod() -> None:
    made = injected(
        pod(),
        sidecarset("sidecarset3", containers=[side("c")]),
        sidecarset("sidecarset1", containers=[side("a")]),
        sidecarset("sidecarset2", containers=[side("b")], selector={"matchLabels": {"x": "y"}}),
    )
    notes = made["metadata"]["annotations"]
    assert notes[INJECTED_LIST] == "sidecarset1,sidecarset3"
    assert list(json.loads(notes[HASH])) == ["sidecarset1", "sidecarset3"]
    assert list(json.loads(notes[HASH_WITHOUT_IMAGE])) == ["sidecarset1", "sidecarset3"]
    assert names(made) == ["a", "c", "app"]


def test_side_86_a_hot_sidecar_is_two() -> None:
    made = injected(pod(), sidecarset(containers=[hot("dns-f")]))
    assert [(c["name"], c["image"]) for c in made["spec"]["containers"]] == [
        ("dns-f-1", "dns-f:1"),
        ("dns-f-2", "dns-f-empty:1"),
        ("app", "app:1"),
    ]
    notes = made["metadata"]["annotations"]
    assert notes[WORKING] == '{"dns-f":"dns-f-1"}'
    assert notes["version.sidecarset.kruise.io/dns-f-1"] == "1"
    assert notes["version.sidecarset.kruise.io/dns-f-2"] == "0"
    assert notes["versionalt.sidecarset.kruise.io/dns-f-1"] == "0"
    assert notes["versionalt.sidecarset.kruise.io/dns-f-2"] == "1"
    paths = [
        variable["valueFrom"]["fieldRef"]["fieldPath"]
        for variable in named(made, "dns-f-2")["env"][-2:]
    ]
    assert paths == [
        "metadata.annotations['version.sidecarset.kruise.io/dns-f-2']",
        "metadata.annotations['versionalt.sidecarset.kruise.io/dns-f-2']",
    ]


def test_side_87_native_sidecars_of_two_sets() -> None:
    made = injected(
        pod(initContainers=[app("init-0")]),
        sidecarset("ss1", initContainers=[side("init-1", AFTER, **NATIVE)]),
        sidecarset("ss2", initContainers=[hot("hot-init", **NATIVE)]),
    )
    assert names(made, "initContainers") == ["hot-init-1", "hot-init-2", "init-0", "init-1"]
    notes = made["metadata"]["annotations"]
    assert mark_of(notes, "ss1").sidecars == ("init-1",)
    assert mark_of(notes, "ss2").sidecars == ("hot-init",)
    assert working_containers(notes) == {"hot-init": "hot-init-1"}


def test_a_hot_init_container_that_ends_stays_one() -> None:
    made = injected(pod(), sidecarset(initContainers=[hot("prep")]))
    assert names(made, "initContainers") == ["prep"]
    assert WORKING not in made["metadata"]["annotations"]


def test_the_working_map_keeps_what_the_pod_carries() -> None:
    sent = pod(notes={WORKING: '{"old":"old-2"}'})
    notes = injected(sent, sidecarset(containers=[hot("mesh")]))["metadata"]["annotations"]
    assert notes[WORKING] == '{"mesh":"mesh-1","old":"old-2"}'


def test_without_containers_only_metadata_change() -> None:
    patch = [{"annotations": {"k": "v"}, "patchPolicy": "Retain"}]
    one = sidecarset(patchPodMetadata=patch, imagePullSecrets=[{"name": "s"}])
    found = injection(pod(), one)
    assert found.pod["metadata"]["annotations"] == {"k": "v"}
    assert found.pod["spec"] == found.before["spec"]


@pytest.mark.parametrize(("sort_by_name", "order"), [(False, "z a"), (True, "a z")])
def test_the_gate_sorts_sidecars(order: str, *, sort_by_name: bool) -> None:
    one = sidecarset(containers=[side("z"), side("a")])
    made = injected(pod(), one, sort_by_name=sort_by_name)
    assert names(made) == [*order.split(), "app"]


@pytest.mark.parametrize("going", [{"status": {"phase": "Failed"}}, {"deletionTimestamp": "x"}])
def test_a_pod_that_is_over_gets_nothing(going: dict[str, Any]) -> None:
    sent = pod()
    if "status" in going:
        sent |= going
    else:
        sent["metadata"] |= going
    assert injection(sent, sidecarset(containers=[side("a")])).patch == []
