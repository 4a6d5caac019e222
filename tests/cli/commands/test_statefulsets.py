"""Advanced StatefulSets on a cluster: get, why, status, plan and the actions, with their pods."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.cli.calls import Caller, Ended
from tests.cli.live import applied, apply, send
from tests.cli.shop import Checkout, nowhere
from tests.git.repos import ENV, Origin, make_origin, run_git
from tests.worlds import budget

pytestmark = pytest.mark.slow

Golden = Callable[[str, str], None]
FILE: Final = "apps/ledger.yaml"
MARKS: Final = {
    "commit": "4f2c9e1" + "0" * 33,
    "path": "apps/ledger.yaml:1",
    "unit-ref": "shop/web",
}
WHO: Final = {name: value for name, value in ENV.items() if name.startswith("GIT_")}


def ledger(image: str, partition: int = 0, *, replicas: int = 5, in_place: bool = True) -> str:
    """Pods in parallel, two of them down at most."""
    policy = "InPlaceIfPossible" if in_place else "ReCreate"
    return dedent(f"""\
        apiVersion: apps.kruise.io/v1beta1
        kind: StatefulSet
        metadata:
          name: ledger
          namespace: shop
        spec:
          replicas: {replicas}
          serviceName: ledger
          podManagementPolicy: Parallel
          selector:
            matchLabels:
              app: ledger
          updateStrategy:
            rollingUpdate:
              partition: {partition}
              maxUnavailable: 2
              podUpdatePolicy: {policy}
          template:
            metadata:
              labels:
                app: ledger
            spec:
              readinessGates:
                - conditionType: InPlaceUpdateReady
              containers:
                - name: app
                  image: registry.example.com/ledger:{image}
        """)


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    """A first release, and a second one that three pods stay behind."""
    folder = tmp_path / "git"
    folder.mkdir()
    origin = make_origin(folder)
    origin.commit({FILE: ledger("v1")}, "first release")
    origin.commit({FILE: ledger("v2", 3)}, "ledger v2, partition 3")
    run_git(origin.work, "fetch", "-q")
    return origin


def waited(gk: Caller, cluster: Path) -> Ended:
    words = ["get", "asts", "ledger", "-n", "shop", "-w", "--exit-when-done", "-o", "jsonl"]
    return gk(*words, "--timeout", "60s", KUBECONFIG=str(cluster))


@pytest.fixture(params=[MARKS])
def held(gk: Caller, cluster: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Two of its five pods run v2. The parameter is the annotations of a unit."""
    with applied(cluster, ledger("v1"), **request.param):
        assert waited(gk, cluster).code == 0
        apply(cluster, ledger("v2", 3), **request.param)
        assert waited(gk, cluster).code == 0
        yield


