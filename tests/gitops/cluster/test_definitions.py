"""Definitions of kinds that are deleted and installed again while gitkruise runs."""

from __future__ import annotations

from itertools import groupby
from typing import Any, Final

import pytest

from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, Stage, config_map
from tests.gitops.status.test_health_checks import CRD

pytestmark = pytest.mark.slow

DATABASE: Final[Obj] = {
    "apiVersion": "example.com/v1",
    "kind": "Database",
    "metadata": {"name": "main"},
    "spec": {"size": 1},
}


def define(stage: Stage, verb: str) -> None:
    """Create or delete the definition, as an installer does."""
    kind = stage.world.catalog.by_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
    assert kind is not None
    request: dict[str, Any] = {"body": CRD}
    if verb == "delete":
        request = {"name": CRD["metadata"]["name"]}
    stage.world.handle(ApiRequest(verb=verb, resource=kind.ref, **request), stage.clock.now())
    stage.cluster.publish()


def test_objects_of_a_deleted_definition_are_not_as_git_asks(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        define(stage, "create")
        async with stage.running():
            await stage.push(DATABASE, config_map("settings", mode="fast"))
            await stage.rest()
            assert stage.state == "Done"
            define(stage, "delete")
            await stage.rest(90)
            assert (stage.state, [f.code for f in stage.record.findings]) == ("Stuck", ["GK4201"])
            assert "this cluster does not know kind Database" in stage.record.message
            define(stage, "create")
            await stage.rest(300)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("Database", "main", "example.com")["spec"] == {"size": 1}

    stage.play(script)


def test_a_kind_that_was_discovered_meanwhile_is_followed_before_it_is_applied(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        define(stage, "create")
        async with stage.running():
            await stage.push(DATABASE)
            await stage.rest()
            define(stage, "delete")
            await stage.rest(90)
            assert stage.state == "Stuck"
            define(stage, "create")
            await stage.around.live.rediscover()  # as another unit's rejection does
            stage.wire.requests.clear()
            await stage.rest(90)
            assert (stage.state, len(stage.wire.writes())) == ("Done", 1)

    stage.play(script)


def test_the_other_objects_of_a_commit_with_an_unknown_kind_are_not_reported_as_unchanged(
    staged: MakeStage,
) -> None:
    """No dry run goes into a namespace that the commit creates: the rest of it is applied."""
    stage = staged()
    space: Obj = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fresh"}}
    inside = {"namespace": "fresh"}

    def within(obj: Obj) -> Obj:
        return {**obj, "metadata": {**obj["metadata"], **inside}}

    async def script() -> None:
        async with stage.running():
            await stage.push(space, within(DATABASE), within(config_map("settings", mode="fast")))
            await stage.rest(5)
            (finding,) = stage.record.findings
            assert finding.code == "GK4201"
            note = dict(finding.notes)["unchanged"]
            assert note == "nothing of that kind is written; it is tried again"
            assert stage.world.get(ObjectKey("", "ConfigMap", "fresh", "settings")) is not None

    stage.play(script)


def test_tries_that_fail_alike_are_reported_once(staged: MakeStage) -> None:
    """A record, a message and a log line for each try would bury what a user has to do."""
    stage = staged()
    states: list[State] = []

    async def script() -> None:
        define(stage, "create")
        async with stage.running():
            await stage.push(DATABASE, config_map("settings", mode="fast"))
            await stage.rest()
            stage.reporter.listen(lambda record: states.append(record.state))
            define(stage, "delete")
            await stage.rest(300)
            changes = [state for state, _ in groupby(states)]
            assert (stage.state, changes.count(State.STUCK)) == ("Stuck", 1), changes
            define(stage, "create")
            await stage.rest(300)
            assert (stage.state, states[-1]) == ("Done", State.DONE)

    stage.play(script)
