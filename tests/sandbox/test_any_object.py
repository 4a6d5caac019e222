"""No object that the API admits stops a loop of the cluster. `make fuzz` draws many more."""

from __future__ import annotations

from tests.any_object import play

OBJECTS = 250
KINDS_MIN = 30


def test_no_object_reaches_the_log() -> None:
    admitted, exceptions = play(1, OBJECTS)
    assert exceptions == []
    assert len([kind for kind in admitted if "/" not in kind]) >= KINDS_MIN
    assert admitted["Pod/status"] > OBJECTS / 20
