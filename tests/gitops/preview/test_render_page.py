"""Manifests as unified diffs for a page: what changed, and no secret."""

from __future__ import annotations

import json
from typing import Any

from gitkruise.gitops.preview.render_page import ENTRIES_MAX, LINES_MAX, diff_document
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.wire.primitives.names import Obj, key_of

VALUE = "hunter2"


def secret(password: str, **data: str) -> Obj:
    last = json.dumps({"data": {"password": VALUE}})
    about = {"name": "db", "namespace": "shop", "labels": {"app": "db"},
             "annotations": {"last-applied": last}}  # fmt: skip
    values = {"password": password, **data}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "Opaque",
            "stringData": values}  # fmt: skip


def config_map(name: str, **data: str) -> Obj:
    about = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


def change(before: Obj | None, after: Obj | None) -> ObjectChange:
    kind = ChangeKind.CONFIGURE
    if before is None or after is None:
        kind = ChangeKind.PRUNE if after is None else ChangeKind.CREATE
    known = after or before
    assert known is not None
    return ObjectChange(kind=kind, key=key_of(known), before=before, after=after, source="a.yaml:1")


def lines(*changes: ObjectChange) -> list[str]:
    return [line for entry in diff_document(changes)["entries"] for line in entry["lines"]]


def test_a_manifest_is_compared_line_by_line() -> None:
    found = diff_document([change(config_map("a", x="1", y="2"), config_map("a", x="1", y="3"))])
    (entry,) = found["entries"]
    assert (entry["name"], entry["change"]) == ("~ ConfigMap shop/a", "configure")
    assert (entry["added"], entry["removed"], entry["moreLines"]) == (1, 1, 0)
    assert [line for line in entry["lines"] if line[0] in "+-"] == ["-  y: '2'", "+  y: '3'"]
    assert "   x: '1'" in entry["lines"]


def test_what_comes_and_goes_is_there_as_a_whole() -> None:
    created, gone = lines(change(None, config_map("a"))), lines(change(config_map("b"), None))
    assert "+kind: ConfigMap" in created
    assert "-kind: ConfigMap" in gone
    assert {line[0] for line in created + gone} == {"+", "-", "@"}


def test_no_value_of_a_secret_is_in_a_diff() -> None:
    before, after = secret(VALUE, same=VALUE), secret("hunter3", same=VALUE)
    for found in (lines(change(before, after)), lines(change(None, before))):
        text = "\n".join(found)
        assert "hunter" not in text
        assert "password: •••" in text
        assert "type: Opaque" in text
    changed = [line for line in lines(change(before, after)) if line[0] in "+-"]
    assert [line.partition(":")[0] for line in changed] == ["-  password", "+  password"]


def test_values_that_look_secret_are_covered_elsewhere() -> None:
    env: list[Any] = [{"name": "DB_PASSWORD", "value": VALUE}, {"name": "MODE", "value": "fast"}]
    pod: Obj = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "shop"},
                "spec": {"containers": [{"name": "a", "env": env}]}}  # fmt: skip
    text = "\n".join(lines(change(None, pod)))
    assert VALUE not in text
    assert "value: fast" in text


def test_more_than_a_page_takes_is_counted() -> None:
    long = config_map("a", **{f"k{n:04}": "x" for n in range(LINES_MAX + 5)})
    (entry,) = diff_document([change(None, long)])["entries"]
    assert len(entry["lines"]) + entry["moreLines"] == entry["added"] + 1
    assert len(entry["lines"]) == LINES_MAX
    many = [change(None, config_map(f"n{n}")) for n in range(ENTRIES_MAX + 2)]
    assert diff_document(many)["moreEntries"] == 2


def test_an_object_that_is_the_same_is_left_out() -> None:
    same = ObjectChange(
        kind=ChangeKind.UNCHANGED, key=key_of(config_map("a")), before=config_map("a"),
        after=config_map("a"),
    )  # fmt: skip
    assert diff_document([same]) == {"entries": [], "moreEntries": 0}
