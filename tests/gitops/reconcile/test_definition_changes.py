"""Definitions that change together with their objects, and objects that a definition refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gitkruise.errors import ApiError, InternalError, api_error
from gitkruise.gitops.build.redacted_findings import refused_field
from gitkruise.gitops.reconcile.applier import Applier
from gitkruise.gitops.reconcile.rejections import kind_is_gone, refusal
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Reference, Unit, UnitSpec
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    MERGE_PATCH,
    ApiReply,
    ApiRequest,
    WatchEvent,
)
from tests.gitops.stage import MakeStage, Stage, config_map
from tests.gitops.status.test_health_checks import CRD
from tests.planner.sync.build import desired

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


def define(stage: Stage, verb: str, crd: Obj) -> None:
    """Create, patch or delete a definition, as an installer does."""
    kind = stage.world.catalog.by_kind("apiextensions.k8s.io", "v1", CRD["kind"])
    assert kind is not None
    name = "" if verb == "create" else crd["metadata"]["name"]
    request = ApiRequest(
        verb=verb, resource=kind.ref, name=name, content_type=MERGE_PATCH,
        body=crd if verb != "delete" else None,
    )  # fmt: skip
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


def stands(stage: Stage, state: State) -> None:
    """Let another unit, which has the definition, be in `state`."""
    stage.around.standings.receive(
        UnitRecord(
            unit="shop/crds", cluster="test", source="main", state=state, message="",
            since=stage.clock.now(),
        )
    )  # fmt: skip


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


@pytest.mark.parametrize("by_git", [True, False], ids=["in its commit", "by its installer"])
def test_an_object_outlives_the_version_that_it_was_applied_in(
    staged: MakeStage, *, by_git: bool
) -> None:
    """kube-apiserver answers each apply with 500 while a field owner names such a version."""
    stage = staged()
    new = typed(size="integer", more="integer")
    (version,) = new["spec"]["versions"]
    older = {**version, "name": "v1beta1", "storage": False}
    both = put(new, ("spec", "versions"), [version, older])

    def served() -> bool:
        return stage.world.catalog.by_kind("example.com", "v1beta1", "Database") is not None

    def unconverted(request: ApiRequest) -> ApiError | None:
        live = stage.get("Database", "main", "example.com")
        if request.name != "main" or request.content_type != APPLY_PATCH or not live or served():
            return None
        owners = {entry["apiVersion"] for entry in live["metadata"]["managedFields"]}
        why = "request to convert CR to an invalid group/version: example.com/v1beta1"
        return InternalError(why) if "example.com/v1beta1" in owners else None

    async def script() -> None:
        stage.wire.refuse = unconverted
        if not by_git:
            define(stage, "create", both)
        async with stage.running():
            old = {**database(size=1, more=2), "apiVersion": "example.com/v1beta1"}
            await stage.push(*[both] * by_git, old)
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            if not by_git:
                define(stage, "patch", new)
                await stage.rest(60)
            await stage.push(*[new] * by_git, database(size=2))
            await stage.rest(60)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("Database", "main", "example.com")["spec"] == {"size": 2}

    stage.play(script)


def test_a_field_that_the_live_definition_lost_rejects_the_commit(staged: MakeStage) -> None:
    """An API server answers 500, as to an error of its own; it is the object that is at fault."""
    stage = staged()

    async def script() -> None:
        define(stage, "create", typed(size="integer", color="string"))
        async with stage.running():
            await stage.push(database(size=1))
            await stage.rest()
            define(stage, "patch", typed(size="integer"))
            await stage.push(database(size=1, color="red"))
            await stage.rest(5)
            (finding,) = stage.record.findings
            assert (stage.state, finding.code) == ("Rejected", "GK1203")
            assert finding.places[0].line == 7

    stage.play(script)


def test_an_apply_that_a_schema_does_not_type_is_refused_for_its_field() -> None:
    named = "errors:\n  .spec.color: field not declared in schema\n  .spec.x: expected string"
    text = f"failed to create typed patch object (shop/main; a.b/v1, Kind=Database): {named}"
    error = api_error({"message": text}, 500)
    finding = refusal(desired(database(size=1)), error)
    assert (finding.code, finding.message) == ("GK2102", " ".join(text.split()))
    assert refused_field(error) == "spec.color"


UNCONVERTED = (
    'conversion webhook for a.b/v1, Kind=Database failed: Post "https://kruise.svc:443/convert": '
    'service "kruise" not found'
)


def test_a_conversion_webhook_that_cannot_be_called_is_the_cause() -> None:
    finding = refusal(desired(database(size=1)), api_error({"message": UNCONVERTED}, 500))
    assert (finding.code, finding.places[0].line) == ("GK5101", 1)
    notes = dict(finding.notes)
    assert notes["it says"].endswith('service "kruise" not found')
    assert notes["next"].startswith("start what converts it: kubectl get crds ")


class Answering:
    """A transport whose every answer is `error`."""

    def __init__(self, error: ApiError) -> None:
        self.error = error

    async def send(self, request: ApiRequest) -> ApiReply:
        raise self.error

    def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        raise self.error

    async def close(self) -> None: ...


@pytest.mark.parametrize("named", [False, True], ids=["its kind", "its namespace"])
def test_an_answer_that_names_nothing_says_that_the_kind_is_gone(named: bool) -> None:
    """The CRD was deleted since the kinds were discovered."""
    details = {"kind": "namespaces", "name": "shop"} if named else {}
    answers = Answering(api_error({"message": "404 page not found", "details": details}, 404))
    d, unit = desired(config_map("settings")), Unit("shop", "web", UnitSpec(Reference("src")))
    applier = Applier(answers, unit, "label", GitCommit(id="c" * 40))
    (sent,) = asyncio.run(applier.send([d], {}, load_catalog()))
    assert sent.finding is not None
    notes = dict(sent.finding.notes)
    if named:
        assert (sent.finding.code, sent.retry) == ("GK4202", False)
        assert notes["next"].startswith("add the Namespace to git")
    else:
        assert (sent.finding.code, sent.retry, sent.unserved) == ("GK4201", True, True)
        assert notes == {
            "unchanged": "nothing of that kind is written; it is tried again",
            "next": "install the CRD again, or take the object out of git",
        }


def test_a_webhook_that_refuses_with_404_speaks_of_no_namespace() -> None:
    denied = api_error({"message": 'admission webhook "a.b" denied the request: no owner'}, 404)
    assert refusal(desired(database(size=1)), denied).code == "GK2102"
    assert not kind_is_gone(denied)


@pytest.mark.parametrize("waits", [False, True])
def test_a_field_that_the_live_definition_got_is_known(staged: MakeStage, waits: bool) -> None:
    """Definitions change without a commit of the unit: another unit, or an installer, has them."""
    stage = staged(**({"dependsOn": [{"name": "crds"}]} if waits else {}))

    async def script() -> None:
        define(stage, "create", typed(size="integer"))
        async with stage.running():
            stands(stage, State.DONE)
            await stage.push(database(size=1))
            await stage.rest()
            assert stage.state == "Done"
            stands(stage, State.ROLLING)
            await stage.push(database(size=1, color="red"))
            await stage.rest()
            expected = ("Waiting", "shop/crds (Rolling, )") if waits else ("Rejected", "")
            assert (stage.state, stage.record.waits) == expected
            define(stage, "patch", typed(size="integer", color="string"))
            stands(stage, State.DONE)
            await stage.rest(5 if waits else 150)
            assert (stage.state, stage.record.findings) == ("Done", ())
            live = stage.get("Database", "main", "example.com")
            assert live["spec"] == {"size": 1, "color": "red"}

    stage.play(script)


def test_a_definition_that_returns_with_another_scope_has_its_commits_read_again(
    staged: MakeStage,
) -> None:
    stage = staged()
    crd = typed(size="integer")
    define(stage, "create", crd)

    async def script() -> None:
        async with stage.running():
            await stage.push(database(size=1))
            await stage.rest()
            assert stage.state == "Done"
            define(stage, "delete", crd)
            define(stage, "create", put(crd, ("spec", "scope"), "Cluster"))
            await stage.rest(150)
            (live,) = stage.world.objects(GroupKind("example.com", "Database"))
            assert "namespace" not in live["metadata"]
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)
