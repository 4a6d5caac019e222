"""No object that the API admits stops a loop of the cluster. `make fuzz` draws many more."""

from __future__ import annotations

from random import Random  # noqa: TID251  drawn from a seed

import pytest

from gitkruise.model.workloads.feature_gates import parse_gates
from tests.admitted import SPACE, Admitting
from tests.any_object import play
from tests.worlds import Lab, pod

OBJECTS = 250
KINDS_MIN = 30
TRIES = 5


@pytest.mark.slow
def test_no_object_reaches_the_log() -> None:
    admitted, exceptions = play(1, OBJECTS)
    assert exceptions == []
    assert len([kind for kind in admitted if "/" not in kind]) >= KINDS_MIN
    assert admitted["Pod/status"] > OBJECTS / 20


def test_objects_of_every_kind_are_admitted() -> None:
    lab = Lab(gates=parse_gates("AllAlpha=true"))
    made = pod("p")
    lab.apply({**made, "metadata": {"name": "p", "namespace": SPACE}})
    lab.run(60)
    drawn = Admitting(lab.world, Random(1))
    kinds = drawn.kinds
    admitted = {
        kind.kind
        for kind in kinds
        if any(drawn.create(kind, lab.now) is not None for _ in range(TRIES))
    }
    assert {kind.kind for kind in kinds} - admitted == set()