# before → after, by what the change teaches
CHANGES: Final[dict[str, tuple[str, str]]] = {
    "canary": (ledger("v1"), ledger("v2", 3)),
    "recreate": (ledger("v1", in_place=False), ledger("v2", in_place=False)),
    "stuck": (ledger("v1"), nowhere(ledger("v2"))),
    "scaled": (ledger("v1"), ledger("v1", replicas=7)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_plan_foretells_the_rollout(
    gk: Caller, checkout: Checkout, golden: Golden, name: str
) -> None:
    before, after = CHANGES[name]
    checkout.commit("before", {"ledger.yaml": before})
    checkout.commit(name, {"ledger.yaml": after})
    ended = gk("plan", cwd=checkout.folder, COLUMNS="100")
    assert (ended.code, ended.err) == (0, "")
    golden(f"cli-plan/statefulset-{name}.txt", ended.out)


@pytest.mark.usefixtures("held")
def test_get_status_and_why_show_it(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    rows = {
        noun: gk("get", noun, "ledger", "-n", "shop", "-o", "json", **env).obj["items"]
        for noun in ("rollouts", "advancedstatefulsets", "pods", "revisions")
    }
    (rollout,) = rows["rollouts"]
    assert rows["advancedstatefulsets"] == rows["rollouts"]
    assert (rollout["kind"], rollout["group"]) == ("StatefulSet", "apps.kruise.io")
    assert (rollout["state"], rollout["partition"]) == ("Held", "3")
    assert (rollout["updated"], rollout["asked"], rollout["kept"]) == (2, 2, 3)
    assert {p["name"] for p in rows["pods"]} == {f"ledger-{at}" for at in range(5)}
    assert gk("get", "statefulsets", "-n", "shop", "-o", "json", **env).obj["items"] == []
    assert gk("get", "rollouts", "-n", "shop", "-o", "name", **env).out == "asts/ledger\n"
    assert "asts/ledger" in gk("get", "rollouts", "-n", "shop", **env).out
    status = gk("status", "-n", "shop", **env).out
    assert "asts/ledger" in status
    why = gk("why", "asts/ledger", "-n", "shop", **env).out
    assert "3 pods stay on the current revision" in why
    assert "gitkruise promote asts/ledger -n shop" in why
    traced = gk("trace", "ledger-4", "-n", "shop", **env).out
    assert "owner     asts/ledger" in traced


def test_why_names_the_budget_that_holds_its_pods(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    budgets = ResourceRef("policy.kruise.io", "v1beta1", "podunavailablebudgets")
    target = {"kind": "StatefulSet", "to": "ledger", "api": "apps.kruise.io/v1beta1"}
    body = budget("ledger", **target, maxUnavailable=0)
    asked = ("why", "asts/ledger", "-n", "shop")
    with applied(cluster, ledger("v1", in_place=False)):
        try:
            send(cluster, ApiRequest(verb="create", resource=budgets, namespace="shop", body=body))
            assert waited(gk, cluster).code == 0
            apply(cluster, ledger("v2", in_place=False))
            # Until the controller has seen it.
            outputs = (gk(*asked, **env).out for _ in range(200))
            assert any("5 pods wait for PodUnavailableBudget ledger" in text for text in outputs)
            (entry,) = gk(*asked, "-o", "json", **env).obj["unavailableBudgets"]
            assert len(entry["holds"]) == entry["desiredAvailable"] == 5
        finally:
            gone = ApiRequest(verb="delete", resource=budgets, namespace="shop", name="ledger")
            send(cluster, gone)


@pytest.mark.slow
@pytest.mark.parametrize("held", [{}], indirect=True)
@pytest.mark.usefixtures("held")
def test_actions_are_proved_on_the_live_pods(gk: Caller, cluster: Path, origin: Origin) -> None:
    def act(*words: str) -> Ended:
        env = {"KUBECONFIG": str(cluster), **WHO}
        return gk(*words, "-n", "shop", "--context", "gitkruise-sandbox", cwd=origin.work, **env)

    shown = act("promote", "asts/ledger", "--updated", "80%", "--print")
    assert (shown.code, shown.err) == (0, "")
    assert "+      partition: 1" in shown.out
    assert "2 of 5 pods updated IN PLACE" in shown.out
    assert act("hold", "asts/ledger").err.count("partition 3 holds it there already") == 1
    back = act("rollback", "asts/ledger", "--print", "-o", "json")
    assert back.code == 0
    assert back.obj["plan"]["rollouts"][0]["updatedAfter"] == 5
    paused = act("pause", "asts/ledger", "--print")
    assert "paused: true" in paused.out
    done = act("promote", "asts/ledger", "--commit", "--yes", "-o", "json")
    assert done.code == 0
    assert "partition: 0" in (origin.work / FILE).read_text()


def test_both_kinds_of_one_name_are_distinguished(gk: Caller, origin: Origin) -> None:
    ended = gk("promote", "sts/ledger", cwd=origin.work, **WHO)
    assert (ended.code, "GK7040" in ended.err) == (2, True)
    assert "asts/ledger" in ended.err
