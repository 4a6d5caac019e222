"""The journal of changes: as many as its limit promises, and few more."""

from __future__ import annotations

import pytest

from gitkruise.errors import WatchExpired
from tests.worlds import Lab, cloneset

LIMIT = 16


def test_it_keeps_few_more_changes_than_it_hands_out() -> None:
    lab = Lab()
    journal, made = lab.world.state.journal, cloneset(replicas=0)
    lab.apply(made)
    journal.limit = LIMIT
    for number in range(5 * LIMIT):
        lab.patch(made, {"metadata": {"annotations": {"n": str(number)}}})
        assert len(journal.records) <= LIMIT + LIMIT // 8 or journal.base == 0
    version = lab.world.version
    assert [r.version for r in journal.since(version - LIMIT)] == [
        *range(version - LIMIT + 1, version + 1)
    ]
    with pytest.raises(WatchExpired):
        journal.since(version - LIMIT - 1)
