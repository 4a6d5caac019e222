"""Definitions that change together with their objects, and objects that a definition refuses."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
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


def test_a_field_that_the_live_definition_lost_rejects_the_commit(staged: MakeStage) -> None:
    """An API server answers 500, as to an error of its own; it is the object that is at fault."""
    stage = staged()

    def define(verb: str, crd: Obj) -> None:
        kind = stage.world.catalog.by_kind("apiextensions.k8s.io", "v1", CRD["kind"])
        assert kind is not None
        name = crd["metadata"]["name"] if verb == "patch" else ""
        request = ApiRequest(
            verb=verb, resource=kind.ref, name=name, body=crd, content_type=MERGE_PATCH
        )
        stage.world.handle(request, stage.clock.now())
        stage.cluster.publish()

    async def script() -> None:
        define("create", typed(size="integer", color="string"))
        async with stage.running():
            await stage.push(database(size=1))
            await stage.rest()
            define("patch", typed(size="integer"))
            await stage.push(database(size=1, color="red"))
            await stage.rest(5)
            (finding,) = stage.record.findings
            assert (stage.state, finding.code) == ("Rejected", "GK2102")
            assert ".spec.color: field not declared in schema" in finding.message
            assert finding.places[0].line == 7

    stage.play(script)
