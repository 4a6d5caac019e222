"""End-to-end rows of CloneSet's behaviour that need more than one round, or a history."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from gitkruise.errors import Forbidden
from gitkruise.model.planning.plan import Create, Delete, Patch, Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import REVISION_HASH, TEMPLATE_HASH
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.kruise.revision_data import revision_data
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.node_agent.agent import NodeAgents
from tests.planner.cloneset.build import (
    NEW,
    NEW_NAME,
    OLD,
    OLD_NAME,
    ROLLBACK,
    cloneset,
    labels_of,
    patch_for,
    plan,
    revision,
    template,
)
from tests.pods import pods
from tests.worlds import SPACE, Lab, parts_of, pod
from tests.worlds import cloneset as running
from tests.worlds import template as pod_template

MARKS: Final = {"n": NEW_NAME, "o": OLD_NAME}
ROLLING: Final = {"currentRevision": OLD_NAME}
IN_PLACE: Final = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 5}
VCT: Final = Gates(recreate_pod_when_change_vct_in_clone_set_gate=True)
STATE = "lifecycle.apps.kruise.io/state"


def kinds(made: Plan) -> list[str]:
    """Verb and kind of every action."""
    found = []
    for action in made.actions:
        kind = action.obj["kind"] if isinstance(action, Create) else action.key.kind
        found.append(f"{type(action).__name__} {kind}")
    return found


def created(made: Plan) -> list[str]:
    return [
        a.obj["metadata"]["labels"][REVISION_HASH]
        for a in made.actions
        if isinstance(a, Create) and a.obj["kind"] == "Pod"
    ]


def test_flow_7_an_orphan_is_ignored_and_a_pod_created() -> None:
    lab = Lab()
    lab.apply({**pod("orphan"), "metadata": {"name": "orphan", "labels": {"app": "web"}}})
    lab.apply(running(replicas=1))
    lab.run()
    assert len(lab.pods()) == 2
    orphan = next(p for p in lab.pods() if p["metadata"]["name"] == "orphan")
    assert not orphan["metadata"].get("ownerReferences")


def test_flow_19_without_pods_the_new_revision_is_current_at_once() -> None:
    made = plan(cloneset(replicas=0, update={"partition": "100%"}, status=ROLLING))
    assert made.status is not None
    assert made.status["currentRevision"] == made.status["updateRevision"] == NEW_NAME


def test_flow_22_23_current_follows_the_labels_and_there_is_no_way_back() -> None:
    made = plan(cloneset(replicas=4, status=ROLLING), pods("4n-", MARKS))
    assert made.status is not None
    assert made.status["currentRevision"] == NEW_NAME
    after = cloneset(replicas=4, status=made.status, update={"partition": 4})
    assert kinds(plan(after, pods("4n+", MARKS), ROLLBACK)) == []


def test_flow_24_a_template_of_old_brings_its_revision_back() -> None:
    made = plan(cloneset(template=OLD, status={"currentRevision": NEW_NAME}), pods("5o+", MARKS))
    (raised,) = [a for a in made.actions if isinstance(a, Patch)]
    assert (raised.key.name, raised.steps[0].body["revision"]) == (OLD_NAME, 3)
    assert made.status is not None
    assert made.status["updatedReplicas"] == 5


CLAIM: Final[dict[str, Any]] = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"]},
}


def test_flow_25_claim_templates_alone_change_nothing() -> None:
    made = plan(cloneset(volumeClaimTemplates=[CLAIM]), pods("5n+", MARKS), VCT)
    assert kinds(made) == []


def claims_changed(old: str | None, new: str, gates: Gates) -> Plan:
    """A new image, with the claims' hash of both revisions as given."""
    known = (revision(OLD, 1, claims_hash=old), revision(NEW, 2, claims_hash=new))
    raw = cloneset(replicas=1, update=IN_PLACE, status=ROLLING, volumeClaimTemplates=[CLAIM])
    return plan(raw, pods("o+", MARKS), gates, revisions=known)


def test_flow_26_to_29_claims_decide_about_in_place_behind_their_gate() -> None:
    doomed = {"apps.kruise.io/specified-delete": "true"}
    assert labels_of(claims_changed("1", "2", Gates()), "web-000")[REVISION_HASH] == NEW_NAME
    assert labels_of(claims_changed("1", "2", VCT), "web-000") == doomed
    assert labels_of(claims_changed("", "2", VCT), "web-000") == doomed
    assert labels_of(claims_changed("2", "2", VCT), "web-000")[REVISION_HASH] == NEW_NAME
    assert labels_of(claims_changed(None, "2", VCT), "web-000")[REVISION_HASH] == NEW_NAME


