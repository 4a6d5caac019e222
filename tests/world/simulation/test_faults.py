"""Laws of rollouts under faults: bounds are kept at every instant, and after the last fault all
becomes stable and stays so."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from gitkruise.errors import ApiError
from gitkruise.wire.primitives.names import Obj
from tests.world.simulation.faults import Fault, Faults
from tests.worlds import SPACE, Lab, cloneset, container, create, deployment, pod

pytestmark = pytest.mark.slow

SEEDS = range(6)
FAULTY = timedelta(seconds=120)


def faulty(obj: Obj, seed: int, *, kinds: tuple[Fault, ...] | None = None) -> tuple[Lab, Faults]:
    """A settled workload, and from now on faults."""
    lab = Lab(seed=seed)
    lab.apply(obj)
    lab.run()
    faults = Faults(lab.world, seed, until=lab.now + FAULTY, kinds=kinds)
    lab.simulation.send = faults.send
    lab.simulation.parts = [*lab.simulation.parts, faults]
    return lab, faults


def is_ready(raw: Obj) -> bool:
    conditions = (raw.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def images(lab: Lab) -> Counter[str]:
    """Images of pods that are not going away."""
    live = [p for p in lab.pods() if not p["metadata"].get("deletionTimestamp")]
    return Counter(p["spec"]["containers"][0]["image"] for p in live)


def image(name: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [container(image=name)]}}}}


def roll(lab: Lab, obj: Obj, least: int) -> None:
    """Change the image and let time pass; never fewer than `least` pods are ready."""
    lab.patch(obj, image("app:v2"))
    for _ in range(300):
        trace = lab.run(2)
        assert sum(map(is_ready, lab.pods())) >= least
        if trace.quiet:
            break
    assert lab.run().quiet


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cloneset_rollout_becomes_stable(seed: int) -> None:
    web = cloneset(replicas=6, maxUnavailable=2)
    lab, _ = faulty(web, seed)
    roll(lab, web, 4)
    assert images(lab) == {"app:v2": 6}
    assert lab.get(web)["status"]["updatedReadyReplicas"] == 6


@pytest.mark.parametrize("seed", SEEDS)
def test_a_recreating_cloneset_rollout_becomes_stable(seed: int) -> None:
    web = cloneset(replicas=5, maxUnavailable=1, maxSurge=1, podUpdatePolicy="ReCreate")
    lab, _ = faulty(web, seed)
    roll(lab, web, 4)
    assert images(lab) == {"app:v2": 5}


@pytest.mark.parametrize("seed", SEEDS)
def test_a_deployment_rollout_becomes_stable(seed: int) -> None:
    web = deployment(replicas=6, strategy={"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 1}})
    lab, _ = faulty(web, seed)
    roll(lab, web, 5)
    assert images(lab) == {"app:v2": 6}
    assert lab.get(web)["status"]["availableReplicas"] == 6


@pytest.mark.parametrize("kind", list(Fault))
def test_every_fault_alone_strikes_and_is_survived(kind: Fault) -> None:
    web = cloneset(replicas=6, maxUnavailable=2)
    lab, faults = faulty(web, 1, kinds=(kind,))
    roll(lab, web, 4)
    assert faults.tally()[kind] > 0
    assert images(lab) == {"app:v2": 6}


def test_a_seed_repeats_itself() -> None:
    traces = []
    for _ in range(2):
        web = cloneset(replicas=6, maxUnavailable=2)
        lab, faults = faulty(web, 3)
        lab.patch(web, image("app:v2"))
        traces.append((lab.run().lines, tuple(faults.struck)))
    assert traces[0] == traces[1]


def send(kind: Fault) -> tuple[Lab, Faults, str]:
    """One pod created through a fault of that kind; what the sender heard."""
    lab = Lab()
    for seed in range(100):
        faults = Faults(lab.world, seed, until=lab.now + FAULTY, kinds=(kind,))
        obj = {**pod(f"p{seed}"), "metadata": {"name": f"p{seed}", "namespace": SPACE}}
        try:
            faults.send(create(lab.world, obj), lab.now)
            outcome = "created"
        except ApiError as error:
            outcome = error.reason
        if faults.struck:
            return lab, faults, outcome
        lab.delete(obj)
    raise AssertionError("no fault in a hundred seeds")


OUTCOMES = {
    Fault.DROPPED: ("ServiceUnavailable", 0),
    Fault.UNANSWERED: ("Timeout", 1),
    Fault.DUPLICATED: ("created", 1),
    Fault.LATE: ("Timeout", 0),
    Fault.CONFLICT: ("Conflict", 0),
    Fault.THROTTLED: ("TooManyRequests", 0),
    Fault.CRASH: ("ServiceUnavailable", 0),
}


@pytest.mark.parametrize("kind", list(Fault))
def test_what_the_sender_hears_and_what_was_done(kind: Fault) -> None:
    lab, _, outcome = send(kind)
    assert (outcome, len(lab.pods())) == OUTCOMES[kind]


def test_a_late_write_arrives_in_the_end() -> None:
    lab, faults, _ = send(Fault.LATE)
    due = faults.run(lab.world, lab.now)
    assert due is not None
    assert due > lab.now
    faults.run(lab.world, due)
    assert len(lab.pods()) == 1
