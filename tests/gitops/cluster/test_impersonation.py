"""A unit that names a service account writes with that account's rights and with no others."""

from __future__ import annotations

import pytest

from gitkruise.errors import ApiError, Forbidden
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, Stage, config_map, web

USER = "system:serviceaccount:shop:deployer"
WRITES = frozenset({"create", "update", "patch", "delete"})


def asked(stage: Stage) -> set[tuple[str, str, str]]:
    """(verb, plural, user) of every write of objects so far, the annotator's aside."""
    return {
        (r.verb + ("?" if "dryRun" in r.params else ""), r.resource.plural, r.user)
        for r in stage.wire.requests
        if r.verb in WRITES and r.params.get("fieldManager") != "gitkruise-status"
    }


@pytest.mark.slow
def test_dry_runs_applies_and_deletions_are_made_for_the_account(staged: MakeStage) -> None:
    stage = staged(serviceAccountName="deployer")

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), config_map("old", a="1"), config_map("kept", a="1"))
            await stage.rest()
            await stage.push(web(), config_map("kept", a="2"))
            await stage.rest()
            assert stage.state == "Done"
            assert stage.get("ConfigMap", "old") is None
            assert asked(stage) == {
                ("create", "selfsubjectreviews", USER),
                ("patch?", "clonesets", USER),
                ("patch", "clonesets", USER),
                ("patch?", "configmaps", USER),
                ("patch", "configmaps", USER),
                ("delete", "configmaps", USER),
                ("create", "events", ""),  # what gitkruise says, it says in its own name
            }
            reviews = [r for r in stage.wire.requests if r.resource.plural.startswith("self")]
            assert len(reviews) == 1
            lists = {r.user for r in stage.wire.requests if r.verb == "list"}
            assert lists == {""}  # what is live is seen whatever the account may see

    stage.play(script)


@pytest.mark.slow
def test_what_the_account_may_not_do_is_reported_with_its_name(staged: MakeStage) -> None:
    stage = staged(serviceAccountName="deployer")
    message = (
        f'clonesets.apps.kruise.io "web" is forbidden: User "{USER}" cannot patch resource '
        '"clonesets" in API group "apps.kruise.io" in the namespace "shop"'
    )

    def refuse(request: ApiRequest) -> ApiError | None:
        return (
            Forbidden(message) if request.resource.plural == "clonesets" and request.user else None
        )

    async def script() -> None:
        stage.wire.refuse = refuse
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            (finding,) = stage.record.findings
            assert (stage.state, finding.code) == ("Rejected", "GK4301")
            assert message in finding.message
            assert "give service account shop/deployer that right" in dict(finding.notes)["next"]
            stage.wire.refuse = lambda _: None
            await stage.rest(300)
            assert stage.state == "Done"

    stage.play(script)


@pytest.mark.slow
def test_nothing_is_written_when_we_may_not_act_for_the_account(staged: MakeStage) -> None:
    stage = staged(serviceAccountName="deployer")

    def refuse(request: ApiRequest) -> ApiError | None:
        return Forbidden("cannot impersonate resource") if request.user else None

    async def script() -> None:
        stage.wire.refuse = refuse
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            assert [f.code for f in stage.record.findings] == ["GK4302"]
            assert {verb for verb, *_ in asked(stage)} == {"create"}  # of reviews alone

    stage.play(script)


@pytest.mark.slow
def test_requests_that_pass_for_our_own_are_not_made(staged: MakeStage) -> None:
    stage = staged(serviceAccountName="deployer")
    stage.wire.honours = False

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            (finding,) = stage.record.findings
            assert finding.code == "GK4302"
            assert "takes requests for" in finding.message
            assert stage.get("CloneSet", "web", "apps.kruise.io") is None

    stage.play(script)
