"""Corrected drift, takeovers and prunes leave a log line and an Event on the object."""

from __future__ import annotations

import pytest

from gitkruise.gitops.reconcile.applier import Sent
from gitkruise.gitops.reconcile.interventions import report_applied
from gitkruise.gitops.status.reader import interventions
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.record import Intervention
from gitkruise.model.gitops.sync_round import Live
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import STATUS, MakeStage, Stage, config_map, web
from tests.planner.sync.build import desired
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

SETTINGS = config_map("settings", mode="fast")


def events(stage: Stage, name: str) -> list[str]:
    """Return `reason: message` of the Events on a ConfigMap, in order."""
    found = stage.world.objects(GroupKind("", "Event"), SPACE)
    about = [e for e in found if e["involvedObject"]["name"] == name and e["source"] == OURS]
    assert all(e["involvedObject"]["kind"] == "ConfigMap" for e in about)
    assert all(e["involvedObject"]["uid"] for e in about)
    return [f"{e['reason']}: {e['message']}" for e in about]


def recorded(stage: Stage) -> list[Intervention]:
    """Return what the status branch says."""
    return interventions(stage.repository, STATUS, {})


OURS = {"component": "gitkruise"}


def test_corrected_drift_names_the_fields_and_who_had_set_them(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            assert events(stage, "settings") == [], "a commit is no intervention"
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest()

    stage.play(script)
    text = "put back as git says: data.mode slow → fast (set by kubectl-edit)"
    assert events(stage, "settings") == [f"DriftCorrected: unit shop/web: {text}"]
    line = log_line("DriftCorrected", unit="shop/web", object="ConfigMap shop/settings", text=text)
    assert line in caplog.messages


def test_a_correction_is_no_step_of_a_commit_for_another_object(staged: MakeStage) -> None:
    """Also after a start, which knows no commit before."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(), SETTINGS)
            await stage.rest()
            await stage.push(web(), config_map("settings", mode="slow"))
            await stage.rest()
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            stage.meddle({**web(), "spec": {"replicas": 2}})
            await stage.rest()

    stage.play(script)
    (intervention,) = recorded(stage)
    assert "spec.replicas 2 → 4" in intervention.text
    steps = dict(stage.record.steps)[stage.rollout.key]
    assert [step.change for step in steps] == ["created, 4 pods"]


def deleted(stage: Stage, name: str) -> None:
    """Somebody deletes a ConfigMap."""
    key = GroupKind("", "ConfigMap")
    kind = stage.world.catalog.stored(key)
    assert kind is not None
    gone = ApiRequest(verb="delete", resource=kind.ref, namespace=SPACE, name=name)
    stage.world.handle(gone, stage.clock.now())
    stage.cluster.publish()


def test_an_object_that_was_deleted_is_put_back_and_reported(staged: MakeStage) -> None:
    """While gitkruise runs, and before it starts; not what git itself takes away and brings."""
    stage = staged(prune={"maxDeletePercent": 100})
    other = config_map("other", a="b")

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS, other)
            await stage.rest()
            deleted(stage, "settings")
            await stage.rest()
        deleted(stage, "settings")
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            await stage.push(SETTINGS, message="other goes")
            await stage.rest()
            await stage.push(SETTINGS, other, message="other comes back")
            await stage.rest()

    stage.play(script)
    text = "put back as git says: it was deleted"
    assert events(stage, "settings") == [f"DriftCorrected: unit shop/web: {text}"] * 2
    assert [event.partition(":")[0] for event in events(stage, "other")] == ["Pruned"]
    assert stage.get("ConfigMap", "settings") is not None
    assert stage.get("ConfigMap", "other") is not None


def test_an_object_that_git_took_away_slowly_was_not_deleted_by_a_user(staged: MakeStage) -> None:
    """A finalizer keeps it for a time after git does not name it any more."""
    stage = staged(prune={"maxDeletePercent": 100})
    other = config_map("other", a="b")
    kept = {**other, "metadata": {**other["metadata"], "finalizers": ["example.com/hold"]}}

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS, other)
            await stage.rest()
            stage.meddle(kept)
            await stage.push(SETTINGS, message="other goes")
            await stage.rest()
            stage.meddle({**kept, "metadata": {**kept["metadata"], "finalizers": []}})
            await stage.rest()
            assert stage.get("ConfigMap", "other") is None
            await stage.push(SETTINGS, other, message="other comes back")
            await stage.rest()

    stage.play(script)
    assert [event.partition(":")[0] for event in events(stage, "other")] == ["Pruned"]


def test_the_objects_of_an_empty_cluster_were_not_deleted(staged: MakeStage) -> None:
    """The status branch has the record of an earlier cluster of the same name."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
        deleted(stage, "settings")
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()

    stage.play(script)
    assert stage.get("ConfigMap", "settings") is not None
    assert events(stage, "settings") == []


def test_values_of_secrets_do_not_show(staged: MakeStage, caplog: pytest.LogCaptureFixture) -> None:
    stage = staged()
    secret = {**config_map("keys"), "kind": "Secret", "data": {"key": "b2xkLXNlY3JldA=="}}

    async def script() -> None:
        async with stage.running():
            await stage.push(secret)
            await stage.rest()
            stage.meddle({**secret, "data": {"key": "bmV3LXNlY3JldA=="}})
            await stage.rest()

    stage.play(script)
    found = stage.world.objects(GroupKind("", "Event"), SPACE)
    (event,) = [e for e in found if e["source"] == OURS]
    assert event["reason"] == "DriftCorrected"
    for text in (event["message"], caplog.text):
        assert "b2xkL" not in text
        assert "bmV3L" not in text


def test_an_object_that_a_tool_had_applied_is_taken_over(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = staged()

    async def script() -> None:
        stage.meddle(config_map("settings", mode="slow"), manager="helm")
        async with stage.running():
            await stage.push(SETTINGS, config_map("new", a="b"))
            await stage.rest()

    stage.play(script)
    assert events(stage, "settings") == ["TakenOver: unit shop/web: taken over from helm"]
    assert events(stage, "new") == []
    assert "event=TakenOver unit=shop/web" in caplog.text


def test_a_pruned_object_is_reported_once(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = staged(prune={"maxDeletePercent": 100})

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS, config_map("old", a="b"))
            await stage.rest()
            await stage.push(SETTINGS)
            await stage.rest()

    stage.play(script)
    assert stage.get("ConfigMap", "old") is None
    text = "deleted: git does not name it any more"
    assert [(e.reason, e.key.name, e.text) for e in recorded(stage)] == [("Pruned", "old", text)]
    assert events(stage, "old") == [f"Pruned: unit shop/web: {text}"]
    line = log_line("Pruned", unit="shop/web", object="ConfigMap shop/old", text=text)
    assert caplog.messages.count(line) == 1


def test_a_deleted_workload_is_recorded_with_its_volumes(staged: MakeStage) -> None:
    stage = staged(prune={"maxDeletePercent": 100})
    claims = [
        {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
    ]
    before: list[str] = []

    async def script() -> None:
        async with stage.running():
            workload = web()
            workload["spec"]["volumeClaimTemplates"] = claims
            await stage.push(SETTINGS, workload)
            await stage.rest()
            found = stage.world.objects(GroupKind("", "PersistentVolumeClaim"), SPACE)
            before.extend(sorted(obj["metadata"]["name"] for obj in found))
            await stage.push(SETTINGS, message="stop")
            await stage.rest()
            approve = next(t for label, t in stage.record.findings[0].notes if label == "next")
            trailer = approve.rpartition('"Gitkruise-Approve: ')[2].strip('"')
            await stage.push(SETTINGS, message=f"yes\n\nGitkruise-Approve: {trailer}")
            await stage.rest()

    stage.play(script)
    assert before
    (entry,) = recorded(stage)
    assert (entry.reason, entry.key.kind) == ("Pruned", "CloneSet")
    assert all(f"PersistentVolumeClaim shop/{name}" in entry.text for name in before)


def test_a_value_that_a_webhook_sets_again_was_not_put_back(staged: MakeStage) -> None:
    """After a start the controller cannot know that; its apply leaves the version as it was."""
    stage = staged()
    corrections: list[tuple[ObjectKey, str, str]] = []

    def note(key: ObjectKey, reason: str, text: str) -> None:
        corrections.append((key, reason, text))

    d = desired({**SETTINGS, "metadata": {"name": "settings", "namespace": SPACE}})
    for version, count in ("7", 0), ("8", 1):
        found = {**d.obj, "metadata": {**d.obj["metadata"], "resourceVersion": "7"}}
        reply = {**found, "metadata": {**found["metadata"], "resourceVersion": version}}
        report_applied(
            stage.live.events, "shop/web", [Sent(desired=d, reply=reply)], note,
            healing=[ObjectChange(kind=ChangeKind.CONFIGURE, key=d.key, before=found, after=d.obj)],
            live={d.key: Live(obj=found, ready=True)}, lost=frozenset(),
        )  # fmt: skip
        assert len(corrections) == count


def headless(affinity: str) -> Obj:
    spec = {"clusterIP": "None", "ports": [{"port": 80}], "sessionAffinity": affinity}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


def test_warnings_of_the_api_server_are_logged_once(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    """A correction sends the same object again: nothing new is said of it."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(headless("ClientIP"))
            await stage.rest()
            stage.meddle(headless("None"))
            await stage.rest()
            await stage.push(headless("ClientIP"), SETTINGS)
            await stage.rest()

    stage.play(script)
    text = "Service shop/web: spec.SessionAffinity is ignored for headless services"
    line = log_line("api-warning", unit="shop/web", text=text)
    assert [m for m in caplog.messages if "api-warning" in m] == [line]
    assert any("DriftCorrected" in m for m in caplog.messages)


def test_a_warning_of_a_secret_is_not_quoted(
    staged: MakeStage, caplog: pytest.LogCaptureFixture
) -> None:
    stage = staged()
    pair = {"tls.crt": "YQ==", "tls.key": "Yg=="}
    secret = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
              "metadata": {"name": "pair"}, "data": pair}  # fmt: skip

    async def script() -> None:
        async with stage.running():
            await stage.push(secret)
            await stage.rest()

    stage.play(script)
    text = "Secret shop/pair: a warning that may quote a secret"
    line = log_line("api-warning", unit="shop/web", text=text)
    assert [m for m in caplog.messages if "api-warning" in m] == [line]
