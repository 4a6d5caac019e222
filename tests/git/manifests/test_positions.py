"""Every field knows its line and column, and syntax errors are explained in plain words."""

from __future__ import annotations

import dataclasses
import json
import time
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from yaml._yaml import CParser

from gitkruise.errors import SourcePlace
from gitkruise.git.parsing import json_events
from gitkruise.git.parsing.documents import LIMITS, parse_file
from gitkruise.git.parsing.yaml_composer import Composer
from gitkruise.git.parsing.yaml_scalars import INT64_MAX, INT64_MIN

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
    assert document.place(path, key=True, label='did you mean "partition"?') == SourcePlace(
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
    ("a:\n  - 1\n - 2", "this line does not fit the mapping around it", (3, 2),
     "check the indentation here"),
    ("a:\n\tb: 1", "a tab at 2:1 where only spaces may indent", (2, 1), "use spaces"),
    ('a: "\\q"', "an unknown escape in double quotes", (1, 5),
     "write \\\\ for a backslash, or use single quotes"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "says", "where", "label"), SAYINGS, ids=[r[1] for r in SAYINGS])
def test_a_syntax_error_is_reported_in_words(
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


@pytest.mark.slow
@given(OBJECTS)
def test_what_yaml_says_is_read_back(value: dict[str, Any]) -> None:
    rendered = yaml.safe_dump(value, allow_unicode=True, default_style='"', sort_keys=False)
    parsed = parse_file(rendered.encode(), "a.yaml")
    assert [d.obj for d in parsed.documents] == [value]


@pytest.mark.slow
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
    assert hidden == ((11, "  token: ***"),)
    places = [parsed.documents[1].place(("stringData", name)) for name in ("note", "token")]
    assert "canary" not in str([place.snippet for place in places] + list(parsed.findings))


def test_the_end_of_a_file_of_unknown_kind_hides_nothing() -> None:
    (finding,) = parse_file(b"stringData:\n  a: [canary\n", "a.yaml").findings
    assert finding.places[-1].snippet in {(), ((3, ""),)}
    assert "canary" not in str(finding)


FILES = [
    ("a.yaml", FILE),
    ("a.yaml", "# c\n  a: 1\n  b: {c: [d, e]}\n...\n%YAML 1.1\n---\n# x\n- a\n-  b: 2\n"),
    ("a.yaml", "--- |\n text\n---\n---\n\n# only a comment\n---\nk: &a [1]\nl: *a\n--- {m: 1}\n"),
    ("a.yaml", "a: b\n---\n'q': \"r\\\n  s\"\n"),
    ("a.yaml", "é: ü\r\n---\r\n\U0001f600: [ä,\r\n  b]\r\n"),
    ("a.json", '{"a": 1} {"b": [1,\n {"c": 2}]}\n\n {"d": null}'),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), FILES)
def test_positions_of_a_document_are_those_in_the_whole_file(name: str, text: str) -> None:
    """Each is read from its own part of the text alone."""
    documents = parse_file(text.encode(), name).documents
    assert documents
    for document in documents:
        composer = Composer(name, (), LIMITS, marks_of=document.index)
        composer.feed(
            json_events.events(text) if name == "a.json" else iter(CParser(text).get_event, None)
        )
        (whole,) = (root.marks for root in composer.roots if root.index == document.index)
        assert dict(document.marks) == whole


@pytest.mark.slow
def test_positions_of_many_documents_cost_one_reading() -> None:
    """990 documents with a mistake each: as many seconds as hundreds of them took before."""
    text = "".join(
        f"---\nkind: CloneSet\nmetadata: {{name: n{n}}}\nspec: {{replica: 3}}\n" for n in range(990)
    )
    began = time.process_time()
    documents = parse_file(text.encode(), "web.yaml").documents
    lines = [document.place(("spec", "replica"), key=True).line for document in documents]
    assert lines == [4 * n + 4 for n in range(990)]
    assert time.process_time() - began < 5
