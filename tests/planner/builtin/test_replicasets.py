"""Facts of ReplicaSets."""

from __future__ import annotations

import pytest

from gitkruise.planner.builtin.replicasets import REVISION, set_facts


@pytest.mark.parametrize("text", ["", "--5", "1_0", "²", "9" * 5000])
def test_a_revision_that_is_no_number_counts_as_none(text: str) -> None:
    facts = set_facts(
        {"metadata": {"name": "web-1", "annotations": {REVISION: text}}, "spec": {"replicas": 1}}
    )
    assert facts.revision == 0
