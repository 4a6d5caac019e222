"""The diff of an edit shows the places of secrets, and none of their values."""

from __future__ import annotations

from contextlib import closing

import pytest

from gitkruise.git.edit.edit_diff import edit_diff
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin

WEB = """\
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web}
spec:
  template:
    spec:
      containers:
        - name: web
          image: app:v1
          args: ["--password=canary-arg1", "--db=postgres://u:canary-url1@h/db", --verbose]
          env:
            - name: DB_PASSWORD
              value: "canary \\"env1\\""
            - {name: API_TOKEN, value: 'canary ''tok1'}
            - {name: LEVEL, value: plain1}
            - {name: TLS_PRIVATE_KEY, value: "canary-one1
                canary-two1"}
            - name: APP_PASSPHRASE
              value: |
                canary-three1
                canary-four1
          envFrom:
            - secretRef: {name: web-secrets1}
"""
SECRET = """\
---
apiVersion: v1
kind: Secret
metadata: {name: db}
stringData: {a: canary-data1}
data: {b: Y2FuYXJ5LWRhdGEx}
"""


def lines(origin: Origin, before: str, after: str, context: int = 3) -> list[str]:
    commit = origin.commit({"web.yaml": before})
    with closing(Repository.open(str(origin.bare))) as repository:
        files = {"web.yaml": after.encode()}
        return list(edit_diff(repository, commit, files, context=context))


@pytest.mark.parametrize("text", [WEB, WEB + SECRET, SECRET.removeprefix("---\n") + "---\n" + WEB])
def test_values_of_secrets_are_hidden(origin: Origin, text: str) -> None:
    shown = lines(origin, text, text.replace("1", "2").replace("v2alpha2", "v1alpha1"), 30)
    whole = "\n".join(shown)
    assert "canary" not in whole
    assert "Y2FuYXJ5" not in whole
    for sign, number in (("-", 1), ("+", 2)):
        assert f"{sign}          image: app:v{number}" in shown
        assert f'{sign}          args: ["•••", "•••", --verbose]' in shown
        assert f"{sign}            - {{name: LEVEL, value: plain{number}}}" in shown
        assert f"{sign}            - {{name: API_TOKEN, value: '•••'}}" in shown
        assert f"{sign}            - secretRef: {{name: web-secrets{number}}}" in shown


def test_values_around_a_changed_line_are_hidden(origin: Origin) -> None:
    shown = lines(origin, WEB, WEB.replace("plain1", "plain2"))
    assert '               value: "•••"' in shown
    assert "canary" not in "\n".join(shown)


def test_short_values_are_hidden_where_their_line_names_them(origin: Origin) -> None:
    text = "kind: CloneSet\nspec:\n  replicas: 1\n  adminPassword: 1\n  token: abc\n  flag: abc\n"
    shown = lines(origin, text, text.replace("1", "2"))
    assert [line for line in shown if line[0] in "+-"][2:] == [
        "-  replicas: 1", "-  adminPassword: •••", "+  replicas: 2", "+  adminPassword: •••",
    ]  # fmt: skip
    assert shown[-2:] == ["   token: •••", "   flag: abc"]
