"""Amounts of an Advanced DaemonSet that OpenKruise's webhook rejects."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.admission.writes import fields, refusal

AT: Final = "spec.updateStrategy.rollingUpdate."
ROWS: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({}, ()),
    ({"maxUnavailable": "20%", "partition": 3, "rollingUpdateType": "InPlaceIfPossible"}, ()),
    ({"maxUnavailable": 0, "maxSurge": 1, "partition": "50%"}, ()),
    ({"maxUnavailable": -1}, ("maxUnavailable",)),
    ({"maxUnavailable": "most"}, ("maxUnavailable",)),
    ({"maxUnavailable": "120%"}, ("maxUnavailable",)),
    ({"maxUnavailable": 1, "maxSurge": 1}, ("maxSurge",)),
    ({"maxUnavailable": 0, "maxSurge": 0}, ("maxUnavailable",)),
    ({"partition": -1}, ("partition",)),
    ({"partition": "-10%"}, ("partition",)),
    ({"rollingUpdateType": "Fast"}, ("rollingUpdateType",)),
]


@pytest.mark.parametrize("row", ROWS, ids=[str(row[0]) for row in ROWS])
@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_what_is_written_is_checked(
    row: tuple[dict[str, Any], tuple[str, ...]], version: str
) -> None:
    rolling, wrong = row
    template = {
        "metadata": {"labels": {"app": "x"}},
        "spec": {"containers": [{"name": "main", "image": "nginx:1"}]},
    }
    obj: dict[str, Any] = {
        "apiVersion": f"apps.kruise.io/{version}", "kind": "DaemonSet",
        "metadata": {"name": "x", "namespace": "shop", "uid": "u1"},
        "spec": {
            "selector": {"matchLabels": {"app": "x"}}, "template": template,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": rolling},
        },
    }  # fmt: skip
    assert fields(refusal(obj)) == {AT + name for name in wrong}
