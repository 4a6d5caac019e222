"""ControllerRevisions of SidecarSets: bytes, hash, name, and what they restore."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest

from gitkruise.model.workloads.revision import Revision, revision_object
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE, sidecarset_hash
from gitkruise.model.workloads.sidecarset_revision import (
    RECORDED,
    SET_LABEL,
    new_revision,
    newest_of_version,
    restored,
    sidecarset_revision_data,
)
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from tests.model.workloads.test_sidecarset_hash import DNS, ORACLE

CENTOS: Final = {
    "name": "sidecar1",
    "image": "mirrors-ssl.aliyuncs.com/centos:6.8",
    "command": ["sleep", "999d"],
    "imagePullPolicy": "IfNotPresent",
    "podInjectPolicy": "BeforeAppContainer",
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "upgradeStrategy": {"upgradeType": "ColdUpgrade"},
    "shareVolumePolicy": {"type": "disabled"},
}
PAYLOAD_A: Final = (
    '{"spec":{"$patch":"replace","containers":[{"command":["sleep","999d"],'
    '"image":"mirrors-ssl.aliyuncs.com/centos:6.8","imagePullPolicy":"IfNotPresent",'
    '"name":"sidecar1","podInjectPolicy":"BeforeAppContainer","resources":{},'
    '"shareVolumePolicy":{"type":"disabled"},"terminationMessagePath":"/dev/termination-log",'
    '"terminationMessagePolicy":"File","upgradeStrategy":{"upgradeType":"ColdUpgrade"}}],'
    '"imagePullSecrets":null,"initContainers":null,"patchPodMetadata":null,"volumes":null}}'
)
PAYLOAD_B: Final = (
    '{"spec":{"$patch":"replace","containers":[{"image":"dns:1.0",'
    '"imagePullPolicy":"IfNotPresent","name":"dns-f","podInjectPolicy":"BeforeAppContainer",'
    '"resources":{},"shareVolumePolicy":{"type":"disabled"},'
    '"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File",'
    '"upgradeStrategy":{"upgradeType":"ColdUpgrade"}}],"imagePullSecrets":null,'
    '"initContainers":null,"patchPodMetadata":[{"annotations":{"key1":"value1"},'
    '"patchPolicy":"Retain"}],"volumes":null}}'
)
METADATA: Final = [{"annotations": {"key1": "value1"}, "patchPolicy": "Retain"}]


def sidecarset(name: str = "ss", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": name, "uid": "u-1", "labels": {"team": "mesh"}},
        "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "payload", "hashes"),
    [
        pytest.param({"containers": [CENTOS]}, PAYLOAD_A, ["7658c89f8d"], id="vector A"),
        pytest.param(
            {"containers": [DNS], "patchPodMetadata": METADATA},
            PAYLOAD_B,
            ["549d84fc76", "549d84fc77"],
            id="vector B",
        ),
    ],
)
def test_bytes_and_hashes(spec: dict[str, Any], payload: str, hashes: list[str]) -> None:
    data = sidecarset_revision_data(sidecarset(**spec))
    assert data.decode() == payload
    assert [revision_hash(data, count) for count in range(len(hashes))] == hashes
    assert revision_name("test", hashes[0]) == f"test-{hashes[0]}"


def test_every_recorded_revision_has_its_bytes_and_name() -> None:
    checked = 0
    for line in ORACLE.read_text().strip().split("\n"):
        for row in json.loads(line)["sidecarsets"]:
            if "stored" not in row:
                continue
            data = sidecarset_revision_data(row["stored"])
            assert json.loads(data) == row["revisionData"]
            name = row["stored"]["metadata"]["name"]
            assert revision_name(name, revision_hash(data, 0)) == row["latestRevision"]
            checked += 1
    assert checked == 305


def test_a_long_name_is_cut_to_223_bytes() -> None:
    name = revision_name("n" * 300, revision_hash(b"{}", 0))
    assert name.rpartition("-")[0] == "n" * 223


def test_metadata_of_a_new_revision() -> None:
    raw = sidecarset(containers=[DNS], customVersion="v7")
    raw["metadata"]["annotations"] = {"note": "x"}
    facts = sidecarset_facts({**raw, "status": {"collisionCount": 1}})
    made = new_revision(facts, 3)
    found = revision_object(made, "kruise-system", facts.owner_reference)
    digest = revision_hash(made.data, 1)
    assert found["metadata"]["name"] == f"ss-{digest}"
    assert found["metadata"]["labels"] == {
        "team": "mesh",
        "controller.kubernetes.io/hash": digest,
        SET_LABEL: "ss",
        "apps.kruise.io/sidecarset-custom-version": "v7",
    }
    assert found["metadata"]["annotations"] == {"note": "x"}
    assert found["metadata"]["ownerReferences"][0]["apiVersion"] == "apps.kruise.io/v1beta1"
    assert (found["revision"], found["metadata"]["namespace"]) == (3, "kruise-system")


def test_restoring_keeps_the_five_recorded_fields_alone() -> None:
    old = sidecarset(containers=[DNS], volumes=[{"name": "v", "emptyDir": {}}])
    new = sidecarset(containers=[CENTOS], updateStrategy={"paused": True})
    new["metadata"]["annotations"] = {HASH: "new", "kept": "yes"}
    revision = Revision(
        name="ss-1",
        number=1,
        data=sidecarset_revision_data(old),
        annotations={HASH: "recorded"},
    )
    back = restored(new, revision)
    assert set(back["spec"]) == {"containers", "volumes"} < set(RECORDED)
    assert back["spec"]["containers"][0]["image"] == "dns:1.0"
    assert back["metadata"]["annotations"][HASH] == "recorded"
    assert back["metadata"]["annotations"]["kept"] == "yes"
    without = sidecarset(containers=[{k: v for k, v in DNS.items() if k != "image"}])
    assert back["metadata"]["annotations"][HASH_WITHOUT_IMAGE] == sidecarset_hash(without)
    assert back["status"]["latestRevision"] == "ss-1"
    assert new["spec"]["updateStrategy"] == {"paused": True}


@pytest.mark.parametrize("data", [b"", b"[]", b'{"spec":null}', b"[" * 100_000])
def test_data_that_record_nothing_are_named(data: bytes) -> None:
    with pytest.raises(ValueError, match="ControllerRevision ss-1 records no SidecarSet"):
        restored(sidecarset(), Revision(name="ss-1", number=1, data=data))


def test_the_newest_revision_of_a_version() -> None:
    def tagged(name: str, number: int, version: str, owner: str = "ss") -> Revision:
        labels = {SET_LABEL: owner, "apps.kruise.io/sidecarset-custom-version": version}
        return Revision(name=name, number=number, data=b"", labels=labels)

    known = [
        tagged("ss-c", 3, "v1"),
        tagged("ss-a", 1, "v1"),
        tagged("ss-b", 9, "v2"),
        tagged("other-d", 10, "v1", owner="other"),
    ]
    found = newest_of_version(known, "ss", "v1")
    assert found is not None
    assert found.name == "ss-c"
    assert newest_of_version(known, "ss", "v3") is None
