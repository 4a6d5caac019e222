"""StatefulSets and DaemonSets of Kubernetes on a cluster: get, why, status, plan, the actions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from tests.cli.calls import Caller, Ended
from tests.cli.live import applied, apply
from tests.cli.shop import Checkout, nowhere
from tests.git.repos import ENV, Origin, make_origin, run_git

pytestmark = pytest.mark.slow

Golden = Callable[[str, str], None]
FILE: Final = "apps/queue.yaml"
MARKS: Final = {
    "commit": "4f2c9e1" + "0" * 33,
    "path": "apps/queue.yaml:1",
    "unit-ref": "shop/web",
}
WHO: Final = {name: value for name, value in ENV.items() if name.startswith("GIT_")}


def queue(image: str, partition: int = 0, *, replicas: int = 5, on_delete: bool = False) -> str:
    """Five pods, one after the other."""
    rolling = f"type: RollingUpdate\n    rollingUpdate:\n      partition: {partition}"
    return dedent("""\
        apiVersion: apps/v1
        kind: StatefulSet
        metadata:
          name: queue
          namespace: shop
        spec:
          replicas: {replicas}
          serviceName: queue
          selector:
            matchLabels:
              app: queue
          updateStrategy:
            {strategy}
          template:
            metadata:
              labels:
                app: queue
            spec:
              containers:
                - name: app
                  image: registry.example.com/queue:{image}
        """).format(
        replicas=replicas, strategy="type: OnDelete" if on_delete else rolling, image=image
    )


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    """A first release, and a second one that three pods stay behind."""
    folder = tmp_path / "git"
    folder.mkdir()
    origin = make_origin(folder)
    origin.commit({FILE: queue("v1")}, "first release")
    origin.commit({FILE: queue("v2", 3)}, "queue v2, partition 3")
    run_git(origin.work, "fetch", "-q")
    return origin


def waited(gk: Caller, cluster: Path) -> Ended:
    words = ["get", "sts", "queue", "-n", "shop", "-w", "--exit-when-done", "-o", "jsonl"]
    return gk(*words, "--timeout", "60s", KUBECONFIG=str(cluster))


@pytest.fixture(params=[MARKS])
def held(gk: Caller, cluster: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Two of its five pods run v2. The parameter is the annotations of a unit."""
    with applied(cluster, queue("v1"), **request.param):
        assert waited(gk, cluster).code == 0
        apply(cluster, queue("v2", 3), **request.param)
        assert waited(gk, cluster).code == 0
        yield