def test_flow_29_a_revision_that_comes_back_gets_the_claims_of_today() -> None:
    known = (revision(OLD, 1, claims_hash="stale"), revision(NEW, 2))
    made = plan(cloneset(template=OLD, volumeClaimTemplates=[CLAIM]), (), revisions=known)
    (raised,) = [a for a in made.actions if isinstance(a, Patch)]
    notes = raised.steps[0].body["metadata"]["annotations"]
    assert notes["kruise.io/cloneset-volumeclaimtemplate-hash"].isdigit()


HOOK: Final = {"preDelete": {"finalizersHandler": ["hold/it"]}}


def hooked(replicas: int, **scale: Any) -> tuple[Lab, Obj]:
    """Pods that a preDelete finalizer holds."""
    web = running(replicas=replicas)
    shape = pod_template()
    shape["metadata"]["finalizers"] = ["hold/it"]
    lab = Lab()
    spec = {**web["spec"], "template": shape, "lifecycle": HOOK, "scaleStrategy": scale}
    made = lab.apply({**web, "spec": spec})
    lab.run()
    return lab, made


def states(lab: Lab) -> list[str]:
    return sorted(p["metadata"]["labels"][STATE] for p in lab.pods())


def test_flow_36_37_a_hooked_pod_waits_and_comes_back_when_replicas_do() -> None:
    lab, web = hooked(2)
    lab.patch(web, {"spec": {"replicas": 1}})
    lab.run()
    assert states(lab) == ["Normal", "PreparingDelete"]
    assert lab.get(web)["status"]["replicas"] == 2
    lab.patch(web, {"spec": {"replicas": 2}})
    lab.run()
    assert states(lab) == ["Normal", "Normal"]
    lab.patch(web, {"spec": {"replicas": 1}})
    lab.run()
    going = next(p for p in lab.pods() if p["metadata"]["labels"][STATE] == "PreparingDelete")
    lab.patch(going, {"metadata": {"finalizers": None}})
    lab.run()
    assert states(lab) == ["Normal"]


def test_flow_38_with_preparing_pods_excluded_the_replacement_comes_at_once() -> None:
    lab, _ = hooked(2, excludePreparingDelete=True)
    labels = {"apps.kruise.io/specified-delete": "true"}
    lab.patch(lab.pods()[0], {"metadata": {"labels": labels}})
    lab.run()
    assert states(lab) == ["Normal", "Normal", "PreparingDelete"]


def test_flow_39_a_user_bypasses_the_state_and_gets_a_replacement() -> None:
    lab, _ = hooked(1)
    lab.delete({"apiVersion": "v1", "kind": "Pod", "metadata": lab.pods()[0]["metadata"]})
    lab.run()
    assert len(lab.pods()) == 2
    assert states(lab) == ["Normal", "Normal"]


def images(lab: Lab) -> list[str]:
    return sorted(p["spec"]["containers"][0]["image"] for p in lab.pods())


def test_flow_42_a_pod_in_the_middle_of_an_update_takes_the_newer_one() -> None:
    lab, web = Lab(), running(replicas=1, maxUnavailable=1)
    lab.apply(web)
    lab.run()
    uid = lab.pods()[0]["metadata"]["uid"]
    lab.patch(web, {"spec": {"template": pod_template("app:bad")}})
    lab.run(60)
    assert states(lab) == ["Updating"]
    lab.patch(web, {"spec": {"template": pod_template("app:v3")}})
    lab.run()
    assert (images(lab), states(lab)) == (["app:v3"], ["Normal"])
    assert lab.pods()[0]["metadata"]["uid"] == uid


def test_flow_43_a_grace_period_ends_in_its_own_image_first() -> None:
    grace = {"gracePeriodSeconds": 30}
    lab, web = Lab(), running(replicas=1, maxUnavailable=1, inPlaceUpdateStrategy=grace)
    lab.apply(web)
    lab.run()
    lab.patch(web, {"spec": {"template": pod_template("app:v2")}})
    lab.run(10)
    lab.patch(web, {"spec": {"template": pod_template("app:v3")}})
    lab.run(19)
    assert images(lab) == ["app:v1"]
    lab.run(2)
    assert images(lab) == ["app:v2"]
    lab.run()
    assert images(lab) == ["app:v3"]


def test_flow_46_an_update_under_way_is_finished_while_paused() -> None:
    lab, web = Lab(), running(replicas=2, maxUnavailable=1)
    lab.apply(web)
    lab.run()
    lab.patch(web, {"spec": {"template": pod_template("app:v2")}})
    lab.run(0)
    lab.patch(web, {"spec": {"updateStrategy": {"rollingUpdate": {"paused": True}}}})
    lab.run()
    assert (images(lab), states(lab)) == (["app:v1", "app:v2"], ["Normal", "Normal"])


