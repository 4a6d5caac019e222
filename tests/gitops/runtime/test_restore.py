"""Records of a status branch, read before the units start."""

from __future__ import annotations

from typing import Final

from gitkruise.gitops.runtime.restore import BranchRecords, restored
from gitkruise.gitops.status.serializer import record_files
from tests.gitops.status.test_records import RECORD

FILES: Final = record_files(RECORD)
UNIT: Final = RECORD.unit


def test_a_record_is_read_once_and_given_to_the_unit_that_starts() -> None:
    records = BranchRecords.read(lambda: FILES, [UNIT, "shop/new"], "prod-eu")
    first = records.take(UNIT)
    assert first == restored(FILES, UNIT, "prod-eu")
    assert first[0] is not None
    again = records.take(UNIT)  # a unit that was removed, and is back
    assert (again, again[0] is first[0]) == (first, False)
    assert records.take("shop/new") == (None, {}, frozenset())
