"""An edit changes the lines of its field and no other byte, or is refused."""

from __future__ import annotations

import difflib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import InvalidManifests
from gitkruise.git.edit.set_field import edit_field
from gitkruise.git.parsing.documents import parse_file
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.paths import get, put

KEY = ObjectKey("apps.kruise.io", "CloneSet", "shop", "web")
HEAD = "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\nmetadata: {name: web}\n"
FILE = (
    "# head\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name:    x}\ndata:\n   a:   |\n"
    "     text\n---\n"
    + HEAD
    + """spec:
  replicas: 10   # ten
  updateStrategy:
    partition: 60%   # hold
    paused: false
  template:
    spec:
      containers:
      - name: app
        image: "nginx:1.25"    # the image
        args: [ a,   b ]

      - name: log
        image: 'fluent:1'
"""
)
IMAGE = ("spec", "template", "spec", "containers", 0, "image")
SIDE_IMAGE = ("spec", "template", "spec", "containers", 1, "image")


def changed_lines(before: str, after: str) -> list[str]:
    diff = difflib.unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=0)
    return [line for line in list(diff)[2:] if not line.startswith("@@")]


EDITS = [
    (("spec", "updateStrategy", "partition"), "30%",
     ["-    partition: 60%   # hold", "+    partition: 30%   # hold"]),
    (("spec", "updateStrategy", "partition"), 0,
     ["-    partition: 60%   # hold", "+    partition: 0   # hold"]),
    (("spec", "updateStrategy", "paused"), True, ["-    paused: false", "+    paused: true"]),
    (IMAGE, "nginx:1.26",
     ['-        image: "nginx:1.25"    # the image',
      '+        image: "nginx:1.26"    # the image']),
    (SIDE_IMAGE, "fluent:2", ["-        image: 'fluent:1'", "+        image: 'fluent:2'"]),
    (("spec", "updateStrategy", "maxSurge"), "20%", ["+    maxSurge: 20%"]),
    (("spec", "lifecycle", "inPlaceUpdate", "markPodNotReady"), True,
     ["+  lifecycle:", "+    inPlaceUpdate:", "+      markPodNotReady: true"]),
]  # fmt: skip


@pytest.mark.parametrize(("path", "value", "lines"), EDITS, ids=[str(row[0][-1]) for row in EDITS])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["", "bom"])
def test_only_the_field_changes(
    path: tuple[str | int, ...], value: Any, lines: list[str], end: str, mark: str
) -> None:
    before = mark + FILE.replace("\n", end)
    after = edit_field(before.encode(), "web.yaml", KEY, path, value).decode()
    assert changed_lines(before, after) == lines
    assert after.count(end) == before.count(end) + len([x for x in lines if x[0] == "+"]) - len(
        [x for x in lines if x[0] == "-"]
    )


FORMS = [
    ("flow", HEAD + "spec: {updateStrategy: {partition: 5}, replicas: 3}\n",
     "spec: {updateStrategy: {partition: 3}, replicas: 3}"),
    ("flow-new", HEAD + "spec: {updateStrategy: {paused: true}, replicas: 3}\n",
     "spec: {updateStrategy: {partition: 3, paused: true}, replicas: 3}"),
    ("empty", HEAD + "spec: {}\n", "spec: {updateStrategy: {partition: 3}}"),
    ("null", HEAD + "spec:\n  updateStrategy:\n    partition:\n    paused: true\n",
     "    partition: 3"),
    ("octal", HEAD + "spec:\n  mode: 0644\n  say: no\n  updateStrategy:\n    partition: 0x10\n",
     "    partition: 3"),
    ("anchor", HEAD + "spec:\n  updateStrategy:\n    partition: &p 5\n  other: *p\n", ""),
    ("alias", HEAD + "spec:\n  other: &p 5\n  updateStrategy:\n    partition: *p\n",
     "    partition: 3"),
    ("merge", HEAD + "spec:\n  updateStrategy:\n    <<: {partition: 5}\n", ""),
    ("block-text", HEAD + "spec:\n  updateStrategy:\n    partition: |\n      5\n", ""),
    ("namespaced", HEAD.replace("name:", "namespace: other, name:") + "spec: {}\n", ""),
    ("broken", HEAD + "spec: [\n", ""),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), [row[1:] for row in FORMS], ids=[r[0] for r in FORMS])
def test_every_form_is_edited_well_or_refused(text: str, line: str) -> None:
    path = ("spec", "updateStrategy", "partition")
    if not line:
        with pytest.raises(InvalidManifests):
            edit_field(text.encode(), "web.yaml", KEY, path, 3)
        return
    after = edit_field(text.encode(), "web.yaml", KEY, path, 3).decode()
    assert [x for x in changed_lines(text, after) if x[0] == "+"] == [f"+{line}"]


def test_json_files_are_edited_too() -> None:
    text = (
        '{\n  "apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet",\n'
        '  "metadata": {"name": "web"},\n  "spec": {"replicas": 2, "image": "a"}\n}\n'
    )
    more = edit_field(text.encode(), "web.json", KEY, ("spec", "replicas"), 3)
    more = edit_field(more, "web.json", KEY, ("spec", "paused"), True)  # noqa: FBT003  the value
    assert b'{"paused": true, "replicas": 3, "image": "a"}' in more


def test_an_object_in_a_list_is_found() -> None:
    item = "\n".join("  " + line for line in HEAD.splitlines())
    text = f"apiVersion: v1\nkind: List\nitems:\n-{item[1:]}\n  spec:\n    replicas: 1\n"
    after = edit_field(text.encode(), "web.yaml", KEY, ("spec", "replicas"), 2).decode()
    assert changed_lines(text, after) == ["-    replicas: 1", "+    replicas: 2"]


def test_the_same_value_changes_nothing() -> None:
    assert edit_field(FILE.encode(), "web.yaml", KEY, ("spec", "replicas"), 10) == FILE.encode()


@pytest.mark.parametrize("file", ["[" * 30_000, "a: &a [*a]", "a: 1"])
def test_hostile_files_are_refused_before_ruamel_sees_them(file: str) -> None:
    with pytest.raises(InvalidManifests):
        edit_field(file.encode(), "web.yaml", KEY, ("spec", "replicas"), 2)


TRICKY = ["no", "1e3", "0644", "a: b", "- x", "#", "'", '"', "~", "x #y", "*a", "50%", ""]
TEXTS = st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Zl", "Zp", "Cs", "Cn"])
VALUES = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(TEXTS, max_size=30)
    | st.sampled_from(TRICKY)
)
PATHS = st.sampled_from([row[0] for row in EDITS])


@pytest.mark.slow
@given(PATHS, VALUES)
def test_whatever_is_written_is_read_back(path: tuple[str | int, ...], value: Any) -> None:
    after = edit_field(FILE.encode(), "web.yaml", KEY, path, value)
    before, now = (parse_file(data, "web.yaml").documents for data in (FILE.encode(), after))
    assert get(now[1].obj, *path) == value
    assert [d.obj for d in now] == [before[0].obj, put(before[1].obj, path, value)]
    assert len(changed_lines(FILE, after.decode())) <= 3