def test_flow_47_a_surge_pod_must_be_ready_before_the_first_old_one_goes() -> None:
    raw = cloneset(update={"maxUnavailable": 0, "maxSurge": 1}, status=ROLLING)
    assert created(plan(raw, pods("5o+", MARKS))) == [NEW_NAME]
    assert kinds(plan(raw, pods("5o+ n-", MARKS))) == []
    assert kinds(plan(raw, pods("5o+ n+", MARKS))) == ["Patch Pod"]
    assert kinds(plan(raw, pods("4o+ o+x n+", MARKS))) == ["Delete Pod"]


def test_flow_51_the_oldest_of_too_many_revisions_go() -> None:
    idle = [revision(template(f"nginx:0.{n}"), n) for n in range(1, 13)]
    made = plan(cloneset(), pods("5n+", MARKS), revisions=[*idle, revision(NEW, 20)])
    assert [a.key.name for a in made.actions if isinstance(a, Delete)] == [
        idle[0].name,
        idle[1].name,
    ]


def test_flow_52_a_taken_name_counts_a_collision() -> None:
    stranger = revision(NEW, 1, data=b"{}")
    made = plan(cloneset(), (), revisions=(), other_revisions={NEW_NAME: stranger})
    create = next(a for a in made.actions if isinstance(a, Create))
    name = revision_name("web", revision_hash(revision_data(NEW), 1))
    assert create.obj["metadata"]["name"] == name
    label = create.obj["metadata"]["labels"]["controller.kubernetes.io/hash"]
    assert label == NEW_NAME.rpartition("-")[2]  # that of the first attempt


def test_flow_53_a_short_hash_counts_as_updated() -> None:
    short = NEW_NAME.rpartition("-")[2]
    made = plan(cloneset(), pods("5n+", {"n": short, "o": OLD_NAME}))
    assert kinds(made) == []
    assert made.status is not None
    assert made.status["updatedReplicas"] == 5


def test_quirk_flow_56_a_quiet_day_does_not_fail_the_next_rollout() -> None:
    """OpenKruise reports ProgressDeadlineExceeded immediately because of an old condition."""
    long_ago = "2026-07-01T10:00:00Z"
    condition = {"type": "Progressing", "status": "True", "reason": "CloneSetAvailable",
                 "lastUpdateTime": long_ago, "lastTransitionTime": long_ago}  # fmt: skip
    raw = cloneset(
        progressDeadlineSeconds=600,
        status={**ROLLING, "updateRevision": OLD_NAME, "conditions": [condition]},
    )
    made = plan(raw, pods("5o+", MARKS))
    assert made.status is not None
    (found,) = made.status["conditions"]
    assert (found["status"], found["reason"]) == ("True", "CloneSetUpdated")


def metadata_only(**meta: Any) -> tuple[Lab, Obj, int]:
    """After a change of template metadata alone, of which an env reads annotation `mode`."""
    source = {"fieldRef": {"fieldPath": "metadata.annotations['mode']"}}
    shape = pod_template()
    shape["spec"]["containers"][0]["env"] = [{"name": "MODE", "valueFrom": source}]
    if "before" in meta:
        shape["metadata"]["annotations"] = meta["before"]
    web = running(replicas=1, maxUnavailable=1)
    parts = parts_of(FAST)
    kept = [p for p in parts if meta.get("agents", True) or not isinstance(p, NodeAgents)]
    lab = Lab(parts=kept)
    made = lab.apply({**web, "spec": {**web["spec"], "template": shape}})
    lab.run()
    lab.patch(web, {"spec": {"template": {"metadata": {meta["kind"]: meta["after"]}}}})
    lab.run(120)
    return lab, made, lab.pods()[0]["status"]["containerStatuses"][0]["restartCount"]


def test_flow_49_a_failing_wave_of_a_slow_start_is_the_last() -> None:
    """Waves of 1, 2, 4 and 1: the third of eight pods fails, so five are never tried."""
    lab, room = Lab(), [2]

    def bounded(request: ApiRequest, now: datetime) -> ApiReply:
        made = request.verb == "create" and request.resource.plural == "pods"
        if made and len(lab.pods()) >= room[0]:
            raise Forbidden("quota exceeded")
        return lab.world.handle(request, now)

    lab.apply(running(replicas=8))
    lab.simulation.send = bounded
    first = [line.why.partition(":")[0] for line in lab.run(0).only("CreatePod")][:8]
    assert first == ["", "", "Refused", *["Skipped"] * 5]
    assert len(lab.pods()) == 2
    (owner,) = lab.world.objects(GroupKind("apps.kruise.io", "CloneSet"), SPACE)
    failed = [c for c in owner["status"]["conditions"] if c["type"] == "FailedScale"]
    assert [c["status"] for c in failed] == ["True"]
    room[0] = 8
    lab.run()
    assert len(lab.pods()) == 8


