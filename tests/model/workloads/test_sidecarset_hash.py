"""Hashes of SidecarSets: bytes and digests as OpenKruise computes them."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.model.workloads.sidecarset_hash import (
    HASH,
    HASH_WITHOUT_IMAGE,
    hash_without_image,
    sidecarset_hash,
)
from gitkruise.wire.kruise.go_round_trip import Malformed
from gitkruise.wire.kruise.hashes import safe_encode

ORACLE: Final = Path(__file__).parents[2] / "oracle" / "injection.jsonl"
PLAIN: Final = {"name": "container1", "image": "test-image"}
NATIVE: Final = {**PLAIN, "restartPolicy": "Always"}
DNS: Final = {
    "name": "dns-f",
    "image": "dns:1.0",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "podInjectPolicy": "BeforeAppContainer",
    "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
    "shareVolumePolicy": {"type": "disabled"},
}
AGENT: Final = {
    "name": "agent",
    "image": "agent:1",
    "args": ["--flag=a<b && c"],
    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
    "env": [
        {
            "name": "POD",
            "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}},
        }
    ],
    "resources": {"limits": {"memory": "1024Mi", "cpu": 0.5}},
    "readinessProbe": {
        "httpGet": {"path": "/", "port": 8080, "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    },
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "IfNotPresent",
    "podInjectPolicy": "BeforeAppContainer",
    "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "empty:1"},
    "shareVolumePolicy": {"type": "disabled"},
}
ONE: Final = (
    "w26c4x8fz245642fdv499b464248f974xddx4x55z5dw55bc6x66464fxz77dc78",
    "8wzddb4dvv9c6x8zdc77z4z75987424f457dfv6724ddw6zbdx467wz5x24fc759",
)
ROWS: Final[dict[str, tuple[dict[str, Any], str, str]]] = {
    "one container": ({"containers": [PLAIN]}, *ONE),
    "with a native sidecar": (
        {"containers": [PLAIN], "initContainers": [NATIVE]},
        "4xwx4d4844vd4v9x79wb4xbxf4xb29475cc4446v8cz2c2f2f5c5bw448vd42z8w",
        "5725fw8bwbx249bw57v5892c847dzf48bww9zb7c86xb95264fdz26654847b2c8",
    ),
    "defaulted": (
        {"containers": [DNS]},
        "6wbd76bd7984x24fb4f44fv9222cw9v9bcf85x766744wddd4zwx927zzz2zb684",
        "82684vwf9d4cb4wz4vffx4ddfbb47ww4z4wwxdbwb8w2zbb7zvf4524cdd49bv94",
    ),
    "a plain init container does not count": (
        {"containers": [PLAIN], "initContainers": [{"name": "prep", "image": "x"}]},
        *ONE,
    ),
    "only plain init containers": (
        {"initContainers": [PLAIN]},
        "x5vwx9w6vv4dv72c9w4c2f6v74fbwx545b45bbfz6z2dvf8w887xw86fvcb4cf48",
        "x5vwx9w6vv4dv72c9w4c2f6v74fbwx545b45bbfz6z2dvf8w887xw86fvcb4cf48",
    ),
    "escapes, amounts and probes": (
        {"containers": [AGENT]},
        "6868x28275484v6d4f8czd9w2b4wzdf4xv42442x528d44bd4wb685wx5c9b54x2",
        "54bvf269vd455wf849vd9vz4zzvb4vzdzd24z958wf4f2997522w74d544822d8b",
    ),
    "unknown fields vanish": ({"containers": [{**PLAIN, "gpu": 1}], "extra": True}, *ONE),
    "volumes and strategy do not count": (
        {"containers": [PLAIN], "volumes": [{"name": "v"}], "updateStrategy": {"paused": True}},
        *ONE,
    ),
}


@pytest.mark.parametrize(("spec", "with_image", "without"), ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_hashes(spec: dict[str, Any], with_image: str, without: str, version: str) -> None:
    raw = {"apiVersion": f"apps.kruise.io/{version}", "spec": spec}
    assert (sidecarset_hash(raw), hash_without_image(raw)) == (with_image, without)


def test_no_containers_and_an_empty_list_are_distinguished() -> None:
    empty = hashlib.sha256(b'{"containers":[]}').hexdigest()
    assert sidecarset_hash({"spec": {"containers": []}}) == safe_encode(empty)
    assert sidecarset_hash({"spec": {}}) != sidecarset_hash({"spec": {"containers": []}})


def test_a_value_no_struct_can_hold_is_named_with_its_place() -> None:
    with pytest.raises(Malformed, match=r"spec\.containers\[0\]\.args: cannot unmarshal string"):
        sidecarset_hash({"spec": {"containers": [{"name": "a", "args": "b"}]}})


def test_every_recorded_sidecarset_hashes_as_recorded() -> None:
    """The stored spec hashes to its annotations; an empty list is stored as null."""
    checked = 0
    for line in ORACLE.read_text().strip().split("\n"):
        for row in json.loads(line)["sidecarsets"]:
            if "stored" not in row:
                continue
            stored = dict(row["stored"])
            sent = row["manifest"]["spec"]
            empty: dict[str, Any] = {"containers": []} if sent.get("containers") == [] else {}
            notes = stored["metadata"]["annotations"]
            stored["spec"] = {**stored["spec"], **empty}
            assert notes[HASH] == sidecarset_hash(stored)
            assert notes[HASH_WITHOUT_IMAGE] == hash_without_image(stored)
            checked += 1
    assert checked == 305
