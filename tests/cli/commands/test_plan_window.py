"""A plan in a narrow window: every line fits, and no reason is cut off."""

from __future__ import annotations

import pytest

from tests.cli.calls import Caller
from tests.cli.shop import Checkout, cloneset


@pytest.mark.parametrize("width", [60, 80, 200])
def test_the_reason_of_a_stuck_rollout_is_there_to_its_end(
    gk: Caller, checkout: Checkout, width: int
) -> None:
    """Its pods have the name and a hash as a label, of 63 characters at most."""
    checkout.commit("one", {"c.yaml": cloneset()})
    checkout.commit("two", {"d.yaml": cloneset(name="a" * 60)})
    ended = gk("plan", cwd=checkout.folder, COLUMNS=str(width))
    assert "must be no more than 63 bytes" in " ".join(ended.out.split())
    assert all(len(line) <= width for line in ended.out.splitlines())
