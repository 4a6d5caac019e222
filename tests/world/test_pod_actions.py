"""What a kubelet does next for a pod: the cases of its own table, row by row."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.world.containers import Container, PodRuntime, Run, Sandbox
from gitkruise.world.pod_actions import PodActions, pod_actions

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


def seen(name: str, mark: str) -> Container:
    """+ running · number: exited with it · c created · ? unknown · ! image of another version.

    l liveness failed · s startup failed · w startup probe without an answer.
    """
    made = Container(name=name, image="app:v1")
    changes: dict[str, dict[str, Any]] = {
        "+": {},
        "c": {"run": Run.CREATED},
        "?": {"run": Run.UNKNOWN},
        "!": {"image": "app:v0"},
        "l": {"live": False},
        "s": {"startup": False},
        "w": {"startup": None},
    }
    if mark.isdigit():
        return made._replace(run=Run.EXITED, exit_code=int(mark))
    return made._replace(**changes[mark])


def runtime(
    marks: str, *, attempt: int | None = 0, ready: bool = True, addressed: bool = True
) -> Any:
    """`0+ 1:111` → containers 0 and 1; attempt None: there is no sandbox."""
    found = {}
    for word in marks.split():
        name, _, mark = word.partition(":")
        found[name] = seen(name, mark or "+")
    box = None if attempt is None else Sandbox(attempt=attempt, ready=ready, addressed=addressed)
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
    "D1 nothing": ("Always", runtime(ALL), does()),
    "D2 no sandbox": ("Always", runtime("", attempt=None), does(start=ALL, attempt=0)),
    "D3 exited, Always": ("Always", runtime("0:0 1:111 2"), does(start="0 1")),
    "D4 exited, OnFailure": ("OnFailure", runtime("0:0 1:111 2"), does(start="1")),
    "D5 created, OnFailure": ("OnFailure", runtime("0:0 1:c 2"), does(start="1")),
    "D6 exited, Never": ("Never", runtime("0:0 1:111 2"), does()),
    "D7 sandbox not ready": (
        "Always",
        runtime(ALL, ready=False),
        does(start=ALL, end=True, attempt=1),
    ),
    "D8 sandbox not ready, OnFailure": (
        "OnFailure",
        runtime("0 1:0 2", ready=False),
        does(start="0 2", end=True, attempt=1),
    ),
    "D9 sandbox without address": (
        "Always",
        runtime(ALL, addressed=False),
        does(start=ALL, end=True, attempt=1),
    ),
    "D10 image changed": ("Always", runtime("0 1:! 2"), does(kill="1", start="1")),
    "D11 liveness": ("Always", runtime("0 1:l 2"), does(kill="1", start="1")),
    "D12 startup": ("Always", runtime("0 1:s 2"), does(kill="1", start="1")),
    "D13 all done, Never": (
        "Never",
        runtime("0:0 1:0 2:0", ready=False, attempt=1),
        does(end=True),
    ),
    "D14 all done, OnFailure": (
        "OnFailure",
        runtime("0:0 1:0 2:0", ready=False, attempt=1),
        does(end=True),
    ),
    "D15 nothing visible": (
        "Never",
        runtime("", ready=False, attempt=2),
        does(start=ALL, end=True, attempt=3),
    ),
    "D16 unknown, Never": ("Never", runtime("0 1:? 2"), does(kill="1", start="1")),
    "D17 created, Never": ("Never", runtime("0 1:c 2"), does(start="1")),
    "D18 liveness, Never": ("Never", runtime("0 1:l 2"), does(kill="1")),
    "D19 image changed, Never": ("Never", runtime("0 1:! 2"), does(kill="1", start="1")),
}

DONE = "i0:0 i1:0 i2:0"
INIT_ROWS = {
    "D20 no statuses": ("Always", runtime(""), does(init="i0")),
    "D21 all exited 0": ("Always", runtime(DONE), does(start=ALL)),
    "D22 last running": ("Always", runtime("i0:0 i1:0 i2"), does()),
    "D23 last failed": ("OnFailure", runtime("i0:0 i1:0 i2:137"), does(init="i2")),
    "D24 last failed, Never": ("Never", runtime("i0:0 i1:0 i2:137"), does(end=True)),
    "D25 unknown": ("Always", runtime("i0:0 i1:0 i2:?"), does(kill="i2", init="i2")),
    "D26 unknown, Never": ("Never", runtime("i0:0 i1:0 i2:?"), does(end=True)),
    "D27 sandbox not ready": (
        "Always",
        runtime(DONE, ready=False),
        does(init="i0", end=True, attempt=1),
    ),
    "D28 sandbox not ready, Never": ("Never", runtime(DONE, ready=False), does(end=True)),
    "D29 the same without statuses": (
        "Never",
        runtime("", ready=False),
        does(init="i0", end=True, attempt=1),
    ),
    "D30 older statuses lost": ("Always", runtime("i2"), does()),
    "D31 created": ("Always", runtime("i0:0 i1:0 i2:c"), does(init="i2")),
}

UP = "s0 s1 s2"
SIDECAR_ROWS = {
    "D32 only the first": ("Always", runtime("s0"), does(init="s1")),
    "D33 the next": ("Always", runtime("s0 s1"), does(init="s2")),
    "D34 startup has not answered": ("Always", runtime("s0 s1:w"), does()),
    "D35 liveness": ("Always", runtime("s0 s1 s2:l"), does(kill="s2", init="s2", start=ALL)),
    "D36 startup": ("Always", runtime("s0 s1 s2:s"), does(kill="s2", init="s2")),
    "D37 image changed": ("Always", runtime("s0 s1 s2:!"), does(kill="s2", init="s2", start=ALL)),
    "D38 two exited": ("Always", runtime("s0:1 s1 s2:1"), does(init="s0 s2")),
    "D39 first exited": ("Always", runtime("s0:1 s1 s2"), does(init="s0", start=ALL)),
    "D40 last exited, Never": ("Never", runtime("s0 s1 s2:137"), does(init="s2")),
    "D41 the same, regular running": (
        "Never",
        runtime(f"s0 s1 s2:137 {ALL}"),
        does(init="s2"),
    ),
    "D42 regular done": ("Never", runtime(f"{UP} 0:0 1:0 2:0"), does(end=True)),
    "D43 statuses lost": ("Always", runtime("s2"), does(init="s0 s1", start=ALL)),
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
