"""Positions in a chart's template are those of the file, whatever its actions print."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.git.parsing.documents import Elsewhere
from gitkruise.git.parsing.template_text import without_actions

TEMPLATE = """\
{{- if .Values.enabled }}
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata:
  name: {{ include "web.name" . }}-{{ .Values.kind | default "}}" }}
  labels:
    {{- include "web.labels" . | nindent 4 }}
spec:
  replicas: {{ .Values.replicas }}
  updateStrategy:
    partition: {{ .Values.partition | quote }}
{{- end }}
---
{{/* a "comment" */}}
kind: Other
"""


@pytest.mark.parametrize(
    ("index", "path", "where"),
    [
        (0, ("kind",), "t.yaml:3:7"),
        (0, ("spec", "replicas"), "t.yaml:9:13"),
        (0, ("spec", "updateStrategy", "partition"), "t.yaml:11:16"),
        (0, ("metadata", "labels", "app"), "t.yaml:6:3"),  # nearest written ancestor
        (1, ("kind",), "t.yaml:15:7"),
    ],
)
def test_a_field_of_a_template_is_found(index: int, path: tuple[str, ...], where: str) -> None:
    document = Elsewhere("t.yaml", TEMPLATE.encode).document(
        {}, index=index, line=0, base=(), private=False
    )
    place = document.place(path)
    assert str(place) == where
    assert place.snippet[-1][1] == TEMPLATE.splitlines()[place.line - 1]


ROWS = [
    ("none", "a: {b: {c: 1}}\n", "a: {b: {c: 1}}\n"),
    ("word", "a: {{ .x }}y\n", "a: xxxxxxxxy\n"),
    ("line", "  {{- end }}\r\nb: 1", "            \r\nb: 1"),
    ("lines", "{{ if\n  1 }}\nb: 1", "     \n      \nb: 1"),
    ("text", 'a: {{ "}}" }}', "a: xxxxxxxxxx"),
    ("raw", "a: {{ `}}` }}", "a: xxxxxxxxxx"),
    ("comment", "a: {{/* \" }} */}}", "a: xxxxxxxxxxxxxx"),
    ("open", "a: {{ .x\nb: {{ 1 }}", "a: xxxxx\n          "),
    ("never", "a: {{ .x", "a: {{ .x"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "bare"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_actions_become_words_of_their_length(text: str, bare: str) -> None:
    assert without_actions(text) == bare


@given(st.text(alphabet='{} "`/*-\na:\r', max_size=60))
def test_lines_and_columns_stay(text: str) -> None:
    bare = without_actions(text)
    assert len(bare) == len(text)
    assert [i for i, c in enumerate(bare) if c in "\r\n"] == [
        i for i, c in enumerate(text) if c in "\r\n"
    ]
