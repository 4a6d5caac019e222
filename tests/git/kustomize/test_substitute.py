"""`${NAME}` is replaced strictly: typed as it is written, never empty, never leaking."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.git.manifests.substitute import ADDED_MAX, Value, Values, substitute
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.parsing.yaml_scalars import BadScalar, resolve
from gitkruise.model.gitops.document import Document

VALUES = Values(
    known={
        "REGION": Value(text="eu"), "N": Value(text="3"), "NO": Value(text="no"),
        "EMPTY": Value(text=""), "DEEP": Value(text="${REGION}"), "ENV": Value(text="a: b\nc: d"),
        "TOKEN": Value(text="hunter2", secret=True), "HUGE": Value(text="9" * 30),
        "BIG": Value(text="x" * (ADDED_MAX // 2)),
    }
)  # fmt: skip


def document(text: str) -> Document:
    (found,) = parse_file(text.encode(), "a.yaml").documents
    return found


REPLACED: list[tuple[str, str, dict[str, Any]]] = [
    ("text", "a: ${REGION}", {"a": "eu"}),
    ("inside", "a: x-${REGION}-${N}", {"a": "x-eu-3"}),
    ("number", "a: ${N}", {"a": 3}),
    ("quoted", "a: \"${N}\"\nb: '${N}'\nc: !!str ${N}", {"a": "3", "b": "3", "c": "3"}),
    ("anchored", "a: &x ${N}\nb: &y \"${N}\"", {"a": 3, "b": "3"}),
    ("block", "a: |\n  ${N}\n", {"a": "3\n"}),
    ("json", '{"a": "${N}"}', {"a": "3"}),
    ("list", "a:\n- ${N}\n- {b: '${REGION}'}", {"a": [3, {"b": "eu"}]}),
    ("key", "${REGION}: 1", {"eu": 1}),
    ("no structure", "a: ${ENV}", {"a": "a: b\nc: d"}),
    ("once", "a: ${DEEP}", {"a": "${REGION}"}),
    ("default", "a: ${GONE:=7}\nb: ${REGION:=us}\nc: x${GONE:=}y", {"a": 7, "b": "eu", "c": "xy"}),
    ("default for empty", "a: ${EMPTY:=z}\nb: ${EMPTY}", {"a": "z", "b": ""}),
    ("escaped", "a: $${REGION}\nb: $$${N}\nc: $${x%%y}", {"a": "${REGION}", "b": "$${N}",
                                                         "c": "${x%%y}"}),
    ("dollars", "a: $REGION $ $(X) $$", {"a": "$REGION $ $(X) $$"}),
    ("secret", "kind: Secret\na: ${TOKEN}", {"kind": "Secret", "a": "hunter2"}),
    ("opted out", "metadata: {annotations: {gitkruise.io/substitute: Disabled}}\na: ${GONE}",
     {"metadata": {"annotations": {"gitkruise.io/substitute": "Disabled"}}, "a": "${GONE}"}),
    ("opted out for Flux",
     "metadata: {annotations: {kustomize.toolkit.fluxcd.io/substitute: disabled}}\na: ${GONE}",
     {"metadata": {"annotations": {"kustomize.toolkit.fluxcd.io/substitute": "disabled"}},
      "a": "${GONE}"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "obj"), REPLACED, ids=[row[0] for row in REPLACED])
def test_replaced(name: str, text: str, obj: dict[str, Any]) -> None:
    del name
    made, findings = substitute(document(text), VALUES)
    assert (made.obj, findings) == (obj, [])


REFUSED = [
    ("undefined", "a:\n- x ${REGON}", "GK1401", "2:5", "${REGON} is not defined"),
    ("undefined twice on a line", "a: ${N}\nb: ${GONE}", "GK1401", "2:4", "${GONE}"),
    ("in a text of many lines", "a: |\n  one\n  two ${GONE}\n", "GK1401", "3:7", "${GONE}"),
    ("in a key", "b: 1\nx${GONE}: 1", "GK1401", "2:2", "${GONE}"),
    ("other default", "a: ${N:-3}", "GK1402", "1:4", "${N:-3} is neither"),
    ("shell", "a: ${x%%.*}", "GK1402", "1:4", "${x%%.*}"),
    ("open", 'a: "${N"', "GK1402", "1:5", "${N"),
    ("empty name", 'a: "${}"', "GK1402", "1:5", "${}"),
    ("nested", "a: ${N:=${REGION}}", "GK1402", "1:4", "neither"),
    ("a secret elsewhere", "kind: ConfigMap\na: ${TOKEN}", "GK1403", "2:4", "into a ConfigMap"),
    ("keys that meet", "eu: 1\n${REGION}: 2", "GK1404", "2:1", "eu"),
    ("a number out of range", "a: ${HUGE}", "GK1007", "1:4", "out of range"),
    ("values without end", "a: ['${BIG}', '${BIG}', '${BIG}']", "GK9001", "1:", "beyond a limit"),
]


@pytest.mark.parametrize(
    ("text", "code", "where", "says"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED]
)
def test_refused_by_name_and_place(text: str, code: str, where: str, says: str) -> None:
    _, findings = substitute(document(text), VALUES)
    assert {f.code for f in findings if f.is_error} == {code}
    assert str(findings[0].places[0]).startswith(f"a.yaml:{where}")
    assert says in findings[0].message
    assert "hunter2" not in repr(findings)


def test_a_near_name_is_offered_and_the_value_is_not() -> None:
    (finding,) = substitute(document("a: ${TOKN}"), VALUES)[1]
    notes = dict(finding.notes)
    assert notes["did you mean"] == "${TOKEN}"
    assert "write $${TOKN}" in notes["next"]
    assert "hunter2" not in repr(VALUES) + repr(finding)


def test_words_people_read_otherwise_are_noted() -> None:
    made, (finding,) = substitute(document("country: ${NO}"), VALUES)
    assert made.obj == {"country": False}
    assert (finding.code, finding.severity) == ("GK1013", "warning")


def test_what_is_not_strict_stays_as_it_is_written() -> None:
    lenient = Values(known=VALUES.known, strict=False)
    made, findings = substitute(document("a: ${GONE}\nb: ${N:-3}\nc: ${N}"), lenient)
    assert (made.obj, findings) == ({"a": "${GONE}", "b": "${N:-3}", "c": 3}, [])


def test_without_the_cluster_only_its_names_stay_open() -> None:
    partly = Values(known={"N": Value(text="3")}, elsewhere="ConfigMap shop/region", why="gone")
    made, (finding,) = substitute(document("a: ${REGION}\nb: ${N}"), partly)
    assert made.obj == {"a": "${REGION}", "b": 3}
    assert (finding.code, finding.severity) == ("GK1405", "warning")
    assert "ConfigMap shop/region" in finding.message
    assert dict(finding.notes)["why"] == "gone"


def test_a_document_without_names_is_itself() -> None:
    plain = document("a: [b, {c: $d}]")
    assert substitute(plain, VALUES)[0] is plain


@given(st.text(alphabet="aZ_${}:=-0 1.e\n\"'#&*", max_size=40), st.text(max_size=20))
def test_replacement_is_local_and_never_crashes(text: str, value: str) -> None:
    """Texts without `${` are never changed; a whole-word name becomes its value, read once."""
    plain = Document(obj={"a": text, "b": "${V}", "c": "kept"}, file="a.yaml")
    made, findings = substitute(plain, Values(known={"V": Value(text=value)}))
    assert made.obj["c"] == "kept"
    assert made.obj["a"] == text or "${" in text
    try:
        meant = resolve(value) if value else value
    except BadScalar:
        meant = value
        assert findings
    assert made.obj["b"] == meant