# before → after, by what the change teaches
CHANGES: Final[dict[str, tuple[str, str]]] = {
    "partition": (queue("v1"), queue("v2", 3)),
    "all": (queue("v1"), queue("v2")),
    "on-delete": (queue("v1", on_delete=True), queue("v2", on_delete=True)),
    "stuck": (queue("v1"), nowhere(queue("v2"))),
    "scaled": (queue("v1"), queue("v1", replicas=7)),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_plan_foretells_the_rollout(
    gk: Caller, checkout: Checkout, golden: Golden, name: str
) -> None:
    before, after = CHANGES[name]
    checkout.commit("before", {"queue.yaml": before})
    checkout.commit(name, {"queue.yaml": after})
    ended = gk("plan", cwd=checkout.folder, COLUMNS="100")
    assert (ended.code, ended.err) == (0, "")
    golden(f"cli-plan/builtin-statefulset-{name}.txt", ended.out)


@pytest.mark.usefixtures("held")
def test_get_status_and_why_show_it(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    rows = {
        noun: gk("get", noun, "queue", "-n", "shop", "-o", "json", **env).obj["items"]
        for noun in ("rollouts", "statefulsets", "pods", "revisions")
    }
    (rollout,) = rows["rollouts"]
    assert rows["statefulsets"] == rows["rollouts"]
    assert (rollout["kind"], rollout["group"]) == ("StatefulSet", "apps")
    assert (rollout["state"], rollout["partition"]) == ("Held", "3")
    assert (rollout["updated"], rollout["asked"], rollout["kept"]) == (2, 2, 3)
    assert {p["name"] for p in rows["pods"]} == {f"queue-{at}" for at in range(5)}
    assert gk("get", "rollouts", "-n", "shop", "-o", "name", **env).out == "statefulset/queue\n"
    assert "statefulset/queue" in gk("get", "rollouts", "-n", "shop", **env).out
    status = gk("status", "-n", "shop", **env).out
    assert "statefulset/queue" in status
    assert "Held" in status
    why = gk("why", "sts/queue", "-n", "shop", **env).out
    assert "3 pods stay on the current revision: partition 3 keeps 3 of 5" in why
    assert "gitkruise promote statefulset/queue -n shop" in why


@pytest.mark.slow
@pytest.mark.parametrize("held", [{}], indirect=True)
@pytest.mark.usefixtures("held")
def test_actions_are_proved_on_the_live_pods(gk: Caller, cluster: Path, origin: Origin) -> None:
    def act(*words: str) -> Ended:
        env = {"KUBECONFIG": str(cluster), **WHO}
        return gk(*words, "-n", "shop", "--context", "gitkruise-sandbox", cwd=origin.work, **env)

    shown = act("promote", "sts/queue", "--updated", "80%", "--print")
    assert (shown.code, shown.err) == (0, "")
    assert "+      partition: 1" in shown.out
    assert "2 of 5 pods RECREATED" in shown.out
    assert "step 1" in shown.out
    assert act("hold", "sts/queue").err.count("partition 3 holds it there already") == 1
    refused = act("pause", "sts/queue").err
    assert "has no field that pauses it" in refused
    assert "next: gitkruise hold statefulset/queue" in refused
    back = act("rollback", "sts/queue", "--print", "-o", "json")
    assert back.code == 0
    assert back.obj["plan"]["rollouts"][0]["updatedAfter"] == 5
    done = act("promote", "sts/queue", "--commit", "--yes", "-o", "json")
    assert done.code == 0
    assert "partition: 0" in (origin.work / FILE).read_text()


@pytest.mark.slow
def test_why_names_the_pod_that_holds_the_rest_back(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, queue("v1"), **MARKS):
        assert waited(gk, cluster).code == 0
        apply(cluster, queue("bad"), **MARKS)
        assert waited(gk, cluster).code == 1
        (rollout,) = gk("get", "rollouts", "-n", "shop", "-o", "json", **env).obj["items"]
        assert rollout["state"] == "Stuck"
        why = gk("why", "sts/queue", "-n", "shop", **env).out
    assert "1 pod runs the new revision and cannot start" in why
    assert "gitkruise rollback statefulset/queue -n shop" in why
    assert f"\n{' ' * 21}then kubectl delete pod queue-4 -n shop" in why


@pytest.mark.slow
def test_why_names_the_pod_that_a_mended_template_does_not_replace(
    gk: Caller, cluster: Path
) -> None:
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, queue("v1"), **MARKS):
        assert waited(gk, cluster).code == 0
        apply(cluster, queue("bad"), **MARKS)
        assert waited(gk, cluster).code == 1
        apply(cluster, queue("v2"), **MARKS)
        assert waited(gk, cluster).code == 1
        why = gk("why", "sts/queue", "-n", "shop", "-o", "json", **env).obj
    assert why["state"] == "Stuck"
    assert why["next"] == ["kubectl delete pod queue-4 -n shop: it is not replaced before"]


def agent(image: str, type_: str = "RollingUpdate") -> str:
    """A pod on each node."""
    return dedent(f"""\
        apiVersion: apps/v1
        kind: DaemonSet
        metadata:
          name: agent
          namespace: shop
        spec:
          selector:
            matchLabels:
              app: agent
          updateStrategy:
            type: {type_}
          template:
            metadata:
              labels:
                app: agent
            spec:
              containers:
                - name: app
                  image: registry.example.com/agent:{image}
        """)


def agents(gk: Caller, cluster: Path) -> Ended:
    words = ["get", "ds", "agent", "-n", "shop", "-w", "--exit-when-done", "-o", "jsonl"]
    return gk(*words, "--timeout", "60s", KUBECONFIG=str(cluster))


def test_a_daemon_set_that_waits_for_deletions_is_held(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, agent("v1", "OnDelete"), **MARKS):
        assert agents(gk, cluster).code == 0
        apply(cluster, agent("v2", "OnDelete"), **MARKS)
        assert agents(gk, cluster).code == 0
        (rollout,) = gk("get", "rollouts", "-n", "shop", "-o", "json", **env).obj["items"]
        why = gk("why", "ds/agent", "-n", "shop", **env).out
        status = gk("status", "-n", "shop", **env).out
    assert (rollout["kind"], rollout["state"], rollout["updated"]) == ("DaemonSet", "Held", 0)
    assert "the others are updated when they are deleted" in why
    assert "What would move it:  deleting old pods" in why
    assert "daemonset/agent" in status
    assert "Held  next move is deleting old pods" in status
    assert rollout["currentRevision"].startswith("agent-")


@pytest.mark.slow
def test_a_daemon_set_with_a_bad_image_is_stuck(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, agent("v1"), **MARKS):
        assert agents(gk, cluster).code == 0
        apply(cluster, agent("v2"), **MARKS)
        assert agents(gk, cluster).code == 0
        done = gk("why", "ds/agent", "-n", "shop", **env).out
        apply(cluster, agent("bad"), **MARKS)
        assert agents(gk, cluster).code == 1
        (rollout,) = gk("get", "ds", "-n", "shop", "-o", "json", **env).obj["items"]
        why = gk("why", "ds/agent", "-n", "shop", **env).out
    assert "nothing holds it" in done
    assert (rollout["state"], rollout["updated"], rollout["maxUnavailable"]) == ("Stuck", 1, 1)
    assert "1 pod runs the new revision and cannot start: image" in why
    assert "maxUnavailable is 1, and 1 is used" in why
    assert "gitkruise rollback daemonset/agent -n shop" in why
