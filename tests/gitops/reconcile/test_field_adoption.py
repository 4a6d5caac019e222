"""Objects of tools that were given up are taken over whole; what people edit stays theirs."""

from __future__ import annotations

import pytest

from gitkruise.errors import ApiError
from gitkruise.wire.primitives.requests import JSON_PATCH, ApiRequest
from tests.gitops.stage import MakeStage, Stage, config_map

pytestmark = pytest.mark.slow

ROWS: list[tuple[str, bool]] = [
    # who applied it before, whether what only that one named is taken out
    ("kubectl", True),
    ("kubectl-client-side-apply", True),
    ("before-first-apply", True),
    ("helm", True),
    ("kustomize-controller", True),
    ("argocd-controller", True),
    ("kubectl-edit", False),
    ("some-operator", False),
]


def managers(stage: Stage) -> set[str]:
    entries = stage.get("ConfigMap", "settings")["metadata"]["managedFields"]
    return {str(entry["manager"]) for entry in entries}


@pytest.mark.parametrize(("manager", "ours"), ROWS, ids=[row[0] for row in ROWS])
def test_what_git_does_not_name_or_stops_naming_goes(
    staged: MakeStage, manager: str, *, ours: bool
) -> None:
    stage = staged()

    async def script() -> None:
        stage.meddle(config_map("settings", mode="git", extra="1", more="1"), manager=manager)
        async with stage.running():
            await stage.push(config_map("settings", mode="git", more="1"))
            await stage.rest(30)
            kept = {} if ours else {"extra": "1"}
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "git", "more": "1"} | kept
            assert managers(stage) == ({"gitkruise"} if ours else {"gitkruise", manager})
            await stage.push(config_map("settings", mode="git"))
            await stage.rest(30)
            kept |= {} if ours else {"more": "1"}
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "git"} | kept
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_a_change_in_between_is_joined_too(staged: MakeStage) -> None:
    stage = staged()
    changed: list[str] = []

    def meanwhile(request: ApiRequest) -> ApiError | None:
        if request.content_type == JSON_PATCH and not changed:
            changed.append(request.name)
            stage.meddle(config_map("settings", other="1"), manager="some-operator")
        return None

    async def script() -> None:
        stage.meddle(config_map("settings", mode="git", extra="1"), manager="helm")
        stage.wire.refuse = meanwhile
        async with stage.running():
            await stage.push(config_map("settings", mode="git"))
            await stage.rest(30)
            assert changed
            data = {"mode": "git", "other": "1"}
            assert stage.get("ConfigMap", "settings")["data"] == data
            assert managers(stage) == {"gitkruise", "some-operator"}

    stage.play(script)


def test_a_new_object_costs_one_write(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(config_map("settings", mode="git"))
            await stage.rest(30)
            assert stage.wire.writes() == ["patch settings"]

    stage.play(script)
