"""The demo prints the transcript in docs/demo.md, except for ids, times, ports and pod names."""

from __future__ import annotations

import pytest

from tests.test_docs import script

pytestmark = pytest.mark.e2e


def test_the_recorded_transcript_is_what_the_demo_prints() -> None:
    record = script("record")
    recorded = record.recorded()
    assert "commit 5" in recorded
    assert record.shape(record.play("10")) == record.shape(recorded), "make docs"
