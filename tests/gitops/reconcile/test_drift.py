"""Drift on a live cluster: one request puts it back, and who keeps at it is named."""

from __future__ import annotations

import base64

import pytest

from gitkruise.errors import ApiError, Forbidden
from gitkruise.model.workloads.pod import POD
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import MakeStage, Stage, config_map, web

pytestmark = pytest.mark.slow

SETTINGS = config_map("settings", mode="fast", size="1")


def patches(stage: Stage) -> list[ApiRequest]:
    return [
        r
        for r in stage.wire.requests
        if r.verb == "patch" and "dryRun" not in r.params and r.name == "settings"
    ]


def data(stage: Stage) -> dict[str, str]:
    found: dict[str, str] = stage.get("ConfigMap", "settings")["data"]
    return found


@pytest.mark.parametrize("manager", ["kubectl-edit", "helm", "kubectl-client-side-apply"])
def test_what_a_known_tool_changed_is_put_back_by_one_request(
    staged: MakeStage, manager: str
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            before = len(patches(stage))
            stage.meddle(config_map("settings", mode="slow"), manager=manager)
            await stage.rest(1)
            assert data(stage) == {"mode": "fast", "size": "1"}
            assert len(patches(stage)) - before == 1

    stage.play(script)


def test_wrapped_base64_is_applied_and_is_no_drift(staged: MakeStage) -> None:
    """kustomize wraps the values of the Secrets that it generates."""
    stage = staged()
    text = base64.b64encode(b"x" * 90).decode()
    wrapped = f"{text[:70]}\n{text[70:]}\n"
    meta = {"name": "settings", "namespace": "shop"}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": {"key": wrapped}}
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}

    async def script() -> None:
        async with stage.running():
            await stage.push(secret, {**files, "binaryData": {"key": wrapped}})
            await stage.rest(60)
            assert (stage.state, stage.record.drift) == ("Done", ())
            assert stage.get("Secret", "settings")["data"] == {"key": text}
            assert stage.get("ConfigMap", "settings")["binaryData"] == {"key": text}
            assert len(patches(stage)) == 2

    stage.play(script)


def test_a_correction_that_is_refused_is_repeated_like_any_refused_object(
    staged: MakeStage,
) -> None:
    """Rights were lost: a try each half minute, and what differs is said meanwhile."""
    stage = staged()

    def forbidden(request: ApiRequest) -> ApiError | None:
        return Forbidden("no rights any more") if request.name == "settings" else None

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            stage.wire.refuse = forbidden
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(1)
            tried = len(patches(stage))
            await stage.rest(25)
            assert len(patches(stage)) == tried
            await stage.rest(60)
            assert len(patches(stage)) == tried + 2 * 2, "two tries of two requests each"
            assert [f.code for f in stage.record.findings] == ["GK4301"]
            assert (stage.state, stage.record.objects[0].state) == ("Stuck", "Drifted")
            assert [d.field for d in stage.record.drift] == ["data.mode"]
            stage.wire.refuse = lambda _: None
            await stage.rest(60)
            assert data(stage) == {"mode": "fast", "size": "1"}
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_a_write_in_between_is_not_taken_over_unseen(staged: MakeStage) -> None:
    """The one request holds for the version that was judged: an operator's field stays its own."""
    stage = staged()

    def slip_in(request: ApiRequest) -> None:
        if request.params.get("force") == "true" and "resourceVersion" in request.body["metadata"]:
            stage.wire.refuse = lambda _: None
            stage.meddle(config_map("settings", size="9"), manager="size-operator")

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            stage.wire.refuse = slip_in
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(30)
            assert data(stage)["size"] == "9"
            assert stage.record.findings[0].code == "GK2401"
            assert "size-operator" in stage.record.findings[0].message

    stage.play(script)


