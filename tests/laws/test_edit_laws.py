"""Edits of people's manifests change what was asked and nothing else, however they are written."""

from __future__ import annotations

from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.git.edit.copy_field import graft
from gitkruise.git.edit.set_field import edit_field
from gitkruise.git.parsing.documents import parse_file
from gitkruise.model.gitops.document import Document
from gitkruise.model.gitops.gate import strategy_path
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.paths import get, put

WEB = ObjectKey("apps.kruise.io", "CloneSet", "", "web")
TEMPLATE = ("spec", "template")
COMMENTS = st.sampled_from(["", "  # why", " # ä: {x} - 60%", "   #"])
LINES = st.sampled_from(["", "# a line of its own", "    # indented", "\t"])
PARTITIONS = st.sampled_from([0, 3, 28, "60%", "5%", '"60%"', "'7%'", "0", None])
WANTED = st.one_of(st.integers(0, 400), st.integers(0, 100).map("{}%".format))
IMAGES = st.sampled_from(["app:v1", '"app:v2"', "'registry.example.com:5000/a/b@sha256:abc'"])


@st.composite
def layouts(draw: st.DrawFn) -> dict[str, Any]:
    """How one person writes YAML."""
    return {
        "step": draw(st.sampled_from([2, 4, 3])),
        "dash": draw(st.booleans()),  # lists indented below their key
        "end": draw(st.sampled_from(["\n", "\r\n"])),
        "bom": draw(st.sampled_from(["", "\ufeff"])),
        "head": draw(st.sampled_from(["", "---", "# top\n---", "apiVersion: v1\nkind: A\n---"])),
        "tail": draw(st.sampled_from(["", "---\nkind: Other\nmetadata: {name: web}", "# end"])),
        "strategy_first": draw(st.booleans()),
        "beta": draw(st.booleans()),
        "anchored": draw(st.booleans()),
        "last_newline": draw(st.booleans()),
    }


@st.composite
def manifests(draw: st.DrawFn, layout: dict[str, Any], *, env: int | None = None) -> str:
    """A CloneSet written in that layout, with comments here and there."""
    pad = " " * layout["step"]
    dash = pad if layout["dash"] else ""
    count = draw(st.integers(0, 3)) if env is None else env
    spec = [
        f"replicas: 10{draw(COMMENTS)}",
        "selector:",
        f"{pad}matchLabels: {'&l ' if layout['anchored'] else ''}{{app: web}}",
    ]
    template = ["template:", f"{pad}metadata:{draw(COMMENTS)}",
                f"{pad * 2}labels: {'*l' if layout['anchored'] else '{app: web}'}",
                f"{pad}spec:", f"{pad * 2}containers:",
                f"{pad * 2}{dash}- name: app{draw(COMMENTS)}",
                f"{pad * 2}{dash}  image: {draw(IMAGES)}{draw(COMMENTS)}"]  # fmt: skip
    if count:
        template.append(f"{pad * 2}{dash}  env:")
        template += [
            f"{pad * 2}{dash}    - {{name: E{n}, value: '{draw(st.integers(0, 9))}'}}"
            for n in range(count)
        ]
    inner = [f"maxUnavailable: 2{draw(COMMENTS)}"]
    partition = draw(PARTITIONS)
    if partition is not None:
        inner.insert(draw(st.integers(0, 1)), f"partition: {partition}{draw(COMMENTS)}")
    strategy = ["updateStrategy:"]
    if layout["beta"]:
        strategy += [f"{pad}rollingUpdate:", *(f"{pad * 2}{line}" for line in inner)]
    else:
        strategy += [f"{pad}{line}" for line in inner]
    blocks = [strategy, template] if layout["strategy_first"] else [template, strategy]
    version = "v1beta1" if layout["beta"] else "v1alpha1"
    lines = [*layout["head"].split("\n")] if layout["head"] else []
    lines += [f"apiVersion: apps.kruise.io/{version}", "kind: CloneSet", "metadata:",
              f"{pad}name: web", "spec:"]  # fmt: skip
    for line in [*spec, *blocks[0], *blocks[1]]:
        note = draw(LINES) if draw(st.integers(0, 5)) == 0 else None
        lines += [note] if note is not None and "\t" not in note else []
        lines.append(pad + line)
    lines += layout["tail"].split("\n") if layout["tail"] else []
    end: str = layout["end"]
    return str(layout["bom"]) + end.join(lines) + (end if layout["last_newline"] else "")


def lines_of(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True)


@given(st.data(), layouts(), WANTED)
def test_a_field_is_one_line_and_the_rest_stays_byte_for_byte(
    data: st.DataObject, layout: dict[str, Any], wanted: int | str
) -> None:
    before = data.draw(manifests(layout)).encode()
    document = next(d for d in parse_file(before, "a.yaml").documents if d.obj.get("spec"))
    for field, value in (("partition", wanted), ("paused", True)):
        path = strategy_path(document, field)
        after = edit_field(before, "a.yaml", WEB, path, value)
        old, new = lines_of(before), lines_of(after)
        if get(document.obj, *path) is None and "partition" not in path:
            assert len(new) == len(old) + 1
            kept = [line for line in new if line in old]
            assert kept == old
        elif len(new) == len(old):
            assert sum(a != b for a, b in zip(old, new, strict=True)) <= 1
        made = [d.obj for d in parse_file(after, "a.yaml").documents]
        assert put(document.obj, path, value) in made
        theirs = [d for d in yaml.safe_load_all(after.decode().removeprefix("\ufeff")) if d]
        assert value in {get(d, *path) for d in theirs if d.get("spec")}


@given(st.data(), layouts())
def test_a_template_goes_back_as_it_was_written_and_the_rest_stays(
    data: st.DataObject, layout: dict[str, Any]
) -> None:
    old = data.draw(manifests(layout)).encode()
    new = data.draw(manifests(layout)).encode()
    before, after = (
        next(d for d in parse_file(text, "a.yaml").documents if d.obj.get("spec"))
        for text in (old, new)
    )
    made = graft(new, "a.yaml", WEB, TEMPLATE, old)
    found = next(d for d in parse_file(made, "a.yaml").documents if d.obj.get("spec"))
    assert found.obj == put(after.obj, TEMPLATE, get(before.obj, *TEMPLATE))
    head = lines_of(new)[: after.marks[TEMPLATE].key.line - 1]  # type: ignore[union-attr]  # it has one
    assert lines_of(made)[: len(head)] == head
    tail = lines_of(new)[_end(new, after) :]
    assert lines_of(made)[len(made.splitlines()) - len(tail) :] == tail


def _end(data: bytes, document: Document) -> int:
    """How many lines there are up to the template's last."""
    key = document.marks[TEMPLATE].key
    assert key is not None
    lines = data.decode().removeprefix("\ufeff").splitlines()
    last = key.line
    for number in range(key.line, len(lines)):
        text = lines[number]
        if text.strip() and not text.strip().startswith("#"):
            if len(text) - len(text.lstrip()) < key.column:
                break
            last = number + 1
    return last
