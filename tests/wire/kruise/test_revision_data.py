"""Templates are normalised, defaulted and turned into revision bytes as OpenKruise does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitkruise.wire.kruise.hashes import fnv1_32, revision_hash, revision_name
from gitkruise.wire.kruise.revision_data import (
    claims_hash,
    default_claim,
    default_template,
    revision_data,
)

GOLDEN: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[2] / "oracle" / "golden_revisions.jsonl")
    .read_text()
    .splitlines()
]


def template(**container: Any) -> dict[str, Any]:
    return {
        "metadata": {"labels": {"app": "sample"}},
        "spec": {"containers": [{"name": "nginx", **container}]},
    }


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["id"])
def test_golden_revisions(row: dict[str, Any]) -> None:
    stored = default_template(row["template"]) if row["defaulted"] else row["template"]
    data = revision_data(stored)
    count = row["collisionCount"]
    if row["data"] is not None:
        assert data.decode() == row["data"]
    assert len(data) == row["length"]
    assert fnv1_32(data + str(count).encode()) == row["sum"]
    assert revision_name(row["owner"], revision_hash(data, count)) == row["revision"]
    assert claims_hash(row["claims"]) == row["claimsHash"]


@pytest.mark.parametrize(
    ("container", "revision"),
    [
        ({"image": "nginx:alpine"}, "sample-d4d4fb5bd"),
        ({"image": "nginx:alpine", "imagePullPolicy": "Always"}, "sample-d4d4fb5bd"),
        ({"image": "nginx:mainline", "imagePullPolicy": "Always"}, "sample-56dfb978d4"),
    ],
)
def test_names_in_the_openkruise_documentation(container: dict[str, str], revision: str) -> None:
    data = revision_data(default_template(template(**container)))
    assert revision_name("sample", revision_hash(data, 0)) == revision


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row["id"])
def test_defaulting_and_normalising_settle(row: dict[str, Any]) -> None:
    once = default_template(row["template"])
    assert default_template(once) == once
    assert revision_data(once) == revision_data(default_template(once))


def claim(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "labels": {"x": name}, "annotations": {"y": "z"}},
        "spec": {"accessModes": ["ReadWriteOnce"], **spec},
        "status": {"phase": "Pending"},
    }


ONE = claim("pvc-1", resources={"requests": {"storage": "1Gi"}, "limits": {"storage": "2Gi"}})
TWO = claim("pvc-2", resources={"requests": {"storage": "2Gi"}, "limits": {"storage": "4Gi"}})


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ([], ""),
        (None, ""),
        (
            [claim("data", storageClassName="fast", resources={"requests": {"storage": "10Gi"}})],
            "1866150430",
        ),
        ([ONE], "1129974074"),
        ([ONE, TWO], "510584408"),
        ([TWO, ONE], "510584408"),
    ],
)
def test_claims_hash_sees_names_and_specs_in_name_order(
    claims: list[dict[str, Any]] | None, expected: str
) -> None:
    assert claims_hash(claims) == expected


def test_claim_templates_get_a_phase_and_whole_thousandths() -> None:
    stored = default_claim(
        {"metadata": {"name": "d"}, "spec": {"resources": {"requests": {"storage": "0.0001"}}}}
    )
    assert stored == {
        "metadata": {"name": "d", "creationTimestamp": None},
        "spec": {"resources": {"requests": {"storage": "1m"}}},
        "status": {"phase": "Pending"},
    }


@pytest.mark.parametrize(("gate", "port"), [(True, 80), (False, None)])
def test_host_ports_of_host_network_pods_follow_their_gate(gate: bool, port: int | None) -> None:
    pod = template(image="a", ports=[{"containerPort": 80}, {"containerPort": 81, "hostPort": 9}])
    host = {**pod, "spec": {**pod["spec"], "hostNetwork": True}}
    ports = default_template(host, host_ports=gate)["spec"]["containers"][0]["ports"]
    assert [p.get("hostPort") for p in ports] == [port, 9]
    bridged = default_template(pod, host_ports=gate)["spec"]["containers"][0]["ports"]
    assert [p.get("hostPort") for p in bridged] == [None, 9]


def test_defaults_never_change_what_was_given() -> None:
    given = template(image="a:1", resources={"limits": {"cpu": "1000m"}})
    before = json.dumps(given)
    default_template(given)
    assert json.dumps(given) == before
