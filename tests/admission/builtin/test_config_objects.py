"""ConfigMaps, Secrets, claims and nodes are stored and refused as a kube-apiserver does it."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.paths import put
from tests.admission.writes import admitted, fields, refusal


def thing(kind: str, **content: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "x"}, **content}


def docker(text: str) -> dict[str, Any]:
    return thing("Secret", type="kubernetes.io/dockerconfigjson", data={".dockerconfigjson": text})


def test_a_secret_of_no_type_is_opaque() -> None:
    assert admitted(thing("Secret", type=""))["type"] == "Opaque"


def claim(size: str = "1Gi", **spec: Any) -> dict[str, Any]:
    resources = {"requests": {"storage": size}}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": resources, **spec}
    return thing("PersistentVolumeClaim", spec=spec)


def test_string_data_becomes_data() -> None:
    stored = admitted(thing("Secret", data={"a": "eA==", "b": "eA=="}, stringData={"b": "é"}))
    assert stored["data"] == {"a": "eA==", "b": "w6k="}
    assert stored["type"] == "Opaque"
    assert "stringData" not in stored


def test_base64_may_have_line_breaks_and_is_stored_without() -> None:
    broken, whole = "aGVsbG8g\r\nd29ybGQ=\n", "aGVsbG8gd29ybGQ="
    assert admitted(thing("Secret", data={"a": broken}))["data"] == {"a": whole}
    assert admitted(thing("ConfigMap", binaryData={"a": broken}))["binaryData"] == {"a": whole}
    assert refusal(thing("Secret", data={"a": broken})) is None
    assert fields(refusal(thing("Secret", data={"a": "aGVs bG8="}))) == {"data[a]"}


def test_claims_get_a_mode_and_plain_amounts() -> None:
    stored = admitted(claim("1024Mi"))["spec"]
    assert stored["volumeMode"] == "Filesystem"
    assert stored["resources"] == {"requests": {"storage": "1Gi"}}


def test_a_node_can_allocate_its_capacity() -> None:
    node = admitted(thing("Node", status={"capacity": {"cpu": "4"}}))
    assert node["status"]["allocatable"] == {"cpu": "4"}
    config = thing("Node", status={"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}})
    assert admitted(config) is config
    junk = thing("Node", status={"capacity": "much"})
    assert admitted(junk) is junk, "the schema has the word on what is no map"


TAINT = {"key": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("obj", "refused"),
    [
        (thing("ConfigMap", data={"a/b": "x"}), {"data[a/b]"}),
        (thing("ConfigMap", data={"..": "x"}), {"data[..]"}),
        (thing("ConfigMap", data={"a": "x"}, binaryData={"a": "eA=="}), {"data[a]"}),
        (thing("ConfigMap", data={"a": "x" * (1024 * 1024 + 1)}), {""}),
        (thing("ConfigMap", data={"a": "x"}), set()),
        (thing("Secret", data={"a": "??"}), {"data[a]"}),
        (thing("Secret", type="kubernetes.io/tls"), {"data[tls.crt]", "data[tls.key]"}),
        (thing("Secret", type="kubernetes.io/basic-auth"), {"data[username]", "data[password]"}),
        (thing("Secret", type="kubernetes.io/basic-auth", data={"username": "eA=="}), set()),
        (
            thing("Secret", type="kubernetes.io/ssh-auth", data={"ssh-privatekey": ""}),
            {"data[ssh-privatekey]"},
        ),
        (
            thing("Secret", type="kubernetes.io/service-account-token"),
            {"metadata.annotations[kubernetes.io/service-account.name]"},
        ),
        (docker("ew=="), {"data[.dockerconfigjson]"}),  # {
        (docker("W10="), {"data[.dockerconfigjson]"}),  # []
        (docker("/w=="), {"data[.dockerconfigjson]"}),  # no UTF-8
        (docker("e30="), set()),  # {}
        (docker("ew\n=="), {"data[.dockerconfigjson]"}),  # { on two lines
        (docker("\u0430"), {"data[.dockerconfigjson]"}),  # a Cyrillic letter
        (docker("W1tb" * 100_000), {"data[.dockerconfigjson]"}),  # [[[ without end
        (claim("0"), {"spec.resources.requests.storage"}),
        (claim(accessModes=[]), {"spec.accessModes"}),
        (claim(accessModes=["Wild"]), {"spec.accessModes[0]"}),
        (claim(volumeMode="Wild"), {"spec.volumeMode"}),
        (thing("Node", spec={"taints": [TAINT]}), set()),
        (thing("Node", spec={"taints": [TAINT, TAINT]}), {"spec.taints[1]"}),
        (thing("Node", spec={"taints": [{**TAINT, "effect": "Wild"}]}), {"spec.taints[0].effect"}),
        (thing("Node", spec={"taints": [{**TAINT, "key": "a b"}]}), {"spec.taints[0].key"}),
    ],
)
def test_creates(obj: dict[str, Any], refused: set[str]) -> None:
    error = refusal(obj)
    assert fields(error) == refused
    assert (error is None) == (not refused)


@pytest.mark.parametrize(
    ("old", "path", "value", "refused"),
    [
        (thing("ConfigMap", data={"a": "x"}), ("data", "a"), "y", set()),
        (thing("ConfigMap", data={"a": "x"}, immutable=True), ("data", "a"), "y", {"data"}),
        (thing("ConfigMap", immutable=True), ("immutable",), False, {"immutable"}),
        (thing("Secret", data={"a": "eA=="}, immutable=True), ("data", "a"), "eQ==", {"data"}),
        (thing("Secret"), ("type",), "other", {"type"}),
        (claim(), ("spec", "resources", "requests", "storage"), "2Gi", set()),
        (claim(), ("spec", "resources", "requests", "storage"), "1Mi",
         {"spec.resources.requests.storage"}),
        (claim(), ("spec", "storageClassName"), "fast", {"spec"}),
        (claim(), ("spec", "volumeName"), "v1", set()),
    ],
)  # fmt: skip
def test_updates(old: dict[str, Any], path: tuple[str, ...], value: Any, refused: set[str]) -> None:
    stored = admitted(old)
    assert fields(refusal(put(stored, path, value), stored)) == refused
