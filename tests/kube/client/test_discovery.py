"""The kinds of a cluster, from its CustomResourceDefinitions."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.package_data import load_catalog


def definition(plural: str, pattern: str, established: str = "") -> dict[str, Any]:
    """A definition with one string field; `established`: its condition, "" for none."""
    field = {"type": "string", "pattern": pattern}
    schema = {"type": "object", "properties": {"size": field}}
    names = {"plural": plural, "kind": plural.title()}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    conditions = [{"type": "Established", "status": established}] if established else []
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com", "names": names, "scope": "Namespaced", "versions": [version],
        },
        "status": {"conditions": conditions},
    }  # fmt: skip


@pytest.mark.parametrize("established", ["", "False"])
def test_a_definition_that_nobody_serves_is_compiled_and_a_bad_one_left_out(
    established: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = definition("bad", "(?=x)", established), definition("good", "x", established)
    with caplog.at_level(logging.WARNING):
        catalog = served_by(load_catalog(), [bad, good])
    assert catalog.by_kind("example.com", "v1", "Bad") is None
    assert catalog.by_kind("example.com", "v1", "Good") is not None
    assert ["bad.example.com" in record.getMessage() for record in caplog.records] == [True]


def test_a_definition_that_is_served_is_compiled_when_it_is_used() -> None:
    """An API server compiled its schema; `plan` on a cluster with hundreds of them must not."""
    catalog = served_by(load_catalog(), [definition("late", "(?=x)", "True")])
    assert catalog.by_kind("example.com", "v1", "Late") is not None
