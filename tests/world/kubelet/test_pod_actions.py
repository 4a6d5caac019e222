"""Next actions of a kubelet for a pod: the cases of its own test table, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.world.kubelet.pod_actions import PodActions, pod_actions
from gitkruise.world.kubelet.runtime import PodRuntime, PodSandbox, RuntimeContainer, RuntimeState

REGULAR = ("0", "1", "2")


def pod(policy: str = "Always", init: str = "", *, sidecars: bool = False) -> dict[str, Any]:
    extra = {"restartPolicy": "Always", "startupProbe": {}} if sidecars else {}
    return {
        "metadata": {"name": "p", "namespace": "ns", "uid": "u"},
        "spec": {
            "restartPolicy": policy,
            "containers": [{"name": n, "image": "app:v1"} for n in REGULAR],
            "initContainers": [{"name": n, "image": "app:v1", **extra} for n in init.split()],
        },
    }


def seen(name: str, mark: str) -> RuntimeContainer:
    """+ running · number: exited with it · c created · ? unknown · ! image of another version.

    l liveness failed · s startup failed · w startup probe without an answer.
    """
    made = RuntimeContainer(name=name, image="app:v1")
    changes: dict[str, dict[str, Any]] = {
        "+": {},
        "c": {"run": RuntimeState.CREATED},
        "?": {"run": RuntimeState.UNKNOWN},
        "!": {"image": "app:v0"},
        "l": {"live": False},
        "s": {"startup": False},
        "w": {"startup": None},
    }
    if mark.isdigit():
        return made._replace(run=RuntimeState.EXITED, exit_code=int(mark))
    return made._replace(**changes[mark])


def runtime(
    marks: str, *, attempt: int | None = 0, ready: bool = True, addressed: bool = True
) -> Any:
    """`0+ 1:111` → containers 0 and 1; attempt None: there is no sandbox."""
    found = {}
    for word in marks.split():
        name, _, mark = word.partition(":")
        found[name] = seen(name, mark or "+")
    box = None if attempt is None else PodSandbox(attempt=attempt, ready=ready, addressed=addressed)
    return PodRuntime(sandbox=box, containers=found)


def does(
    kill: str = "",
    start: str = "",
    init: str = "",
    *,
    end: bool = False,
    attempt: int | None = None,
) -> tuple[Any, ...]:
    return (set(kill.split()), tuple(start.split()), tuple(init.split()), end, attempt)


def outcome(actions: PodActions) -> tuple[Any, ...]:
    return (
        set(actions.kill),
        actions.start,
        actions.start_init,
        actions.kill_pod,
        actions.attempt,
    )


ALL = "0 1 2"
ROWS = {
    "ACT-1 nothing": ("Always", runtime(ALL), does()),
    "ACT-2 no sandbox": ("Always", runtime("", attempt=None), does(start=ALL, attempt=0)),
    "ACT-3 exited, Always": ("Always", runtime("0:0 1:111 2"), does(start="0 1")),
    "ACT-4 exited, OnFailure": ("OnFailure", runtime("0:0 1:111 2"), does(start="1")),
    "ACT-5 created, OnFailure": ("OnFailure", runtime("0:0 1:c 2"), does(start="1")),
    "ACT-6 exited, Never": ("Never", runtime("0:0 1:111 2"), does()),
    "ACT-7 sandbox not ready": (
        "Always",
        runtime(ALL, ready=False),
        does(start=ALL, end=True, attempt=1),
    ),
    "ACT-8 sandbox not ready, OnFailure": (
        "OnFailure",
        runtime("0 1:0 2", ready=False),
        does(start="0 2", end=True, attempt=1),
    ),
    "ACT-9 sandbox without address": (
        "Always",
        runtime(ALL, addressed=False),
        does(start=ALL, end=True, attempt=1),
    ),
    "ACT-10 image changed": ("Always", runtime("0 1:! 2"), does(kill="1", start="1")),
    "ACT-11 liveness": ("Always", runtime("0 1:l 2"), does(kill="1", start="1")),
    "ACT-12 startup": ("Always", runtime("0 1:s 2"), does(kill="1", start="1")),
    "ACT-13 all done, Never": (
        "Never",
        runtime("0:0 1:0 2:0", ready=False, attempt=1),
        does(end=True),
    ),
    "ACT-14 all done, OnFailure": (
        "OnFailure",
        runtime("0:0 1:0 2:0", ready=False, attempt=1),
        does(end=True),
    ),
    "ACT-15 nothing visible": (
        "Never",
        runtime("", ready=False, attempt=2),
        does(start=ALL, end=True, attempt=3),
    ),
    "ACT-16 unknown, Never": ("Never", runtime("0 1:? 2"), does(kill="1", start="1")),
    "ACT-17 created, Never": ("Never", runtime("0 1:c 2"), does(start="1")),
    "ACT-18 liveness, Never": ("Never", runtime("0 1:l 2"), does(kill="1")),
    "ACT-19 image changed, Never": ("Never", runtime("0 1:! 2"), does(kill="1", start="1")),
}

DONE = "i0:0 i1:0 i2:0"
INIT_ROWS = {
    "ACT-20 no statuses": ("Always", runtime(""), does(init="i0")),
    "ACT-21 all exited 0": ("Always", runtime(DONE), does(start=ALL)),
    "ACT-22 last running": ("Always", runtime("i0:0 i1:0 i2"), does()),
    "ACT-23 last failed": ("OnFailure", runtime("i0:0 i1:0 i2:137"), does(init="i2")),
    "ACT-24 last failed, Never": ("Never", runtime("i0:0 i1:0 i2:137"), does(end=True)),
    "ACT-25 unknown": ("Always", runtime("i0:0 i1:0 i2:?"), does(kill="i2", init="i2")),
    "ACT-26 unknown, Never": ("Never", runtime("i0:0 i1:0 i2:?"), does(end=True)),
    "ACT-27 sandbox not ready": (
        "Always",
        runtime(DONE, ready=False),
        does(init="i0", end=True, attempt=1),
    ),
    "ACT-28 sandbox not ready, Never": ("Never", runtime(DONE, ready=False), does(end=True)),
    "ACT-29 the same without statuses": (
        "Never",
        runtime("", ready=False),
        does(init="i0", end=True, attempt=1),
    ),
    "ACT-30 older statuses lost": ("Always", runtime("i2"), does()),
    "ACT-31 created": ("Always", runtime("i0:0 i1:0 i2:c"), does(init="i2")),
}

UP = "s0 s1 s2"
SIDECAR_ROWS = {
    "ACT-32 only the first": ("Always", runtime("s0"), does(init="s1")),
    "ACT-33 the next": ("Always", runtime("s0 s1"), does(init="s2")),
    "ACT-34 startup has not answered": ("Always", runtime("s0 s1:w"), does()),
    "ACT-35 liveness": ("Always", runtime("s0 s1 s2:l"), does(kill="s2", init="s2", start=ALL)),
    "ACT-36 startup": ("Always", runtime("s0 s1 s2:s"), does(kill="s2", init="s2")),
    "ACT-37 image changed": (
        "Always",
        runtime("s0 s1 s2:!"),
        does(kill="s2", init="s2", start=ALL),
    ),
    "ACT-38 two exited": ("Always", runtime("s0:1 s1 s2:1"), does(init="s0 s2")),
    "ACT-39 first exited": ("Always", runtime("s0:1 s1 s2"), does(init="s0", start=ALL)),
    "ACT-40 last exited, Never": ("Never", runtime("s0 s1 s2:137"), does(init="s2")),
    "ACT-41 the same, regular running": (
        "Never",
        runtime(f"s0 s1 s2:137 {ALL}"),
        does(init="s2"),
    ),
    "ACT-42 regular done": ("Never", runtime(f"{UP} 0:0 1:0 2:0"), does(end=True)),
    "ACT-43 statuses lost": ("Always", runtime("s2"), does(init="s0 s1", start=ALL)),
}


@pytest.mark.parametrize(("policy", "state", "expected"), ROWS.values(), ids=ROWS)
def test_regular_containers(policy: str, state: PodRuntime, expected: tuple[Any, ...]) -> None:
    assert outcome(pod_actions(pod(policy), state)) == expected


@pytest.mark.parametrize(("policy", "state", "expected"), INIT_ROWS.values(), ids=INIT_ROWS)
def test_init_containers(policy: str, state: PodRuntime, expected: tuple[Any, ...]) -> None:
    assert outcome(pod_actions(pod(policy, "i0 i1 i2"), state)) == expected


@pytest.mark.parametrize(("policy", "state", "expected"), SIDECAR_ROWS.values(), ids=SIDECAR_ROWS)
def test_sidecars(policy: str, state: PodRuntime, expected: tuple[Any, ...]) -> None:
    assert outcome(pod_actions(pod(policy, UP, sidecars=True), state)) == expected