def test_flow_60_a_label_alone_is_an_update_without_a_restart() -> None:
    lab, _, restarts = metadata_only(kind="labels", after={"tier": "gold"})
    (found,) = lab.pods()
    assert found["metadata"]["labels"]["tier"] == "gold"
    assert (states(lab), restarts) == (["Normal"], 0)


def test_flow_61_a_value_read_as_environment_restarts_the_container() -> None:
    values: dict[str, Any] = {"before": {"mode": "a"}, "after": {"mode": "b"}}
    lab, _, restarts = metadata_only(kind="annotations", **values)
    assert (states(lab), restarts) == (["Normal"], 1)


def test_flow_61_a_value_read_as_environment_waits_for_the_node_agent() -> None:
    values: dict[str, Any] = {"before": {"mode": "a"}, "after": {"mode": "b"}}
    lab, _, _ = metadata_only(kind="annotations", agents=False, **values)
    (found,) = lab.pods()
    assert found["metadata"]["annotations"]["mode"] == "b"
    assert '"updateEnvFromMetadata":true' in str(found["metadata"]["annotations"])
    assert states(lab) == ["Updating"]


def test_flow_62_the_first_annotation_ever_is_plain_metadata() -> None:
    lab, _, restarts = metadata_only(kind="annotations", after={"mode": "b"})
    (found,) = lab.pods()
    assert found["metadata"]["annotations"]["mode"] == "b"
    assert (states(lab), restarts) == (["Normal"], 0)


def test_life_11_recreating_marks_the_pod_and_leaves_its_claims() -> None:
    made = plan(cloneset(replicas=1, status=ROLLING), pods("o+", MARKS))
    assert kinds(made) == ["Patch Pod"]
    assert labels_of(made, "web-000") == {"apps.kruise.io/specified-delete": "true"}
    assert patch_for(made, "web-000") is not None


def test_both_hash_labels_are_written_long_and_short() -> None:
    made = plan(cloneset(replicas=1, update=IN_PLACE, status=ROLLING), pods("o+", MARKS))
    labels = labels_of(made, "web-000")
    assert labels[REVISION_HASH] == NEW_NAME
    assert labels[TEMPLATE_HASH] == NEW_NAME.rpartition("-")[2]
    gate = Gates(clone_set_short_hash=True)
    made = plan(cloneset(replicas=1, update=IN_PLACE, status=ROLLING), pods("o+", MARKS), gate)
    assert labels_of(made, "web-000")[REVISION_HASH] == NEW_NAME.rpartition("-")[2]


def test_flow_33_live_a_pod_scaled_in_takes_its_claims_along() -> None:
    web = running(replicas=2)
    spec = {**CLAIM["spec"], "resources": {"requests": {"storage": "1Gi"}}}
    claims = [{**CLAIM, "spec": spec}]
    lab = Lab()
    lab.apply({**web, "spec": {**web["spec"], "volumeClaimTemplates": claims}})
    lab.run()
    lab.patch(web, {"spec": {"replicas": 1}})
    lab.run()
    kind = GroupKind("", "PersistentVolumeClaim")
    assert len(lab.world.objects(kind, SPACE)) == len(lab.pods()) == 1


def test_unavailable_pods_are_replaced_at_the_pace_of_the_budget() -> None:
    """However many are down: no more than maxUnavailable new ones are waited for at a time."""
    raw = cloneset(update={"maxUnavailable": 2}, status=ROLLING)
    assert kinds(plan(raw, pods("5o-", MARKS))) == ["Patch Pod"] * 2
    assert kinds(plan(raw, pods("2o-x 3o-", MARKS))) == ["Delete Pod"] * 2
    assert kinds(plan(raw, pods("3o- 2n-", MARKS))) == []


def test_a_rollback_takes_the_broken_pods_and_no_healthy_one() -> None:
    status = {"currentRevision": OLD_NAME, "updateRevision": NEW_NAME}
    raw = cloneset(template=OLD, update={"maxUnavailable": 3}, status=status)
    made = plan(raw, pods("3o+ 2n-", MARKS))
    touched = [a.key.name for a in made.actions if isinstance(a, Patch) and a.key.kind == "Pod"]
    assert touched == ["web-003", "web-004"]
