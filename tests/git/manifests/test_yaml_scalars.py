"""Plain words and whole small files read as kubectl's own library reads them, but for this list."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.parsing.yaml_scalars import ambiguity

# What sigs.k8s.io/yaml v1.6.0 makes of each text: JSON, or an error.
RECORDED: Final = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "kubectl_yaml.jsonl").read_text().splitlines()
]
# All that kubectl reads and we refuse, by code, with the reason.
STRICTER: Final[dict[str, tuple[str, set[str]]]] = {
    "GK1003": ("the first of two equal keys would be lost silently",
               {"a: 1\na: 2", 'a: 1\n"a": 2'}),
    "GK1004": ("a key that is no text becomes another one on the way: `on` is true, 0x10 is 16",
               {"y: 1", "on: 1", "1: x", "1.5: x", "true: a\n1: b", "yes: x", "1.0: x", "0x10: x"}),
    "GK1006": ("a number too large for JSON becomes a text", {"a: 1e400"}),
    "GK1007": ("outside int64 clients round, or read a text",
               {"a: 9223372036854775808", "a: -9223372036854775809", "a: 18446744073709551615",
                "a: 18446744073709551616", "a: 123456789012345678901234567890",
                "a: 0xffffffffffffffff", "a: +0xffffffffffffffff", "a: -0xffffffffffffffff"}),
    "GK1008": ("a tag is dropped, or changes what is written",
               {"a: !!binary aGk=", "a: ! 1", "a: !foo 1", "a: !!timestamp 2024-01-01",
                "a: !!set {b}", "a: !"}),
}  # fmt: skip
# All that we read and kubectl refuses.
LOOSER: Final[dict[str, str]] = {
    'a: "\\/"': "every JSON document is YAML, and JSON escapes a slash so",
    "%YAML 1.2\n---\na: y": "the words mean the same in both versions, as read here",
}


def as_api_machinery(digits: str) -> int | float:
    """JSON numbers as the cluster keeps them: int64, or else a float."""
    return int(digits) if -(2**63) <= int(digits) < 2**63 else float(digits)


@pytest.mark.parametrize("row", RECORDED, ids=lambda row: repr(row["yaml"])[1:-1])
def test_reads_as_kubectl_does_or_refuses(row: dict[str, Any]) -> None:
    text = row["yaml"]
    parsed = parse_file(text.encode(), "a.yaml")
    if not parsed.ok:
        code = parsed.findings[0].code
        assert "error" in row or text in STRICTER[code][1]
        return
    assert "json" in row or text in LOOSER
    if "json" in row:
        (document,) = parsed.documents
        expected = json.loads(row["json"], parse_int=as_api_machinery)
        encoded = json.dumps(document.obj, sort_keys=True)
        assert encoded == json.dumps(expected, sort_keys=True)  # not 1 == true == 1.0


def test_every_difference_is_one() -> None:
    recorded = {row["yaml"]: "json" in row for row in RECORDED}
    for code, (_, texts) in STRICTER.items():
        for text in texts:
            assert recorded[text], text
            assert parse_file(text.encode(), "a.yaml").findings[0].code == code
    assert all(not recorded[text] for text in LOOSER)


@pytest.mark.parametrize(
    ("text", "surprises"),
    [("no", True), ("Y", True), ("1_000", True), ("089", True), ("true", False), ("0644", False),
     ("nginx", False), ("22:22", False), ("10", False), ("1.5", False), ("null", False)],
)  # fmt: skip
def test_words_people_read_otherwise_are_noted(text: str, surprises: bool) -> None:
    assert bool(ambiguity(text)) is surprises
