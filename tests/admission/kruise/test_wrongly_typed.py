"""Requests to node agents with values of other types: admission leaves them to the schema."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.admission.chain import STAGES, mutate
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from tests.admission.writes import write

GATES = Gates(image_pull_job_gate=True)
SPECS: dict[str, list[Any]] = {
    "NodeImage": [
        "a", [], {"images": "a"}, {"images": {"a": "NaN"}}, {"images": {"a": {"tags": "a\nb"}}},
        {"images": {"a": {"tags": [None]}}}, {"images": {"a": {"tags": [{"tag": {}}]}}},
        {"images": {"a": {"tags": [{"tag": "v1", "version": "x", "pullPolicy": 3}]}}},
    ],
    "ImagePullJob": [
        "a", {"image": 3}, {"image": "a:1", "selector": "x"}, {"image": "a:1", "parallelism": {}},
        {"image": "a:1", "selector": {"names": [{}]}}, {"image": "a:1", "completionPolicy": 3},
        {"image": "a:1", "pullPolicy": {"timeoutSeconds": "x"},
         "completionPolicy": {"activeDeadlineSeconds": 3}},
    ],
    "ImageListPullJob": [{"images": "a"}, {"images": [{}]}, {"images": [3, 3]}],
}  # fmt: skip
ROWS = [(kind, spec) for kind, specs in SPECS.items() for spec in specs]


@pytest.mark.parametrize(("kind", "spec"), ROWS, ids=str)
def test_a_spec_of_other_types_stays_as_it_is(kind: str, spec: Any) -> None:
    meta = {"name": "a"} if kind == "NodeImage" else {"name": "a", "namespace": "shop"}
    obj = {"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": meta, "spec": spec}
    served = load_catalog().by_kind("apps.kruise.io", "v1beta1", kind)
    assert served is not None
    request = replace(write(obj), kind=served)
    assert mutate(request, GATES, STAGES) == request.new
