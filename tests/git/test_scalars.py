"""Plain words and whole small files read as kubectl's own library read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gitkruise.git.documents import parse_file
from gitkruise.git.scalars import ambiguity

RECORDED = [
    json.loads(line)
    for line in (Path(__file__).parent / "data" / "kubectl_yaml.jsonl").read_text().splitlines()
]
# Where we refuse on purpose what that library takes: numbers JSON clients lose, keys that are not
# text, doubled keys, foreign tags.
STRICTER = {"GK1003", "GK1004", "GK1006", "GK1007", "GK1008"}


def as_api_machinery(digits: str) -> int | float:
    """JSON numbers as the cluster keeps them: int64, or else a float."""
    return int(digits) if -(2**63) <= int(digits) < 2**63 else float(digits)


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: row["yaml"])
def test_reads_as_kubectl_does_or_refuses(row: dict[str, Any]) -> None:
    parsed = parse_file(row["yaml"].encode(), "a.yaml")
    if not parsed.ok:
        assert "error" in row or parsed.findings[0].code in STRICTER
        return
    (document,) = parsed.documents
    expected = json.loads(row["json"], parse_int=as_api_machinery)
    told = json.dumps(document.obj, sort_keys=True)
    assert told == json.dumps(expected, sort_keys=True)  # tells 1 from true and from 1.0


@pytest.mark.parametrize(
    ("text", "surprises"),
    [("no", True), ("Y", True), ("1_000", True), ("089", True), ("true", False), ("0644", False),
     ("nginx", False), ("22:22", False), ("10", False), ("1.5", False), ("null", False)],
)  # fmt: skip
def test_words_people_read_otherwise_are_noted(text: str, surprises: bool) -> None:
    assert bool(ambiguity(text)) is surprises
