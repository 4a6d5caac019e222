"""Pulls on a node: IMG-31, IMG-34 to IMG-36, PULL-11 to PULL-13."""

from __future__ import annotations

import base64
import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.node.containers import HeldImage
from gitkruise.model.node.node_image import node_image
from gitkruise.planner.node.pull_agent import (
    Attempt,
    GiveUp,
    Pause,
    PullRun,
    PullTask,
    agent_status,
    begun,
    given_up,
    held,
    next_move,
    not_pulled,
    open_tasks,
    pulled,
    result_event,
    sandbox_settings,
    timed_out,
)
from gitkruise.planner.node.pull_credentials import BadSecretError, credentials_for, login_in
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.values.images import familiar_parts, image_of_parts
from tests.planner.node.images import node_image_of, tag
from tests.pods import NOW

DIGEST = "sha256:" + "a" * 64
NAMES = {
    "ubuntu": ("ubuntu", "latest"),
    "docker.io/library/ubuntu:latest": ("ubuntu", "latest"),
    "docker.io/foo/bar:v1": ("foo/bar", "v1"),
    "myregistry:5000/my/image:v1": ("myregistry:5000/my/image", "v1"),
    f"ubuntu:20.04@{DIGEST}": ("ubuntu", DIGEST),
    "registry.example/library/ubuntu:1": ("registry.example/library/ubuntu", "1"),
}


@pytest.mark.parametrize("image", NAMES)
def test_img_31_names_are_familiar(image: str) -> None:
    assert familiar_parts(image) == NAMES[image]
    assert familiar_parts(image_of_parts(*NAMES[image])) == NAMES[image]


def test_a_name_that_no_runtime_parses_is_an_error() -> None:
    with pytest.raises(ValueError, match="invalid image Ubuntu"):
        familiar_parts("Ubuntu")


