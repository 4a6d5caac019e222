"""The index of a repository of charts: one chart's versions are read, the rest is skipped."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from gitkruise.git.helm.index import entries_of

INDEX = """\
apiVersion: v1
generated: 2026-11-26T00:00:00Z
entries:
  other:
    - {version: 9.9.9, urls: [other.tgz], annotations: {a: [b, {c: d}]}}
  web:
    - version: 1.10
      digest: abc
      created: 2026-11-26
      dependencies: &d [{name: database, version: 2.x}]
      urls:
        - https://charts.example/web-1.10.tgz
    - {version: "2.0.0", urls: [web.tgz], dependencies: *d, maintainers: [{name: x}]}
  website: []
extra: {entries: {web: [{version: 0.0.1}]}}
"""
WEB = [
    {"version": "1.10", "digest": "abc", "urls": ["https://charts.example/web-1.10.tgz"]},
    {"version": "2.0.0", "urls": ["web.tgz"]},
]


def test_versions_of_one_chart_are_read_as_text() -> None:
    assert entries_of(INDEX.encode(), "web") == (WEB, [])


def test_an_index_may_be_json() -> None:
    data = json.dumps({"entries": {"web": [{"version": "1.0.0", "x": 1, "urls": ["a"]}]}})
    assert entries_of(data.encode(), "web") == ([{"version": "1.0.0", "urls": ["a"]}], [])


def test_close_names_are_listed_for_a_missing_chart() -> None:
    assert entries_of(INDEX.encode(), "wbe") == ([], ["web"])
    assert entries_of(INDEX.encode(), "zzz") == ([], [])


NONE: list[Any] = [
    b"", b"a", b"- a", b"{}", b"entries: []",
    b"entries: {a", b"? {a: b}\n: c", b"entries: {[a]: b}",
    b"a: [1", b"\xff\xfe\x00", b"entries: {web: [" + b"[" * 50 + b"]" * 50 + b"]}",
]  # fmt: skip


@pytest.mark.parametrize("data", NONE)
def test_what_is_no_index_is_an_error(data: bytes) -> None:
    with pytest.raises((ValueError, yaml.YAMLError)):
        entries_of(data, "web")


def test_aliases_are_not_expanded() -> None:
    levels = ["a0: &a0 [x, x]"]
    levels += [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    text = "\n".join(levels) + "\nentries: {web: [{version: 1.0.0, urls: *a39}]}\n"
    assert entries_of(text.encode(), "web") == ([{"version": "1.0.0", "urls": None}], [])
