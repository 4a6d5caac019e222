"""Every field knows its line and column, and a syntax error is told in plain words."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import Place
from gitkruise.git.documents import parse_file
from gitkruise.git.scalars import INT64_MAX, INT64_MIN

FILE = """# shop
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
spec:
  updateStrategy:
    partiton: 60%
  template:
    spec:
      containers:
        - name: app
          image: 'nginx:1'   # why
          args: [a, {b: c}]
---
kind: Other
"""


@pytest.mark.parametrize(
    ("path", "key", "where", "length"),
    [
        (("kind",), False, (3, 7), 8),
        (("spec", "updateStrategy", "partiton"), True, (6, 5), 8),
        (("spec", "updateStrategy", "partiton"), False, (6, 15), 3),
        (("spec", "template", "spec", "containers", 0, "image"), False, (11, 18), 9),
        (("spec", "template", "spec", "containers", 0, "args", 1, "b"), False, (12, 25), 1),
        (("spec", "template", "spec", "containers", 0), False, (10, 11), 1),
        (("spec", "replicas"), False, (4, 1), 4),  # not written: the nearest ancestor's key
        ((), False, (2, 1), 1),
    ],
)
def test_a_field_has_its_place(
    path: tuple[str | int, ...], key: bool, where: tuple[int, int], length: int
) -> None:  # fmt: skip
    document = parse_file(FILE.encode(), "web.yaml").documents[0]
    place = document.place(path, key=key)
    assert ((place.line, place.column), place.length) == (where, length)


def test_a_place_shows_its_line_and_the_one_above() -> None:
    document = parse_file(FILE.encode(), "web.yaml").documents[0]
    path = ("spec", "updateStrategy", "partiton")
    assert document.place(path, key=True, label='did you mean "partition"?') == Place(
        file="web.yaml", line=6, column=5, length=8, label='did you mean "partition"?',
        snippet=((5, "  updateStrategy:"), (6, "    partiton: 60%")),
    )  # fmt: skip
    assert document.written(path) == "60%"


def test_the_second_document_has_its_own_places() -> None:
    other = parse_file(FILE.encode(), "web.yaml").documents[1]
    assert (other.index, other.line, other.place(("kind",)).line) == (1, 14, 14)


def test_an_item_of_a_list_is_placed_below_it() -> None:
    text = "kind: List\nitems:\n- kind: A\n- kind: B\n"
    whole = parse_file(text.encode(), "a.yaml").documents[0]
    item = dataclasses.replace(whole, obj=whole.obj["items"][1], base=("items", 1))
    assert item.place(("kind",)).line == 4


SAYINGS = [
    ("        - name: app\n          image:registry.example.com/checkout:v2.4.1\n          a: 1\n",
     "a mapping value is missing its space after ':'", (2, 16), "put a space here"),
    ("spec:\n  image:foo\n  tag: x\n",
     "a mapping value is missing its space after ':'", (2, 8), "put a space here"),
    ("a: 1\nb:2", "a mapping value is missing its space after ':'", (2, 2), "put a space here"),
    ("a: 1\nb\n", "a key without its ':'", (2, 1), "a ':' is missing after this"),
    ("a: b: c", "a second ':' on one line, or a wrong indentation", (1, 5),
     "quote the value, or start a new line"),
    ("a: 'x\nb: 1", "a quote is never closed", (1, 4), "this quote is open"),
    ("a: @x", "a value cannot start with '@'", (1, 4), "quote the value"),
    ("a: {b: 1", "a '{' is not closed, or a ',' is missing", (1, 4), "this is never closed"),
    ("a: {b: 1 c: 2}", "a '{' is not closed, or a ',' is missing", (1, 11),
     "',' or '}' is missing"),
    ("a:\n  - 1\n - 2", "this line does not fit the mapping it stands in", (3, 2),
     "check the indentation here"),
    ("a:\n\tb: 1", "a tab at 2:1 where only spaces may indent", (2, 1), "use spaces"),
    ('a: "\\q"', "an unknown escape in double quotes", (1, 5),
     "write \\\\ for a backslash, or use single quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says", "where", "label"), SAYINGS, ids=[r[1] for r in SAYINGS])
def test_a_syntax_error_is_told_in_words(
    text: str, says: str, where: tuple[int, int], label: str
) -> None:
    (finding,) = parse_file(text.encode(), "a.yaml").findings
    (place,) = finding.places
    assert (finding.code, finding.message) == ("GK1101", f"this is not valid YAML: {says}")
    assert ((place.line, place.column), place.label) == (where, label)


TEXTS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc", "Cf", "Zl", "Zp", "Cn"]),
    max_size=8,
)
SCALARS = st.none() | st.booleans() | st.integers(INT64_MIN, INT64_MAX) | TEXTS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, min_size=1, max_size=4)


@given(OBJECTS)
def test_what_json_says_is_read_back(value: dict[str, Any]) -> None:
    text = json.dumps(value).encode()
    parsed = [parse_file(text, name).documents for name in ("a.json", "a.yaml")]
    assert [[d.obj for d in documents] for documents in parsed] == [[value], [value]]


@given(OBJECTS)
def test_what_yaml_says_is_read_back(value: dict[str, Any]) -> None:
    rendered = yaml.safe_dump(value, allow_unicode=True, default_style='"', sort_keys=False)
    parsed = parse_file(rendered.encode(), "a.yaml")
    assert [d.obj for d in parsed.documents] == [value]


@given(OBJECTS)
def test_every_value_has_a_mark(value: dict[str, Any]) -> None:
    (document,) = parse_file(json.dumps(value, indent=1).encode(), "a.json").documents

    def check(path: tuple[str | int, ...], inner: Any) -> None:
        assert path in document.marks
        pairs = inner.items() if isinstance(inner, dict) else ()
        items = enumerate(inner) if isinstance(inner, list) else pairs
        for step, child in items:
            check((*path, step), child)

    check((), value)


@given(st.binary() | st.text().map(str.encode))
def test_no_bytes_raise(data: bytes) -> None:
    for name in ("a.yaml", "a.json"):
        parsed = parse_file(data, name)
        assert parsed.ok or parsed.findings


def test_values_of_a_secret_are_not_shown() -> None:
    text = (
        "kind: ConfigMap\ndata:\n  a: plain\n  a: plain\n---\nkind: Secret\nstringData:\n"
        "  note: |\n    canary\n  token: canary\n  token: canary\n"
    )
    parsed = parse_file(text.encode(), "a.yaml")
    open_one, hidden = (finding.places[-1].snippet for finding in parsed.findings)
    assert open_one == ((3, "  a: plain"), (4, "  a: plain"))
    assert hidden == ((10, "  token: ***"), (11, "  token: ***"))
    told = [parsed.documents[1].place(("stringData", name)) for name in ("note", "token")]
    assert "canary" not in str([place.snippet for place in told] + list(parsed.findings))