def after(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def run_of(**policy: Any) -> PullRun:
    raw = node_image_of({"nginx": [tag("1", **policy)]})
    wanted = next(iter(open_tasks(node_image(raw)).values()))
    return begun(PullRun(wanted=wanted), NOW)


def failing(run: PullRun, *, attempt_s: float = 0) -> list[tuple[float, str]]:
    """(seconds after NOW, what is done) of a run whose every attempt fails."""
    now, events = NOW, []
    for _ in range(50):
        at = (now - NOW).total_seconds()
        match next_move(run, now):
            case Attempt(timeout_s=seconds):
                events.append((at, f"pull {seconds:g}"))
                now += timedelta(seconds=attempt_s)
                run = not_pulled(run, "registry is down", now)
            case Pause(until=until):
                now = until
            case GiveUp(error=error):
                return [*events, (at, error)]
    raise AssertionError("the run never ends")


RUNS: dict[str, tuple[PullRun, float, list[tuple[float, str]]]] = {
    "PULL-11: three attempts": (
        run_of(pullPolicy={"backoffLimit": 2}),
        0,
        [(0, "pull 600"), (1, "pull 600"), (3, "pull 600"), (3, "registry is down")],
    ),
    "no retries": (
        run_of(pullPolicy={"backoffLimit": 0, "timeoutSeconds": 5}),
        0,
        [(0, "pull 5"), (0, "registry is down")],
    ),
    "a negative limit is the default": (
        run_of(pullPolicy={"backoffLimit": -1}),
        0,
        [*[(s, "pull 600") for s in (0, 1, 3, 7)], (7, "registry is down")],
    ),
    "the deadline cuts attempts": (
        run_of(pullPolicy={"activeDeadlineSeconds": 10, "timeoutSeconds": 6}),
        6,
        [(0, "pull 6"), (7, "pull 3"), (13, "pulling exceeds the activeDeadlineSeconds")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", RUNS)
def test_a_run_whose_attempts_fail(row: str) -> None:
    run, attempt_s, expected = RUNS[row]
    assert failing(run, attempt_s=attempt_s) == expected


@given(failures=st.integers(1, 100))
def test_pauses_stay_between_1_and_30_seconds(failures: int) -> None:
    run = run_of()
    for _ in range(failures):
        run = not_pulled(run, "no", NOW)
    assert run.retry is not None
    assert run.retry - NOW == timedelta(seconds=min(2 ** (failures - 1), 30))


POLICIES = {"": False, "Always": False, "IfNotPresent": True}


@pytest.mark.parametrize("policy", POLICIES)
def test_img_34_only_if_not_present_skips_a_pull(policy: str) -> None:
    move = next_move(run_of(imagePullPolicy=policy), NOW)
    assert isinstance(move, Attempt)
    assert move.if_absent is POLICIES[policy]


def test_a_tag_is_open_until_its_version_has_a_final_status() -> None:
    done = {"tag": "a", "version": 1, "phase": "Succeeded", "completionTime": format_time(NOW)}
    statuses: list[Obj] = [
        done,
        {**done, "tag": "b"},
        {"tag": "c", "version": 1, "phase": "Pulling"},
    ]
    tags = [tag("a", version=1), tag("b", version=2), tag("c", version=1), tag("d")]
    raw = node_image_of({"nginx": tags}, {"nginx": statuses})
    assert [(task.tag, task.version) for task in open_tasks(node_image(raw))] == [
        ("b", 2),
        ("c", 1),
        ("d", 0),
    ]


def test_the_status_reports_every_tag() -> None:
    done = {
        "tag": "a",
        "version": 1,
        "phase": "Succeeded",
        "progress": 100,
        "completionTime": format_time(NOW),
        "imageID": f"nginx@{DIGEST}",
    }
    tags = [tag("a", version=1), *(tag(name) for name in "bcde")]
    facts = node_image(node_image_of({"nginx": tags}, {"nginx": [done], "gone": [done]}))
    wanted = open_tasks(facts)
    runs = {task: begun(PullRun(wanted=wanted[task]), NOW) for task in wanted if task.tag != "e"}
    b, c, _ = (PullTask("nginx", name, 0) for name in "bcd")
    runs[b] = pulled(runs[b], DIGEST, after(2))
    runs[c] = given_up(runs[c], "unauthorized", after(3))
    start, stamps = format_time(NOW), [format_time(after(s)) for s in (2, 3)]
    good = {"startTime": start, "completionTime": stamps[0], "imageID": f"nginx@{DIGEST}"}
    bad = {"startTime": start, "completionTime": stamps[1], "message": "unauthorized"}
    assert agent_status(facts, runs) == {
        "desired": 5,
        "waiting": 1,
        "pulling": 1,
        "succeeded": 2,
        "failed": 1,
        "imageStatuses": {
            "nginx": {
                "tags": [
                    done,
                    {"tag": "b", "phase": "Succeeded", "progress": 100, **good},
                    {"tag": "c", "phase": "Failed", **bad},
                    {"tag": "d", "phase": "Pulling", "startTime": start},
                    {"tag": "e", "phase": "Waiting"},
                ]
            }
        },
    }


def test_a_run_that_ended_is_an_event() -> None:
    task, run = PullTask("nginx", "1", 0), run_of()
    good = result_event(task, pulled(run, DIGEST, after(1.25)))
    assert (good.reason, good.message) == (
        "PullImageSucceed",
        "Image nginx:1, ecalpsedTime 1.2s",
    )
    bad = result_event(task, given_up(run, timed_out(task), after(9)))
    assert (bad.type, bad.message) == (
        "Warning",
        "Image nginx:1 pulling image nginx:1 is canceled",
    )


def test_a_sandbox_always_names_the_puller() -> None:
    raw = node_image_of({"nginx": [tag("1")], "plain": [tag("1")]})
    raw["spec"]["images"]["nginx"]["sandboxConfig"] = {"labels": {"a": "b"}}
    by = {"apps.kruise.io/pulling-image-by": "kruise-daemon"}
    facts = node_image(raw)
    assert sandbox_settings(facts, "nginx") == {"labels": {"a": "b"}, "annotations": by}
    assert sandbox_settings(facts, "plain") == {"labels": {}, "annotations": by}


PRESENT = {
    "PULL-12: spelt in full": (("nginx", "latest"), ["docker.io/library/nginx:latest"], [], True),
    "another namespace": (("test/nginx", "1.0"), ["docker.io/test/nginx:1.0"], [], True),
    "the library is not it": (("test/nginx", "1.0"), ["docker.io/library/nginx:1.0"], [], False),
    "a key that is not familiar": (
        ("docker.io/library/nginx", "1"), ["docker.io/library/nginx:1"], [], False,
    ),
    "a digest": (("nginx", DIGEST), [], [f"docker.io/library/nginx@{DIGEST}"], True),
    "a digest of another name": (("nginx", DIGEST), [], [f"docker.io/a/nginx@{DIGEST}"], False),
    "no name at all": (("nginx", "1"), ["<none>:<none>"], [], False),
}  # fmt: skip


@pytest.mark.parametrize("row", PRESENT)
def test_an_image_is_present(row: str) -> None:
    (name, tag_), tags, digests, expected = PRESENT[row]
    image = HeldImage("sha256:1", tuple(tags), tuple(digests))
    assert held(PullTask(name, tag_, 0), [image]) == (image if expected else None)


def test_quirk_a_digest_is_joined_so_that_a_runtime_can_pull_it() -> None:
    assert PullTask("ubuntu", DIGEST, 0).image == f"ubuntu@{DIGEST}"
    assert PullTask("ubuntu", "20.04", 0).image == "ubuntu:20.04"


def secret(registry: str, *, kind: str = "dockerconfigjson", **entry: str) -> Obj:
    auths = {registry: entry or {"username": "u", "password": registry}}
    content = {"auths": auths} if kind == "dockerconfigjson" else auths
    data = base64.b64encode(json.dumps(content).encode()).decode()
    return {
        "metadata": {"namespace": "kruise-daemon-config", "name": "pull"},
        "type": f"kubernetes.io/{kind}",
        "data": {f".{kind}": data},
    }


PRIVATE = "registry.private.example"
LOGINS = {
    "host": ([secret(PRIVATE)], f"{PRIVATE}/app/x:v1", [PRIVATE]),
    "path": ([secret(f"{PRIVATE}/app")], f"{PRIVATE}/app/x:v1", [f"{PRIVATE}/app"]),
    "digest": ([secret(PRIVATE)], f"{PRIVATE}/app/x@{DIGEST}", [PRIVATE]),
    "hub": ([secret("docker.io/library/nginx")], "nginx:v1", ["docker.io/library/nginx"]),
    "hub's old name": ([secret("https://index.docker.io/v1/")], "nginx:v1", ["docker.io"]),
    "PULL-13: other path": ([secret(f"{PRIVATE}/nginx")], f"{PRIVATE}/app/x", []),
    "longest first": (
        [secret(PRIVATE), secret(f"{PRIVATE}/app")],
        f"{PRIVATE}/app/x",
        [f"{PRIVATE}/app", PRIVATE],
    ),
    "wildcard": ([secret("*.private.example")], f"{PRIVATE}/app/x", ["*.private.example"]),
    "wildcard of one part": ([secret("*.example")], f"{PRIVATE}/app/x", []),
    "old format": ([secret(PRIVATE, kind="dockercfg")], f"{PRIVATE}/x", [PRIVATE]),
    "port": ([secret("127.0.0.1:5000")], "127.0.0.1:5001/x", []),
}


@pytest.mark.parametrize("row", LOGINS)
def test_img_35_credentials_fit_the_image(row: str) -> None:
    secrets, image, expected = LOGINS[row]
    assert [login.path for login in credentials_for(image, secrets)] == expected


def test_a_login_may_be_encoded() -> None:
    auth = base64.b64encode(b"me:a:b").decode()
    (login,) = credentials_for(f"{PRIVATE}/x", [secret(PRIVATE, auth=auth)])
    assert login[1:] == ("me", "a:b")


BAD: dict[str, tuple[Obj, str]] = {
    "no credentials": ({"type": "Opaque"}, "type Opaque holds no registry credentials"),
    "no data": ({"data": {}}, "field .dockerconfigjson is missing or malformed"),
    "no base64": ({"data": {".dockerconfigjson": "%"}}, "is missing or malformed"),
    "no list": ({"data": {".dockerconfigjson": "WzFd"}}, "is missing or malformed"),
}


@pytest.mark.parametrize("row", BAD)
def test_a_secret_that_cannot_be_read_is_named(row: str) -> None:
    changes, message = BAD[row]
    with pytest.raises(BadSecretError, match=message) as caught:
        credentials_for(f"{PRIVATE}/x", [{**secret(PRIVATE), **changes}])
    assert str(caught.value).startswith("secret kruise-daemon-config/pull: ")


CONFIGS: list[tuple[str, str]] = [
    ('{"auths": {"r.example": {"username": "a", "password": "b"}}}', "a"),
    ('{"auths": {"https://r.example/v2/": {"auth": "YTpi"}}}', "a"),
    ('{"auths": {"r.example/team": {"auth": "YTpi"}, "r.example": {"auth": "Yzpk"}}}', "a"),
    ('{"auths": {"r.example/other": {"auth": "YTpi"}}}', ""),
    ('{"auths": {"r.example": {"auth": "YQ=="}}}', ""),
    ('{"auths": ["r.example"]}', ""),
    ("{}", ""),
    ("no json", ""),
]


@pytest.mark.parametrize(("config", "username"), CONFIGS)
def test_a_docker_configuration_has_a_login_or_none(config: str, username: str) -> None:
    login = login_in("r.example/team/app", config)
    assert (login.username if login else "") == username
