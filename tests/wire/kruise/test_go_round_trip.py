"""The typed round trip drops, keeps and refuses what Go structs do."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.kruise.go_round_trip import Malformed, normalise
from gitkruise.wire.kruise.go_types import TYPES
from gitkruise.wire.primitives.gojson import compact

MINUTE = "2020-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("type_name", "value", "kept"),
    [
        ("Toleration", {"key": "", "unknown": 1}, {}),
        ("Toleration", {"tolerationSeconds": 0}, {"tolerationSeconds": 0}),
        ("HostPathVolumeSource", {"type": ""}, {"path": "", "type": ""}),
        ("Capabilities", {"add": [], "drop": None}, {}),
        ("CSIVolumeSource", {"driver": "d", "volumeAttributes": {}}, {"driver": "d"}),
        ("Affinity", {"nodeAffinity": {}}, {"nodeAffinity": {}}),
        ("RBDVolumeSource", {"image": "i"}, {"monitors": None, "image": "i"}),
        ("RBDVolumeSource", {"monitors": []}, {"monitors": [], "image": ""}),
        ("GRPCAction", {"port": 1}, {"port": 1, "service": None}),
        ("ResourceFieldSelector", {"resource": "r"}, {"resource": "r", "divisor": "0"}),
        ("ResourceFieldSelector", {"divisor": 1.5}, {"resource": "", "divisor": "1500m"}),
        ("TCPSocketAction", {}, {"port": 0}),
        ("TCPSocketAction", {"port": "http"}, {"port": "http"}),
        ("TCPSocketAction", {"port": 80.0}, {"port": 80}),
        ("ObjectMeta", {"creationTimestamp": ""}, {"creationTimestamp": None}),
        ("ObjectMeta", None, {"creationTimestamp": None}),
        (
            "ObjectMeta",
            {"creationTimestamp": "2020-01-02T05:04:05.999+02:00", "labels": {"b": "1", "a": None}},
            {"creationTimestamp": MINUTE, "labels": {"a": "", "b": "1"}},
        ),
        ("PodSpec", {"tolerations": [{}, None]}, {"containers": None, "tolerations": [{}, {}]}),
        ("ManagedFieldsEntry", {"fieldsV1": {"f:a": {}}}, {"fieldsV1": {"f:a": {}}}),
    ],
)
def test_what_is_left_of_a_value(type_name: str, value: Any, kept: Any) -> None:
    assert normalise(type_name, value) == kept


@pytest.mark.parametrize(
    ("type_name", "value", "path"),
    [
        ("PodTemplateSpec", [], ()),
        ("PodTemplateSpec", {"spec": "x"}, ("spec",)),
        ("PodTemplateSpec", {"spec": {"containers": {}}}, ("spec", "containers")),
        ("PodTemplateSpec", {"metadata": {"labels": {"a": 1}}}, ("metadata", "labels", "a")),
        ("PodTemplateSpec", {"metadata": {"creationTimestamp": "noon"}},
         ("metadata", "creationTimestamp")),
        ("PodSpec", {"hostNetwork": "yes"}, ("hostNetwork",)),
        ("PodSpec", {"priority": 2**31}, ("priority",)),
        ("PodSpec", {"priority": 1.5}, ("priority",)),
        ("PodSpec", {"priority": True}, ("priority",)),
        ("PodSpec", {"containers": [{}, {"name": 5}]}, ("containers", 1, "name")),
        ("Container", {"resources": {"limits": {"cpu": "much"}}}, ("resources", "limits", "cpu")),
        ("Container", {"resources": {"limits": {"cpu": []}}}, ("resources", "limits", "cpu")),
        ("TCPSocketAction", {"port": []}, ("port",)),
    ],
)  # fmt: skip
def test_what_no_struct_can_hold_is_refused_with_its_path(
    type_name: str, value: Any, path: tuple[str | int, ...]
) -> None:
    with pytest.raises(Malformed) as caught:
        normalise(type_name, value)
    assert caught.value.path == path
    assert str(caught.value).endswith(caught.value.problem)


def values_of(kind: str, depth: int) -> st.SearchStrategy[Any]:
    """Values a field of `kind` may hold, three structs deep."""
    scalars: dict[str, st.SearchStrategy[Any]] = {
        "str": st.sampled_from(["", "a", "<&>"]),
        "bool": st.booleans(),
        "i32": st.integers(-(2**31), 2**31 - 1) | st.just(0),
        "i64": st.integers(-(2**63), 2**63 - 1) | st.just(0),
        "Time": st.none() | st.just(MINUTE),
        "Qty": st.sampled_from([0, 1.5, "1Gi", "1024Mi", "010", "0"]),
        "IntOrStr": st.integers(0, 9) | st.sampled_from(["", "20%"]),
        "RawJSON": st.just({"f:a": {}}),
    }
    if kind.startswith("*"):
        return st.none() | values_of(kind[1:], depth)
    if kind.startswith("[]"):
        return st.none() | st.lists(values_of(kind[2:], depth), max_size=2)
    if kind.startswith("map<"):
        return st.none() | st.dictionaries(
            st.sampled_from("bac"), values_of(kind[4:-1], depth), max_size=2
        )
    return scalars[kind] if kind in scalars else structs(kind, depth - 1)


def structs(name: str, depth: int) -> st.SearchStrategy[dict[str, Any]]:
    if depth < 0:
        return st.just({})
    fields = {field: values_of(kind, depth) for field, _, kind in TYPES[name]}
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.slow
@given(st.sampled_from(sorted(TYPES)).flatmap(lambda n: st.tuples(st.just(n), structs(n, 1))))
def test_a_second_round_trip_changes_nothing(case: tuple[str, dict[str, Any]]) -> None:
    name, value = case
    once = normalise(name, value)
    assert compact(normalise(name, once)) == compact(once)
    assert [*once] == [field for field, _, _ in TYPES[name] if field in once], "struct order"
