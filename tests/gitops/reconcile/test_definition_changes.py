"""Definitions that change together with their objects."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import put
from tests.gitops.stage import MakeStage
from tests.gitops.status.test_health_checks import CRD

pytestmark = pytest.mark.slow


def typed(**fields: str) -> Obj:
    """Return the definition of databases whose spec has these fields, by type."""
    fixed = {name: {"type": type_} for name, type_ in fields.items()}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fixed}}}
    (version,) = CRD["spec"]["versions"]
    changed = {**version, "schema": {"openAPIV3Schema": schema}}
    crd: Obj = put(CRD, ("spec", "versions"), [changed])
    return crd


def database(**spec: Any) -> Obj:
    meta = {"name": "main"}
    return {"apiVersion": "example.com/v1", "kind": "Database", "metadata": meta, "spec": spec}


def test_a_field_is_added_to_a_definition_and_used_in_one_commit(staged: MakeStage) -> None:
    """A dry run of the object meets the definition as it is before the commit."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(typed(size="integer"), database(size=1))
            await stage.rest()
            await stage.push(typed(size="integer", color="string"), database(size=1, color="red"))
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            live = stage.get("Database", "main", "example.com")
            assert live["spec"] == {"size": 1, "color": "red"}

    stage.play(script)
