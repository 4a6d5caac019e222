"""Transfers of mounts, devices and variables to sidecars (SIDE-80 to SIDE-84, INJ-70)."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE
from tests.admission.injection.scene import (
    AFTER,
    app,
    env,
    hot,
    injected,
    mounts,
    named,
    names,
    pod,
    side,
    sidecarset,
)

SHARED: Final[dict[str, Any]] = {"shareVolumePolicy": {"type": "enabled"}}


def at(*paths: str, **more: Any) -> list[dict[str, Any]]:
    return [{"name": "v", "mountPath": path, **more} for path in paths]


def test_side_80_mounts_are_shared_once() -> None:
    one = sidecarset(
        containers=[side("a", volumeMounts=at("/a/b/c", "/d/e/f", "/staragent"), **SHARED)]
    )
    made = injected(pod(app(volumeMounts=at("/a/b", "/e/f", "/staragent"))), one)
    assert mounts(named(made, "a")) == ["/a/b/c", "/d/e/f", "/staragent", "/a/b", "/e/f"]


def variable(name: str, value: str = "x") -> dict[str, str]:
    return {"name": name, "value": value}


@pytest.mark.parametrize(
    ("expression", "borrowed"),
    [
        pytest.param("foo/$(POD_NAME)/$(OD_NAME)/conf", ["POD_NAME", "OD_NAME"], id="SIDE-81"),
        pytest.param("foo", [], id="SIDE-81: nothing in it"),
        pytest.param("", [], id="SIDE-81: empty"),
        pytest.param("$(NOWHERE)/$POD_NAME", [], id="what is not there"),
    ],
)
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_variables_of_sub_paths(expression: str, borrowed: list[str], kind: str) -> None:
    spec: dict[str, Any] = {kind: [side("a", **SHARED)]}
    one = sidecarset(**spec)
    sent = pod(
        app(
            volumeMounts=at("/a", subPathExpr=expression),
            env=[variable("POD_NAME"), variable("OD_NAME"), variable("OTHER")],
        ),
        app("elsewhere", env=[variable("NOWHERE")]),
    )
    found = named(injected(sent, one), "a", kind)
    assert env(found) == ["IS_INJECTED", *borrowed]
    assert mounts(found) == ["/a"]


def devices(*paths: str) -> list[dict[str, str]]:
    return [{"name": path.strip("/"), "devicePath": path} for path in paths]


@pytest.mark.parametrize(
    ("policy", "result"),
    [
        pytest.param({"type": "enabled"}, ["/dev/nvme0", "/origin-1", "/share"], id="SIDE-82"),
        pytest.param({"type": "disabled"}, ["/dev/nvme0"], id="SIDE-82: disabled"),
        pytest.param(None, ["/dev/nvme0"], id="SIDE-82: no policy"),
    ],
)
def test_devices(policy: dict[str, str] | None, result: list[str]) -> None:
    own = side("a", volumeDevices=devices("/dev/nvme0"))
    one = sidecarset(containers=[{**own, "shareVolumeDevicePolicy": policy} if policy else own])
    stranger = app("s", env=[variable("IS_INJECTED", "true")], volumeDevices=devices("/other"))
    made = injected(pod(app(volumeDevices=devices("/origin-1", "/share")), stranger), one)
    assert [d["devicePath"] for d in named(made, "a")["volumeDevices"]] == result


def test_a_device_path_is_no_mount_path_and_the_other_way_round() -> None:
    both = {**SHARED, "shareVolumeDevicePolicy": {"type": "enabled"}}
    own = side("a", volumeMounts=at("/m"), volumeDevices=devices("/d"), **both)
    sent = pod(app(volumeMounts=at("/d", "/n"), volumeDevices=devices("/m", "/n", "/e")))
    found = named(injected(sent, sidecarset(containers=[own])), "a")
    assert mounts(found) == ["/m", "/n"]
    assert [d["devicePath"] for d in found["volumeDevices"]] == ["/d", "/e"]


def source(field: str) -> dict[str, Any]:
    return {"sourceContainerNameFrom": {"fieldRef": {"fieldPath": field}}}


TRANSFERS: Final[dict[str, tuple[dict[str, Any], list[str]]]] = {
    "SIDE-83": ({"sourceContainerName": "main", "envName": "hello2"}, ["hello2"]),
    "SIDE-84: label": ({**source("metadata.labels['app']"), "envName": "hello2"}, ["hello2"]),
    "SIDE-84: annotation": (
        {**source("metadata.annotations['App']"), "envName": "hello2"},
        ["hello2"],
    ),
    "several, sorted": (
        {"sourceContainerName": "main", "envName": "hello2", "envNames": ["hello1", "hello2"]},
        ["hello1", "hello2"],
    ),
    "the field wins over the name": (
        {**source("metadata.labels['app']"), "sourceContainerName": "x", "envName": "hello1"},
        ["hello1"],
    ),
    "a label that is not there": ({**source("metadata.labels['no']"), "envName": "hello1"}, []),
    "a key that is none": ({**source("metadata.labels['-']"), "envName": "hello1"}, []),
    "an unused field": ({**source("metadata.name"), "envName": "hello1"}, []),
    "a field that is not named": (
        {"sourceContainerNameFrom": {"fieldRef": {}}, "envName": "hello1"},
        [],
    ),
    "no such variable": ({"sourceContainerName": "main", "envName": "no"}, []),
    "init containers lend nothing": ({"sourceContainerName": "init", "envName": "I"}, []),
    "no name at all": ({}, []),
}


@pytest.mark.parametrize(("term", "borrowed"), TRANSFERS.values(), ids=TRANSFERS)
def test_transfer(term: dict[str, Any], borrowed: list[str]) -> None:
    one = sidecarset(
        containers=[side("a", transferEnv=[term])], selector={"matchLabels": {"s": ""}}
    )
    sent = pod(
        app("main", env=[variable("hello1"), variable("hello2", "old"), variable("hello2", "new")]),
        initContainers=[app("init", env=[variable("I")])],
        labels={"app": "main", "s": ""},
        notes={"App": "main"},
    )
    found = named(injected(sent, one), "a")
    assert env(found) == ["IS_INJECTED", *borrowed]
    assert all(v["value"] == "new" for v in found["env"] if v["name"] == "hello2")


def test_own_variables_win_over_borrowed_ones() -> None:
    term = {"sourceContainerName": "app", "envNames": ["A", "B"]}
    one = sidecarset(containers=[side("a", env=[variable("A", "own")], transferEnv=[term])])
    found = named(injected(pod(app(env=[variable("A"), variable("B")])), one), "a")
    assert [(v["name"], v["value"]) for v in found["env"]] == [
        ("A", "own"),
        ("IS_INJECTED", "true"),
        ("B", "x"),
    ]


def test_the_complete_example() -> None:
    """Section 3.11, to the last annotation."""
    one = sidecarset(
        initContainers=[side("prep", AFTER)],
        containers=[
            hot(
                "mesh",
                env=[variable("LOG", "info")],
                volumeMounts=[{"name": "cfg", "mountPath": "/etc/mesh"}],
                transferEnv=[{"sourceContainerName": "app", "envNames": ["B", "A"]}],
                **SHARED,
            ),
            side("log", AFTER),
        ],
        volumes=[{"name": "cfg", "emptyDir": {}}, {"name": "unused", "emptyDir": {}}],
        imagePullSecrets=[{"name": "regcred"}],
        patchPodMetadata=[{"annotations": {"oom": '{"mesh":1}'}, "patchPolicy": "MergePatchJson"}],
    )
    lender = app(
        env=[variable("A", "1"), variable("B", "2")],
        volumeMounts=[{"name": "data", "mountPath": "/data"}],
    )
    sent = pod(lender, volumes=[{"name": "data", "emptyDir": {}}], notes={"oom": '{"app": 0}'})
    made = injected(sent, one)
    assert names(made) == ["mesh-1", "mesh-2", "app", "log"]
    assert names(made, "initContainers") == ["prep"]
    for name in ("mesh-1", "mesh-2"):
        found = named(made, name)
        variables = ["LOG", "IS_INJECTED", "A", "B"]
        assert env(found) == [*variables, "SIDECARSET_VERSION", "SIDECARSET_VERSION_ALT"]
        assert mounts(found) == ["/etc/mesh", "/data"]
    assert env(named(made, "log")) == ["IS_INJECTED"]
    assert names(made, "volumes") == ["data", "cfg"]
    assert names(made, "imagePullSecrets") == ["regcred"]
    record = (
        '{"ss":{"updateTimestamp":"2026-07-02T08:00:00Z","hash":"H","sidecarSetName":"ss",'
        '"sidecarList":["log","mesh"],"controllerRevision":"ss-7xx"}}'
    )
    without = record.replace('"H"', '"W"').replace(',"controllerRevision":"ss-7xx"', "")
    notes = made["metadata"]["annotations"]
    assert (notes["oom"], notes[HASH], notes[HASH_WITHOUT_IMAGE]) == (
        '{"app":0,"mesh":1}',
        record,
        without,
    )
    assert json.loads(notes["kruise.io/sidecarset-working-hotupgrade-container"]) == {
        "mesh": "mesh-1"
    }
    assert notes["kruise.io/sidecarset-injected-list"] == "ss"
    assert len(notes) == 9
