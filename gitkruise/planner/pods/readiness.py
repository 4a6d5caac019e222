"""Readiness conditions we write on pods: InPlaceUpdateReady, KruisePodReady and what follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.gojson import ordered
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.times import format_time

_START: Final = "StartInPlaceUpdate"
_GATES_NOT_READY: Final = "ReadinessGatesNotReady"


class KruiseKey(NamedTuple):
    """One reason in the message of KruisePodReady to keep a pod out of service."""

    agent: str
    key: str


class BrokenConditionError(ValueError):
    """A condition message that should be JSON is not."""


def kruise_keys(pod: PodFacts) -> frozenset[KruiseKey]:
    """Keys in the message of the pod's KruisePodReady. Raises BrokenConditionError."""
    condition = pod.condition(wire.KRUISE_READY)
    if condition is None or not condition.message:
        return frozenset()
    try:
        return frozenset(
            KruiseKey(str(e["userAgent"]), str(e["key"])) for e in read_json(condition.message)
        )
    except (ValueError, KeyError, TypeError) as error:
        raise BrokenConditionError(
            f"condition {wire.KRUISE_READY} carries no list of keys: {error!r}"
        ) from error


def kruise_condition(
    pod: PodFacts, changes: Iterable[tuple[KruiseKey, bool]], now: datetime
) -> Obj | None:
    """The new KruisePodReady after adding or removing keys; None when nothing changes.

    A pod with the gate and without the condition gets it, as OpenKruise's own controller does.
    """
    if wire.KRUISE_READY not in pod.gates:
        return None
    had = kruise_keys(pod)
    keys = set(had)
    for key, added in changes:
        (keys.add if added else keys.discard)(key)
    old = pod.condition(wire.KRUISE_READY)
    if old is not None and keys == had and (keys or old.true or old.status == "False"):
        return None
    made = {
        "type": wire.KRUISE_READY,
        "status": "False" if keys else "True",
        "lastTransitionTime": format_time(now),
    }
    if had or keys:
        listed = [{"userAgent": k.agent, "key": k.key} for k in sorted(keys)]
        made["message"] = ordered(listed).decode()
    return made


def in_place_condition(pod: PodFacts, *, ready: bool, now: datetime) -> Obj:
    """InPlaceUpdateReady for a strategic patch, which takes an old reason away only by null."""
    made: dict[str, str | None] = {
        "type": wire.INPLACE_READY,
        "status": "True" if ready else "False",
        "lastTransitionTime": format_time(now),
    }
    if not ready:
        return {**made, "reason": _START}
    old = pod.condition(wire.INPLACE_READY)
    if old is not None and old.reason:
        made["reason"] = None
    if old is not None and old.message:
        made["message"] = None
    return made


def with_ready(pod: PodFacts, changed: Sequence[Obj], now: datetime) -> list[Obj]:
    """`changed` conditions plus Ready set False where a gate among them fails.

    Ready follows only when it is there and all containers are ready; the kubelet sets it True
    again. Source: the Ready condition that OpenKruise writes with a failing gate.
    """
    status = {c["type"]: c["status"] for c in changed}
    failing = [g for g in pod.gates if status.get(g) == "False"]
    containers = pod.condition(wire.CONTAINERS_READY)
    if not failing or not pod.ready or containers is None or not containers.true:
        return list(changed)
    ready = {
        "type": wire.POD_READY,
        "status": "False",
        "reason": _GATES_NOT_READY,
        "message": _failing_text(pod, status),
        "lastTransitionTime": format_time(now),
    }
    return [*changed, ready]


def _failing_text(pod: PodFacts, status: Mapping[str, Any]) -> str:
    texts = []
    for gate in pod.gates:
        known = pod.condition(gate)
        value = status.get(gate) or (known.status if known else "")
        if not value:
            texts.append(f'corresponding condition of pod readiness gate "{gate}" does not exist.')
        elif value != "True":
            texts.append(f'the status of pod readiness gate "{gate}" is not "True", but {value}')
    return ", ".join(texts)
