"""Selectors select what kube-apiserver selects and print as it prints."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import BadRequest
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.values.selectors import (
    NOTHING,
    Op,
    Requirement,
    Selector,
    label_selector,
    parse_field_selector,
    parse_label_selector,
)

WEB = {"app": "web", "tier": "front", "ring": "3", "empty": ""}

LABELS: list[tuple[str, str, bool]] = [  # selector, canonical, matches WEB
    ("", "", True),
    ("app=web", "app=web", True),
    ("app==web", "app==web", True),
    ("app = db", "app=db", False),
    ("app!=web", "app!=web", False),
    ("zone!=a", "zone!=a", True),
    ("tier in (back, front)", "tier in (back,front)", True),
    ("tier in (b,a,b)", "tier in (a,b)", False),
    ("tier notin (front)", "tier notin (front)", False),
    ("zone notin (a)", "zone notin (a)", True),
    ("app", "app", True),
    ("zone", "zone", False),
    ("!zone", "!zone", True),
    ("! app", "!app", False),
    ("empty=", "empty=", True),
    ("zone=", "zone=", False),
    ("empty in (,x)", "empty in (,x)", True),
    ("ring>2", "ring>2", True),
    ("ring > 3", "ring>3", False),
    ("ring<4", "ring<4", True),
    ("app<4", "app<4", False),
    ("tier,app=web", "app=web,tier", True),
    ("in in (in)", "in in (in)", False),
    ("a.b/c=d", "a.b/c=d", False),
]


@pytest.mark.parametrize(("text", "canonical", "matches"), LABELS)
def test_label_selector_strings(text: str, canonical: str, matches: bool) -> None:
    selector = parse_label_selector(text)
    assert str(selector) == canonical
    assert selector.matches(WEB) is matches
    assert parse_label_selector(canonical) == parse_label_selector(str(selector))


BAD_LABELS: list[tuple[str, str]] = [
    ("a b", "found 'b', expected: in, notin"),
    ("a in b", "found 'b', expected: '\\('"),
    ("a in (b", "expected: ',' or '\\)'"),
    ("=a", "expected: !, identifier, or 'end of string'"),
    ("a,,b", "expected: identifier"),
    ("a=b,", "expected: identifier"),
    ("x/y/z=a", "name part must consist"),
    ("a" * 64, "name part must consist"),
    ("a=b c", "found 'c', expected: ',' or the end"),
    ("a=-b", "a valid label must be"),
    ("a=" + "b" * 64, "a valid label must be"),
    ("a>b", "must be an integer"),
    ("a=" + "b," * 40_000, "longer than 65536"),
]


@pytest.mark.parametrize(("text", "words"), BAD_LABELS, ids=[row[0][:12] for row in BAD_LABELS])
def test_bad_label_selector(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_label_selector(text)


OBJECTS: list[tuple[Any, str, bool]] = [
    ({}, "", True),
    ({"matchLabels": {"tier": "front", "app": "web"}}, "app=web,tier=front", True),
    (
        {
            "matchLabels": {"app": "web"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["b", "a"]}],
        },
        "app=web,tier in (a,b)",
        False,
    ),
    (
        {"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]},
        "zone notin (a)",
        True,
    ),
    ({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, "app", True),
    (
        {"matchExpressions": [{"key": "app", "operator": "DoesNotExist", "values": []}]},
        "!app",
        False,
    ),
]


@pytest.mark.parametrize(("obj", "canonical", "matches"), OBJECTS)
def test_label_selector_objects(obj: Any, canonical: str, matches: bool) -> None:
    selector = label_selector(obj)
    assert str(selector) == canonical
    assert selector.matches(WEB) is matches


def test_a_missing_selector_matches_nothing() -> None:
    assert label_selector(None) is NOTHING
    assert not NOTHING.matches({})
    assert Selector().matches(None)
    assert bool(NOTHING)
    assert not Selector()


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ({"key": "a", "operator": "Is"}, "not a valid label selector operator"),
        ({"key": "a", "operator": "In"}, "must be specified when `operator` is 'In'"),
        ({"key": "a", "operator": "Exists", "values": ["x"]}, "must not be specified"),
        ({"key": "a b", "operator": "Exists"}, "name part"),
    ],
)
def test_bad_label_selector_object(expression: Any, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        label_selector({"matchExpressions": [expression]})


POD = {
    "metadata": {"name": "web-1", "namespace": "shop"},
    "spec": {"nodeName": "n1"},
    "status": {"phase": "Running"},
}
FIELDS: list[tuple[str, str, bool]] = [
    ("", "", True),
    ("metadata.name=web-1", "metadata.name=web-1", True),
    ("status.phase==Running,spec.nodeName!=n2", "spec.nodeName!=n2,status.phase=Running", True),
    ("spec.nodeName=", "spec.nodeName=", False),
    ("status.podIP=", "status.podIP=", True),
    ("spec.hostNetwork=false", "spec.hostNetwork=false", True),
    ("metadata.name=a\\,b\\=c", "metadata.name=a\\,b\\=c", False),
]


@pytest.mark.parametrize(("text", "canonical", "matches"), FIELDS)
def test_field_selectors(text: str, canonical: str, matches: bool) -> None:
    selector = parse_field_selector(text).checked(GroupKind("", "Pod"))
    assert str(selector) == canonical
    assert selector.matches(POD) is matches


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        (
            "status.phase=a",
            GroupKind("apps.kruise.io", "CloneSet"),
            "field label not supported: status.phase",
        ),
        ("spec.replicas=1", GroupKind("", "Pod"), "field label not supported: spec.replicas"),
        ("metadata.name", GroupKind("", "Pod"), "can't understand it"),
        ("metadata.name=a=b", GroupKind("", "Pod"), "unescaped"),
        ("metadata.name=a\\b", GroupKind("", "Pod"), "unescaped"),
    ],
)
def test_bad_field_selector(text: str, kind: GroupKind, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_field_selector(text).checked(kind)


def test_events_are_found_by_what_they_are_about() -> None:
    event = {"involvedObject": {"kind": "Pod", "name": "web-1"}, "source": {"component": "kubelet"}}
    selector = parse_field_selector(
        "involvedObject.kind=Pod,involvedObject.name=web-1,source=kubelet"
    )
    assert selector.checked(GroupKind("", "Event")).matches(event)
    assert selector.required("involvedObject.name") == "web-1"
    assert parse_field_selector("metadata.name!=a").required("metadata.name") is None


names = st.text("ab1", min_size=1, max_size=3)
requirements = st.one_of(
    st.builds(Requirement, names, st.sampled_from([Op.EQUALS, Op.NOT_EQUALS]), st.tuples(names)),
    st.builds(Requirement, names, st.sampled_from([Op.EXISTS, Op.NOT_EXISTS])),
    st.builds(
        lambda key, op, values: Requirement(key, op, tuple(sorted(values))),
        names,
        st.sampled_from([Op.IN, Op.NOT_IN]),
        st.sets(names, min_size=1, max_size=3),
    ),
)
selectors = st.lists(requirements, max_size=4).map(lambda found: Selector(tuple(found)))


@given(selectors, st.dictionaries(names, names, max_size=4))
def test_law_a_printed_selector_selects_the_same(
    selector: Selector, labels: dict[str, str]
) -> None:
    again = parse_label_selector(str(selector))
    assert again.matches(labels) == selector.matches(labels)
    assert str(again) == str(selector)


@given(st.text("ab=!()<>, in", max_size=12))
def test_law_any_text_is_a_selector_or_a_bad_request(text: str) -> None:
    try:
        selector = parse_label_selector(text)
    except BadRequest:
        return
    assert parse_label_selector(str(selector)).matches({}) == selector.matches({})