@pytest.mark.parametrize(
    "rule", [{"paths": ["/data/size"]}, {"manager": "size-operator"}], ids=["path", "manager"]
)
def test_ignored_fields_are_neither_drift_nor_overwritten(
    staged: MakeStage, rule: dict[str, object]
) -> None:
    stage = staged(drift={"ignore": [{"kind": "ConfigMap", **rule}]})

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            stage.meddle(config_map("settings", size="9"), manager="size-operator")
            await stage.rest()
            assert (stage.state, data(stage)["size"]) == ("Done", "9")
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest()
            assert data(stage) == {"mode": "fast", "size": "9"}
            await stage.push(config_map("settings", mode="faster", size="1"))
            await stage.rest()
            assert data(stage) == {"mode": "faster", "size": "9"}
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_a_fight_over_one_field_ends_is_reported_and_leaves_the_others_in_order(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            before = len(patches(stage))
            for _ in range(300):
                stage.meddle(config_map("settings", mode="slow"), manager="kubectl-loop")
                await stage.rest(1)
            assert len(patches(stage)) - before == 5  # at 0, 2, 8, 26, 80 s and then no more
            assert stage.state == "Drifted"
            finding = stage.record.findings[0]
            assert finding.code == "GK2501"
            assert "kubectl-loop changes data.mode each time" in finding.message
            assert "5 times since" in finding.message
            (drift,) = stage.record.drift
            assert (drift.field, drift.manager) == ("data.mode", "kubectl-loop")
            stage.meddle(config_map("settings", size="9"), manager="kubectl-edit")
            await stage.rest(2)
            assert data(stage) == {"mode": "slow", "size": "1"}
            assert stage.state == "Drifted"
            news = len(stage.offered)
            await stage.rest(300)
            assert len(stage.offered) == news  # told once
            await stage.rest(300)
            assert data(stage) == {"mode": "fast", "size": "1"}  # they stopped, so it is over
            assert (stage.state, stage.record.findings, stage.record.drift) == ("Done", (), ())

    stage.play(script)


def test_a_clock_that_is_set_back_puts_off_no_correction(staged: MakeStage) -> None:
    stage = staged(drift={"backoff": {"base": "30s", "max": "30s"}})

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            for _ in range(2):
                stage.meddle(config_map("settings", mode="slow"), manager="kubectl-edit")
                await stage.rest(2)
            assert data(stage)["mode"] == "slow"
            stage.clock.step(-6 * 3600)
            await stage.rest(60)
            assert data(stage)["mode"] == "fast"

    stage.play(script)


def test_a_change_stands_for_the_delay_and_pauses_grow_as_asked(staged: MakeStage) -> None:
    backoff = {"base": "10s", "factor": 2, "max": "15s", "resetAfter": "2m"}
    stage = staged(drift={"delay": "20s", "backoff": backoff, "fightThreshold": 4})

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            stage.meddle(config_map("settings", mode="slow"), manager="kubectl-edit")
            await stage.rest(18)
            assert data(stage)["mode"] == "slow"
            await stage.rest(4)
            assert data(stage)["mode"] == "fast"
            await stage.rest(200)  # in peace
            stage.meddle(config_map("settings", mode="slow"), manager="kubectl-edit")
            await stage.rest(10)
            stage.meddle(config_map("settings", mode="fast"), manager="kubectl-edit")
            await stage.rest(10)  # it went back by itself, and its delay begins anew
            stage.meddle(config_map("settings", mode="slow"), manager="kubectl-edit")
            await stage.rest(18)
            assert data(stage)["mode"] == "slow"
            before = len(patches(stage))
            for _ in range(100):
                stage.meddle(config_map("settings", mode="slow"), manager="kubectl-edit")
                await stage.rest(1)
            assert len(patches(stage)) - before == 4  # at 0, 10, 25 and 40 s; then it is a fight
            assert "4 times since" in stage.record.findings[0].message

    stage.play(script)


def test_a_new_commit_ends_a_fight(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            for _ in range(120):
                stage.meddle(config_map("settings", mode="slow"), manager="kubectl-loop")
                await stage.rest(1)
            assert stage.state == "Drifted"
            await stage.push(config_map("settings", mode="faster", size="1"))
            await stage.rest(10)
            assert data(stage) == {"mode": "faster", "size": "1"}
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_detected_drift_names_who_and_when(staged: MakeStage) -> None:
    stage = staged(drift={"mode": "detect"})

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest()
            (drift,) = stage.record.drift
            assert (drift.manager, drift.field) == ("kubectl-edit", "data.mode")
            assert drift.written.startswith("20")
            assert "data.mode, changed by kubectl-edit" in stage.record.message

    stage.play(script)
    assert "manager: kubectl-edit" in stage.status_file("units/shop/web/drift.yaml")


def test_a_change_that_is_put_back_makes_no_rollout_longer(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            (before,) = dict(stage.record.steps)[stage.rollout.key]
            scaled = web()
            scaled["spec"] = {"replicas": 7}
            stage.meddle(scaled, manager="kubectl")
            await stage.rest()
            assert len(stage.images()) == 4
            assert dict(stage.record.steps)[stage.rollout.key] == (before,)

    stage.play(script)


def test_names_of_pods_that_are_deleted_leave_pods_to_delete(staged: MakeStage) -> None:
    """The CloneSet's controller takes them out: git has asked for it, and may ask again."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            for _ in range(2):
                pod = min(p["metadata"]["name"] for p in stage.world.objects(POD, "shop"))
                obj = web()
                obj["spec"]["scaleStrategy"] = {"podsToDelete": [pod]}
                await stage.push(obj)
                await stage.rest()
                assert stage.get("Pod", pod) is None
                assert (stage.state, stage.record.drift, stage.record.findings) == ("Done", (), ())

    stage.play(script)
