"""Deployments on a cluster: get, why, trace, plan and the actions, with its pods."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.calls import Caller, Ended
from tests.cli.deployments import web
from tests.cli.live import applied, apply
from tests.git.repos import ENV, Origin, make_origin, run_git

FILE = "apps/web.yaml"
COMMIT = "4f2c9e1" + "0" * 33
MARKS = {"commit": COMMIT, "path": "apps/web.yaml:1", "unit-ref": "shop/web"}
WHO = {name: value for name, value in ENV.items() if name.startswith("GIT_")}


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    """A first release, and a canary of 3 pods."""
    folder = tmp_path / "git"
    folder.mkdir()
    origin = make_origin(folder)
    origin.commit({FILE: web("v1")}, "first release")
    origin.commit({FILE: web("v2", "3")}, "web v2, canary 3")
    run_git(origin.work, "fetch", "-q")
    return origin


def waited(gk: Caller, cluster: Path) -> Ended:
    words = ["get", "deploy", "web", "-n", "shop", "-w", "--exit-when-done", "-o", "jsonl"]
    return gk(*words, "--timeout", "60s", KUBECONFIG=str(cluster))


@pytest.fixture(params=[MARKS])
def held(gk: Caller, cluster: Path, request: pytest.FixtureRequest) -> Iterator[None]:
    """Three of its ten pods run v2. The parameter is the annotations of a unit."""
    with applied(cluster, web("v1"), **request.param):
        assert waited(gk, cluster).code == 0
        apply(cluster, web("v2", "3"), **request.param)
        assert waited(gk, cluster).code == 0
        yield


unowned = pytest.mark.parametrize("held", [{}], indirect=True)


@pytest.mark.usefixtures("held")
def test_get_shows_it_and_what_is_behind_it(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    rows = {
        noun: gk("get", noun, "web", "-n", "shop", "-o", "json", **env).obj["items"]
        for noun in ("rollouts", "deployments", "pods", "revisions", "events")
    }
    (rollout,) = rows["rollouts"]
    assert rows["deployments"] == rows["rollouts"]
    assert (rollout["kind"], rollout["state"], rollout["canary"]) == ("Deployment", "Held", "3")
    assert (rollout["updated"], rollout["asked"], rollout["kept"]) == (3, 3, 7)
    hashes = {pod["revision"] for pod in rows["pods"]}
    assert hashes == {row["hash"] for row in rows["revisions"]}
    assert len(rows["pods"]) == 10
    assert "CanaryPaused" in {event["reason"] for event in rows["events"]}
    table = gk("get", "rollouts", "-n", "shop", **env).out
    assert "deployment/web" in table
    assert "c=3" in table
    assert gk("get", "rollouts", "-n", "shop", "-o", "name", **env).out == "deployment/web\n"
    block = gk("get", "deploy", "web", "-n", "shop", **env).out
    assert "3 new / 7 old   (canary 3 keeps 7)" in block
    status = gk("status", "-n", "shop", **env).out
    assert "deployment/web" in status
    assert "c=3" in status


@pytest.mark.usefixtures("held")
def test_why_and_trace_lead_to_git(gk: Caller, cluster: Path) -> None:
    env = {"KUBECONFIG": str(cluster)}
    why = gk("why", "deployment/web", "-n", "shop", **env).out
    assert "7 pods stay on the current revision: canary 3 updates 3 of 10" in why
    assert "gitkruise promote deployment/web -n shop" in why
    pods = gk("get", "pods", "deployment/web", "-n", "shop", "-o", "json", **env).obj["items"]
    traced = gk("trace", pods[0]["name"], "-n", "shop", "-o", "json", **env).obj
    assert traced["owner"] == {
        "kind": "Deployment", "namespace": "shop", "name": "web", "state": "Held",
    }  # fmt: skip
    assert (traced["commit"]["id"], traced["revision"]) == (COMMIT, pods[0]["revision"])
    nobody = gk("trace", "web-x", "-n", "shop", **env)
    kinds = "CloneSet, Deployment, StatefulSet or DaemonSet"
    assert f"no {kinds} of namespace shop owns a pod" in nobody.err


@pytest.mark.parametrize("held", [{**MARKS, "git-pause": "canary"}], indirect=True)
@pytest.mark.usefixtures("held")
def test_why_resumes_what_git_pauses_at_its_canary(gk: Caller, cluster: Path) -> None:
    """A promotion of what git pauses moves no pod."""
    why = gk("why", "deployment/web", "-n", "shop", KUBECONFIG=str(cluster)).out
    assert "gitkruise resume deployment/web -n shop" in why
    assert "gitkruise promote" not in why


@pytest.mark.slow
@unowned
@pytest.mark.usefixtures("held")
def test_actions_are_proved_on_the_live_pods(gk: Caller, cluster: Path, origin: Origin) -> None:
    def act(*words: str) -> Ended:
        env = {"KUBECONFIG": str(cluster), **WHO}
        return gk(*words, "-n", "shop", "--context", "gitkruise-sandbox", cwd=origin.work, **env)

    shown = act("promote", "deployment/web", "--updated", "50%", "--print")
    assert (shown.code, shown.err) == (0, "")
    assert '+  annotations: {gitkruise.io/canary: "50%"}' in shown.out
    assert "2 of 10 pods REPLACED" in shown.out
    assert "5 of 10 pods stay as they are" in shown.out
    assert act("hold", "deploy/web").err.count("canary 3 holds it there already") == 1
    back = act("rollback", "deployment/web", "--print", "-o", "json")
    assert back.code == 0
    assert back.obj["plan"]["rollouts"][0]["updatedAfter"] == 10
    assert act("resume", "deployment/web").err.count("git does not pause it") == 1
    done = act("promote", "deployment/web", "--commit", "--yes", "-o", "json")
    assert done.code == 0
    assert 'canary: "100%"' in (origin.work / FILE).read_text()
    message = run_git(origin.bare, "log", "-1", "--format=%s|%(trailers)", "main")
    assert message.splitlines()[0] == "web: promote to all|Gitkruise-Action: promote"
    assert "Gitkruise-Object: Deployment shop/web" in message


@pytest.mark.slow
@unowned
@pytest.mark.usefixtures("held")
def test_a_plan_of_the_canary_alone_starts_from_the_live_pods(
    gk: Caller, cluster: Path, origin: Origin
) -> None:
    def plan(text: str) -> str:
        origin.commit({FILE: text}, "next")
        words = ["plan", "--context", "gitkruise-sandbox"]
        return gk(*words, cwd=origin.work, KUBECONFIG=str(cluster), COLUMNS="100").out

    assert "2 of 10 pods REPLACED" in plan(web("v2", "5"))
    assert "no pod is replaced; 10 pods created" in plan(web("v2", "3", replicas=20))


def test_two_kinds_of_one_name_are_distinguished(gk: Caller, origin: Origin) -> None:
    ended = gk("promote", "web", cwd=origin.work, **WHO)
    assert (ended.code, "GK7040" in ended.err) == (2, True)
    assert "deployment/web" in ended.err


@pytest.mark.slow
def test_a_plan_of_a_new_deployment_counts_its_pods(
    gk: Caller, cluster: Path, origin: Origin
) -> None:
    with applied(cluster, web("v1", name="other", replicas=1)):
        origin.commit({"apps/fresh.yaml": web("v1", name="fresh", replicas=4)}, "fresh")
        words = ["plan", "--context", "gitkruise-sandbox"]
        text = gk(*words, cwd=origin.work, KUBECONFIG=str(cluster), COLUMNS="100").out
    assert "Effect   4 pods created" in text
    assert "none: the cluster has this already" not in text
