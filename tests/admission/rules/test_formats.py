"""Names, keys and ports are judged by Kubernetes' formats."""

from __future__ import annotations

import pytest

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.labels import annotation_problems, label_problems, selector_problems

ROWS: list[tuple[formats.Format, list[str], list[str]]] = [
    (formats.dns_label, ["a", "a-1", "0", "a" * 63], ["", "-a", "a-", "A", "a.b", "a_b", "a" * 64]),
    (formats.dns_subdomain, ["a", "a.b-c.1", "a" * 253], ["", ".a", "a..b", "A", "a" * 254, "é"]),
    (formats.service_name, ["a", "a-1"], ["1a", "a.b", "A"]),
    (formats.label_value, ["", "a", "A.b_c-1"], ["-a", "a b", "a" * 64, "a/b"]),
    (
        formats.qualified_name,
        ["a", "A_b.c", "a.example/B", "a" * 63],
        ["", "/a", "a/", "a/b/c", "A.x/b", "a b", "a" * 64, "-a"],
    ),
    (formats.port_name, ["http", "a-1", "1a"], ["", "-a", "a-", "a--b", "A", "12", "a" * 16]),
    (formats.env_name, ["A", "_a", "a.b-c"], ["", "1A", "a b", "a=b", ".", "..", "..a"]),
    (formats.relaxed_env_name, ["A", "a b", "1:2", ".."], ["", "a=b", "é", "\t"]),
    (formats.config_key, ["a", ".a", "A_b-c.d"], ["", "a/b", ".", "..", "..a", "a" * 254]),
    (formats.http_header, ["X-A", "a"], ["", "a b", "a:"]),
    (formats.ip, ["1.2.3.4", "::1"], ["", "1.2.3", "a", "1.2.3.4/8"]),
]


@pytest.mark.parametrize(
    ("text_format", "good", "bad"), ROWS, ids=lambda v: getattr(v, "__name__", "")
)
def test_formats(text_format: formats.Format, good: list[str], bad: list[str]) -> None:
    assert [text for text in good if text_format(text)] == []
    assert [text for text in bad if not text_format(text)] == []


def test_a_hostile_name_costs_little() -> None:
    assert formats.dns_subdomain("a" * 1_000_000 + "!")
    assert formats.qualified_name("a." * 500_000 + "!")


def test_labels_and_annotations() -> None:
    at = ("metadata", "labels")
    assert not list(label_problems({"a.b/c": "d", "e": ""}, at))
    assert len(list(label_problems({"a b": "c d"}, at))) == 2
    assert not list(annotation_problems({"a/b": "any text"}, at))
    assert not list(annotation_problems({"UPPER.example/X": ""}, at)), "keys in any case"
    assert list(annotation_problems({"a": "x" * 262144}, at))


@pytest.mark.parametrize(
    ("requirement", "field"),
    [
        ({"key": "a", "operator": "In"}, "s.matchExpressions[0].values"),
        (
            {"key": "a", "operator": "Exists", "values": ["b"]},
            "s.matchExpressions[0].values",
        ),
        ({"key": "a", "operator": "Like"}, "s.matchExpressions[0].operator"),
        ({"key": "a b", "operator": "Exists"}, "s.matchExpressions[0].key"),
        (
            {"key": "a", "operator": "In", "values": ["b c"]},
            "s.matchExpressions[0].values[0]",
        ),
    ],
)
def test_selectors(requirement: dict[str, object], field: str) -> None:
    found = selector_problems({"matchExpressions": [requirement]}, ("s",))
    assert [problem.field for problem in found] == [field]
