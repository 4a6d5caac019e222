"""why and trace: what a rollout waits for, and what git has to do with a pod."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.cli.commands.inspect.why import pod_lines, why_lines, why_obj
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.local_repository import Records
from gitkruise.errors import Forbidden
from gitkruise.gitops.inspect.cluster_view import Managed, Survey
from gitkruise.gitops.inspect.disruption_budgets import Sharing, sharing, unavailable_budgets
from gitkruise.gitops.inspect.explain import explain
from gitkruise.gitops.inspect.trace import trace_pod
from gitkruise.gitops.status.reader import recorded_unit
from gitkruise.model.gitops.record import RevisionCount, Rollout, RolloutStep
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.budget_matching import budgets_in
from gitkruise.model.planning.plan import Hold, Plan
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.wire.primitives.names import GroupKind, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests import worlds
from tests.cli.calls import Caller, Ended
from tests.cli.live import applied, apply, send
from tests.cli.shop import (
    CHECKOUT,
    START,
    WEB,
    cloneset,
    commit,
    rollout,
    unit_record,
)

PLAIN = Style(colour=False, unicode=True, width=100)
COMMIT = "4f2c9e1" + "0" * 33
MARKS = {"commit": COMMIT, "path": "apps/checkout.yaml:7", "unit-ref": "shop/shop"}


def managed(r: Rollout, **more: object) -> Managed:
    values = {"key": CHECKOUT, "obj": {"metadata": {}},
              "state": r.state, "message": r.message, "rollout": r,
              "unit": "shop/shop", "commit": COMMIT, "path": "apps/checkout.yaml:7"}  # fmt: skip
    return Managed(**(values | more))  # type: ignore[arg-type]  # a row of a table


def held(*rows: tuple[str, Hold, str]) -> Plan:
    reasons = {(why, detail) for _, why, detail in rows}
    return Plan(
        holds={reason: frozenset(r[0] for r in rows if r[1:] == reason) for reason in reasons}
    )


PARTITION = [(f"checkout-{n}", Hold.PARTITION, "") for n in "abcdef"]
BUDGET = "maxUnavailable is 2, and 2 are used: 8 of 10 are available"
BAD = "image app:v2 cannot be pulled"
ROWS: dict[str, tuple[Rollout, Plan, list[str], str]] = {
    "held": (
        rollout(), held(*PARTITION),
        ["6 pods stay on the current revision: partition 60% keeps ⌈10 × 60 %⌉ = 6"],
        "gitkruise promote cloneset/checkout -n shop",
    ),
    "a-number": (
        rollout(partition="6"), held(*PARTITION),
        ["6 pods stay on the current revision: partition 6 keeps 6 of 10"],
        "gitkruise promote cloneset/checkout -n shop",
    ),
    "stuck": (
        rollout(State.STUCK, message=f"a: {BAD}", available=8, failing=(("a", BAD), ("b", BAD))),
        held(("c", Hold.NEW_NOT_READY, ""), *PARTITION[:1]),
        [f"2 pods run the new revision and cannot start: {BAD}",
         "1 pod waits: pods that are updated must be available first; " + BUDGET,
         "1 pod stays on the current revision: partition 60% keeps ⌈10 × 60 %⌉ = 6"],
        "a commit that mends it (apps/checkout.yaml:7)",
    ),
    "abandoned": (
        rollout(State.STUCK, message="AbandonedRevisionRunning: 4 pods run a revision"), Plan(),
        ["AbandonedRevisionRunning: 4 pods run a revision"],
        "gitkruise rollback cloneset/checkout -n shop",
    ),
    "paused": (
        rollout(State.PAUSED), held(("c", Hold.PAUSED, "")),
        ["1 pod waits because its spec says paused: true"],
        "gitkruise resume cloneset/checkout -n shop",
    ),
    "rolling": (
        rollout(State.ROLLING, available=9),
        held(("a", Hold.UPDATING, "waits for container app"), ("b", Hold.BUDGET, "")),
        ["1 pod is not available yet",
         "1 pod waits: maxUnavailable is 2, and 1 is used: 9 of 10 are available",
         "1 pod is being updated: waits for container app"],
        "nothing: it goes on by itself when pods become available",
    ),
    "refused": (
        rollout(State.ROLLING, available=9, refused="over quota"), Plan(),
        ["over quota", "1 pod is not available yet"],
        "a change of what refuses its pods; their controller tries again by itself",
    ),
    "refused-too-long": (
        rollout(State.STUCK, message="no pod has moved; over quota", refused="over quota"), Plan(),
        ["no pod has moved; over quota"],
        "a change of what refuses its pods; their controller tries again by itself",
    ),
    "unavailable-budget": (
        rollout(State.STUCK, message="ProgressDeadlineExceeded"),
        held(("a", Hold.UNAVAILABLE_BUDGET, "keep"), ("b", Hold.UNAVAILABLE_BUDGET, "keep")),
        ["ProgressDeadlineExceeded", "2 pods wait for PodUnavailableBudget keep"],
        "pods of PodUnavailableBudget keep become available, or it allows more",
    ),
    "hooks-apart": (
        rollout(State.ROLLING),
        held(("a", Hold.HOOK, "x/drain"), ("b", Hold.HOOK, "y/drain"), ("c", Hold.GRACE, "3s")),
        ["1 pod waits for a lifecycle hook: x/drain", "1 pod waits for a lifecycle hook: y/drain",
         "1 pod waits for the grace period of an update in place: 3s"],
        "what the lifecycle hook waits for: x/drain",
    ),
    "on-delete": (
        rollout(kept=0), held(("a", Hold.ON_DELETE, "")),
        ["1 pod is updated when a user deletes them (OnDelete)"], "deleting old pods",
    ),
    "done": (rollout(State.DONE), Plan(), [], ""),
    "not-seen": (
        rollout(State.WAITING, generation_seen=False), Plan(),
        ["the controller has not seen the newest spec yet"],
        "its controller, when it has seen the newest spec; what keeps it from that may be in",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_what_holds_each_pod_and_what_would_move_it(name: str) -> None:
    r, plan, reasons, next_ = ROWS[name]
    answer = explain(managed(r), plan)
    assert list(answer.reasons) == reasons
    assert answer.next[:1] == ((next_,) if next_ else ())


def test_what_holds_the_pod_that_was_asked_about() -> None:
    r = rollout(failing=(("checkout-z", "image app:v9 cannot be pulled"),))
    answer = explain(managed(r), held(("checkout-a", Hold.PARTITION, "6 of 10")), None, None)
    texts = ["\n".join(pod_lines(answer, f"checkout-{n}", PLAIN)) for n in "azb"]
    assert texts == [
        "pod/checkout-a of cloneset/checkout: PartitionReached: 6 of 10",
        "pod/checkout-z of cloneset/checkout: it cannot start: image app:v9 cannot be pulled",
        "pod/checkout-b of cloneset/checkout: nothing holds it",
    ]
    assert len([*pod_lines(answer, "checkout-z", replace(PLAIN, width=60))]) == 2


def test_an_object_that_opted_out_is_not_what_git_requests() -> None:
    aside = "left alone: annotation gitkruise.io/reconcile: Disabled"
    record = unit_record()
    objects = (replace(record.objects[0], key=CHECKOUT, message=f"10 of 10 on aaa; {aside}"),)
    answer = explain(
        managed(rollout(State.DONE)), Plan(), recorded_unit(replace(record, objects=objects))
    )
    assert answer.reasons == (f"changes of git do not reach it: {aside}",)
    lines = list(why_lines(answer, Records(), PLAIN, START, wide=False))
    assert not [line for line in lines if "nothing holds it" in line]


def test_an_object_that_is_being_deleted_waits_for_finalizers() -> None:
    gone = {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}
    answer = explain(managed(rollout(State.ROLLING), obj=gone), held(("a", Hold.TERMINATING, "")))
    text = "the removal of the finalizers that it and its pods have; then it is gone"
    assert answer.next == (text,)


def test_a_step_without_a_change_of_its_own_shows_its_subject() -> None:
    plain = replace(step(1, "checkout-aaa"), change="")
    assert _asked(plain, plain.commit.id).endswith(" · c1")


def test_a_step_of_an_earlier_commit_is_named_with_it() -> None:
    one = step(1, "checkout-aaa")
    assert _asked(one, COMMIT).endswith(f" · {one.title} (commit {one.commit.short})")


def _asked(step: RolloutStep, live: str) -> str:
    """The line about the step of an object that `live` changed last."""
    answer = explain(managed(rollout(State.DONE), commit=live), Plan(), None, step)
    lines = why_lines(answer, Records(), PLAIN, START, wide=False)
    return next(line for line in lines if line.startswith("asked "))


def test_every_way_to_be_held_has_its_words() -> None:
    for hold in Hold:
        (reason,) = explain(managed(rollout(State.DONE)), held(("a", hold, "because"))).reasons
        assert re.match(r"1 pod ", reason), hold


def test_budgets_of_the_pods_are_shown_with_what_they_hold() -> None:
    lab = worlds.Lab()
    lab.apply(worlds.cloneset("web", 3, podUpdatePolicy="ReCreate"))
    lab.apply(worlds.budget(maxUnavailable=1))
    lab.apply(worlds.budget("other", to="api", maxUnavailable=1))
    lab.run(60)
    pods = [pod_facts(raw) for raw in lab.pods()]
    budgets = budgets_in(lab.world, worlds.SPACE)
    (one,) = unavailable_budgets(budgets, pods, ())
    assert (one.name, one.allowed, one.holds) == ("keep", 1, ())
    assert one.text == "lets 1 more pod go: 3 of 3 are available, and 2 must stay so"
    plan = held((pods[0].name, Hold.UNAVAILABLE_BUDGET, "keep"))
    shown = unavailable_budgets(budgets, pods, plan.held)
    answer = explain(managed(rollout(State.ROLLING)), plan, unavailable=shown)
    lines = why_lines(answer, Records(), PLAIN, START, wide=False)
    text = " ".join(" ".join(lines).split())
    assert f"PodUnavailableBudget keep {one.text}; holds 1 pod" in text
    (budget,) = why_obj(answer, Records())["unavailableBudgets"]
    assert (budget["name"], budget["unavailableAllowed"], budget["holds"]) == (
        "keep",
        1,
        [pods[0].name],
    )


@pytest.mark.slow
def test_the_budget_of_a_live_rollout(gk: Caller, cluster: Path) -> None:
    budgets = ResourceRef("policy.kruise.io", "v1beta1", "podunavailablebudgets")
    with applied(cluster, cloneset(name="kept", replicas=4)):
        body = worlds.budget("kept", to="kept", maxUnavailable=0)
        send(
            cluster,
            ApiRequest(verb="create", resource=budgets, namespace="shop", body=body),
        )
        try:
            gk("get", "cs", "kept", "-n", "shop", "-w", "--exit-when-done", KUBECONFIG=str(cluster))
            ended = ask(gk, cluster, "why", "kept", "-n", "shop", "-o", "json")
            (budget,) = ended.obj["unavailableBudgets"]
            assert (budget["name"], budget["desiredAvailable"]) == ("kept", 4)
            text = ask(gk, cluster, "why", "kept", "-n", "shop").out
            assert "PodUnavailableBudget kept lets no pod go" in text
        finally:
            gone = ApiRequest(verb="delete", resource=budgets, namespace="shop", name="kept")
            send(cluster, gone)


@pytest.mark.parametrize("width", [80, 120])
def test_the_page(width: int, golden: Callable[[str, str], None]) -> None:
    r, plan, *_ = ROWS["stuck"]
    (_, steps) = unit_record().steps[0]
    step = replace(steps[1], state=State.STUCK)
    answer = explain(managed(r, commit=commit(2, "").id), plan, None, step)
    records = Records(steps=((CHECKOUT, step),))
    lines = why_lines(answer, records, replace(PLAIN, width=width), step.started, wide=True)
    golden(f"cli-why-{width}.txt", "\n".join(lines) + "\n")


MESH = ObjectKey("apps.kruise.io", "SidecarSet", "", "mesh")
BESIDE = Sharing(
    others=(managed(rollout(key=MESH, replicas=25, available=24, budget=1), key=MESH),)
)


@pytest.mark.parametrize("width", [80, 120])
def test_the_page_of_pods_under_two_budgets(width: int, golden: Callable[[str, str], None]) -> None:
    r, plan, *_ = ROWS["rolling"]
    answer = explain(managed(r), plan, sharing=BESIDE)
    lines = why_lines(answer, Records(), replace(PLAIN, width=width), START, wide=False)
    golden(f"cli-why-two-budgets-{width}.txt", "\n".join(lines) + "\n")
    shown = [(b["name"], b["maxUnavailable"], b["available"], b["pods"])
             for b in why_obj(answer, Records())["budgets"]]  # fmt: skip
    assert shown == [("checkout", 2, 9, 10), ("mesh", 1, 24, 25)]


def test_a_budget_that_may_not_be_read_is_named() -> None:
    async def refused(kind: GroupKind) -> Survey:
        raise Forbidden(f"no {kind.kind} for you")

    marks = {"kruise.io/sidecarset-injected-list": "mesh"}
    one = pod_facts(pod("checkout-x", "checkout-bbb", marks))
    found = asyncio.run(sharing(managed(rollout(), pods=(one,)), refused, START))
    (text,) = found.unread
    assert text == "SidecarSets that change these pods cannot be read: no SidecarSet for you"
    answer = explain(managed(rollout()), Plan(), sharing=found)
    assert f"     {text}" in list(why_lines(answer, Records(), PLAIN, START, wide=False))


# -- trace ----------------------------------------------------------------------------------------


def step(number: int, revision: str) -> RolloutStep:
    return replace(
        unit_record().steps[0][1][1], commit=commit(number, f"c{number}"), revision=revision
    )


def pod(name: str, revision: str, marks: dict[str, str] | None = None) -> dict[str, object]:
    return {
        "apiVersion": "v1", "kind": "Pod", "spec": {}, "status": {},
        "metadata": {"name": name, "namespace": "shop", "annotations": marks or {},
                     "labels": {"controller-revision-hash": revision}},
    }  # fmt: skip


HISTORY = [step(1, "checkout-aaa"), step(2, "checkout-bbb"), step(3, "checkout-bbb")]
TRACES = {  # steps oldest first, what the revision's own mark says → introduced, restored by, step
    "by-the-record": (HISTORY, "", 2, 0, 3),
    "by-the-mark": (HISTORY, commit(2, "").id, 2, 0, 3),
    "unknown": (HISTORY[:1], "", 0, 0, 0),
    "came-back": ([*HISTORY[1:], step(4, "checkout-aaa"), step(5, "checkout-bbb")], "", 2, 5, 5),
}


@pytest.mark.parametrize("name", TRACES)
def test_from_a_pod_to_its_commits(name: str) -> None:
    steps, mark, introduced, restored, newest = TRACES[name]
    counts = (RevisionCount(hash="bbb", role="update", pods=4, available=4, commit=mark),)
    owner = managed(rollout(revisions=counts))
    one = pod_facts(pod("checkout-x", "checkout-bbb"))
    found = trace_pod(one, owner, None, [(CHECKOUT, s) for s in reversed(steps)])
    id_ = {n: commit(n, "").id if n else "" for n in (introduced, restored, newest)}
    assert (found.commit, found.restored) == (id_[introduced], id_[restored])
    assert (found.step.commit.id if found.step else "") == id_[newest]


# -- on a cluster ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def halted(cluster: Path) -> Iterator[Path]:
    """A CloneSet whose new image cannot be pulled."""
    with applied(cluster, cloneset(name="halted", replicas=4), **MARKS):
        apply(cluster, cloneset("v2-broken", name="halted", replicas=4), **MARKS)
        yield cluster


def settle(gk: Caller, cluster: Path) -> None:
    words = ["get", "cs", "halted", "-n", "shop", "-w", "--exit-when-done"]
    assert gk(*words, KUBECONFIG=str(cluster)).code == 1


def ask(gk: Caller, cluster: Path, *words: str, **env: str) -> Ended:
    return gk(*words, "--kubeconfig", str(cluster), **env)


@pytest.mark.slow
def test_a_live_rollout_that_is_stuck(gk: Caller, halted: Path) -> None:
    settle(gk, halted)
    ended = ask(gk, halted, "why", "halted", "-n", "shop", "-o", "json")
    assert (ended.code, ended.obj["kind"], ended.obj["state"]) == (0, "Why", "Stuck")
    assert "halted:v2-broken cannot be pulled" in ended.obj["reasons"][0]
    held = {h["why"] for h in ended.obj["held"]}  # a pod made after the commit is new immediately
    assert {"UpdatedPodsNotReady"} <= held <= {"UpdatedPodsNotReady", "UpdateInProgress"}
    rollback = f"gitkruise rollback cloneset/halted -n shop --kubeconfig {halted}"
    assert ended.obj["next"][1] == rollback
    text = ask(gk, halted, "why", "cs/halted", "-n", "shop", "-o", "wide").out
    assert re.search(r"^POD +HELD BY\n", text, re.MULTILINE)


SIDECARS = {
    "apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "mesh"},
    "spec": {
        "selector": {"matchLabels": {"app": "shared"}}, "namespace": "shop",
        "updateStrategy": {"maxUnavailable": 3},
        "containers": [{"name": "proxy", "image": "registry.example.com/proxy:v1"}],
    },
}  # fmt: skip


@pytest.mark.slow
def test_both_budgets_of_pods_with_a_sidecar(gk: Caller, cluster: Path) -> None:
    sets = ResourceRef("apps.kruise.io", "v1beta1", "sidecarsets")
    send(cluster, ApiRequest(verb="create", resource=sets, body=SIDECARS))
    try:
        with applied(cluster, cloneset(name="shared", replicas=4)):
            gk("get", "cs", "shared", "-n", "shop", "-w", "--exit-when-done",
               KUBECONFIG=str(cluster))  # fmt: skip
            for words in (["shared", "-n", "shop"], ["sidecarset/mesh"]):
                ended = ask(gk, cluster, "why", *words, "-o", "json")
                budgets = {b["kind"]: b for b in ended.obj["budgets"]}
                assert {kind: b["pods"] for kind, b in budgets.items()} == {
                    "CloneSet": 4, "SidecarSet": 4,
                }  # fmt: skip
                assert budgets["SidecarSet"]["maxUnavailable"] == 3
                text = ask(gk, cluster, "why", *words).out
                assert "maxUnavailable is 3, and 0 are used: 4 of 4 are available" in text
    finally:
        send(cluster, ApiRequest(verb="delete", resource=sets, name="mesh"))


@pytest.mark.slow
def test_a_live_pod(gk: Caller, halted: Path) -> None:
    settle(gk, halted)
    names = ask(gk, halted, "get", "pods", "cs/halted", "-n", "shop", "-o", "name").out.split()
    ended = ask(gk, halted, "trace", names[0], "-n", "shop", "-o", "json")
    assert (ended.code, ended.obj["kind"]) == (0, "PodTrace")
    assert ended.obj["owner"]["name"] == "halted"
    assert (ended.obj["unit"], ended.obj["path"]) == ("shop/shop", "apps/checkout.yaml:7")
    why = ask(gk, halted, "why", names[0], "-n", "shop", "-o", "json").obj
    assert (why["object"]["name"], why["pod"]) == ("halted", names[0].removeprefix("pod/"))
    assert ask(gk, halted, "why", "po", "nope", "-n", "shop").code == 5
    text = ask(gk, halted, "trace", names[0], "-n", "shop").out
    assert text.splitlines()[0].startswith(f"pod       {names[0].removeprefix('pod/')}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["why nope", "trace nope", "why deployment/nope", "why deployment/halted"]
)
def test_what_is_not_there_is_distinguished_from_what_is(
    gk: Caller, halted: Path, words: str
) -> None:
    ended = ask(gk, halted, *words.split(), "-n", "shop")
    assert (ended.code, "GK4010" in ended.err) == (5, True)
    assert "halted" in ended.err or "none" in ended.err
    other = "next: name its kind: gitkruise why cloneset/halted -n shop"
    assert (other in ended.err) is words.endswith("/halted")


@pytest.mark.parametrize(
    "words", ["why pods/", "why nonsense/x", "why", "trace", "drift --cluster"]
)
def test_wrong_usage(gk: Caller, words: str) -> None:
    assert gk(*words.split()).code == 2


DB = ObjectKey("apps", "StatefulSet", "shop", "db")
# Of workloads whose controller plans no single pod: key, rollout, reasons, what would move it.
UNPLANNED: dict[str, tuple[ObjectKey, Rollout, list[str], str]] = {
    "canary": (
        WEB, rollout(canary="4", kept=6),
        ["6 pods stay on the current revision: canary 4 updates 4 of 10"],
        "gitkruise promote deployment/web -n shop",
    ),
    "paused": (
        WEB, rollout(State.PAUSED, kept=0, canary=""),
        ["6 pods wait because spec.paused is true"], "gitkruise resume deployment/web -n shop",
    ),
    "rolling": (
        WEB, rollout(State.ROLLING, kept=5, canary="5", asked=5, available=9),
        ["1 pod is not available yet",
         "1 pod waits: maxUnavailable is 2, and 1 is used: 9 of 10 are available",
         "5 pods stay on the current revision: canary 5 updates 5 of 10"],
        "nothing: it goes on by itself when pods become available",
    ),
    "stuck": (
        WEB, rollout(State.STUCK, kept=6, canary="4", failing=(("a", BAD),)),
        [f"1 pod runs the new revision and cannot start: {BAD}",
         "6 pods stay on the current revision: canary 4 updates 4 of 10"],
        "a commit that mends it (apps/checkout.yaml:7)",
    ),
    "partition": (
        DB, rollout(partition="6"),
        ["6 pods stay on the current revision: partition 6 keeps 6 of 10"],
        "gitkruise promote statefulset/db -n shop",
    ),
    "on delete": (
        DB, rollout(kept=0, message="4 of 10 on b, the others are updated when they are deleted"),
        ["4 of 10 on b, the others are updated when they are deleted"], "deleting old pods",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNPLANNED)
def test_old_pods_that_no_plan_of_ours_holds(name: str) -> None:
    key, r, reasons, next_ = UNPLANNED[name]
    answer = explain(managed(replace(r, key=key), key=key), None)
    assert (list(answer.reasons), answer.next[0]) == (reasons, next_)


def test_a_stuck_stateful_set_needs_its_pod_deleted_too() -> None:
    r = replace(rollout(State.STUCK, failing=(("db-9", BAD),)), key=DB)
    assert explain(managed(r, key=DB), None).next == (
        "a commit that mends it (apps/checkout.yaml:7)",
        "gitkruise rollback statefulset/db -n shop",
        "then kubectl delete pod db-9 -n shop: it is not replaced before",
    )
    parallel = {"spec": {"podManagementPolicy": "Parallel"}}
    assert len(explain(managed(r, key=DB, obj=parallel), None).next) == 2
