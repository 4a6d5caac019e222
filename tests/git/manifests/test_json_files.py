"""JSON files are read by JSON's own rules, with line and column."""

from __future__ import annotations

import pytest

from gitkruise.git.parsing.documents import parse_file

WRONG = [
    ("{'a': 1}", 'JSON quotes with " only', "1:2"),
    ('{"a": [1, 2}', "'}' closes nothing", "1:12"),
    ('{"a":', "it ends in the middle", "1:6"),
    ('{"a" 1}', "':' is missing before this", "1:6"),
    ("[1 2]", "',' or the end is missing before this", "1:4"),
    ('{"kind": "Pod", "a": 01}', "01 needs double quotes", "1:22"),
    ('{"a": 01}', "*** needs double quotes", "1:7"),
    ('{"a": "x', "this quote is never closed", "1:7"),
    ('{"a": nul}', "*** needs double quotes", "1:7"),
    ("}", "'}' closes nothing", "1:1"),
    (",", "',' is not expected here", "1:1"),
    ('{"a": 1,\n}', "'}' is too early, there is a comma before it", "2:1"),
    ('{"a": # x\n 1}', "JSON has no comments", "1:7"),
    ('{"a": "\\q"}', "unknown escape", "1:7"),
]


@pytest.mark.parametrize(("text", "says", "where"), WRONG, ids=[row[0] for row in WRONG])
def test_bad_json_is_reported_in_words(text: str, says: str, where: str) -> None:
    (finding,) = parse_file(text.encode(), "a.json").findings
    assert (finding.code, finding.message) == ("GK1101", f"this is not valid JSON: {says}")
    assert str(finding.places[0]) == f"a.json:{where}"


@pytest.mark.parametrize(
    ("text", "code"),
    [("[" * 30_000, "GK9002"), ('{"a": Infinity}', "GK1006"), ('{"a": 1e999}', "GK1006"),
     (f'{{"a": {2**63}}}', "GK1007"), ('{"a": "\\ud800"}', "GK1001"), ('{"a":1,"a":1}', "GK1003"),
    ],
    ids=["deep", "infinity", "huge", "int64", "surrogate", "twice"],
)  # fmt: skip
def test_bad_values_have_the_codes_of_yaml(text: str, code: str) -> None:
    assert [f.code for f in parse_file(text.encode(), "a.json").findings] == [code]


def test_several_values_are_several_documents() -> None:
    parsed = parse_file(b'{"a": 1}\n{"b": "\\ud83d\\ude00\\/"}\n', "a.json")
    assert [(d.obj, d.line) for d in parsed.documents] == [({"a": 1}, 1), ({"b": "😀/"}, 2)]


@pytest.mark.parametrize("text", ["{a: 1, b}", '{"a": b}\n---\n{"c": 1}\n', "[x]"])
def test_flow_yaml_is_not_taken_for_json(text: str) -> None:
    assert parse_file(text.encode(), "a.yaml").ok
