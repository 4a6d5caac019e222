"""Rules that say which text may be a secret, wherever and however it is written."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.gitops.status.observer import drift_records
from gitkruise.model.gitops.change import ChangeKind, FieldChange, ObjectChange
from gitkruise.planner.report.redaction import covered
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.secret_names import concealed, keeps_secret

KEEPS: list[tuple[Any, bool]] = [
    ({"spec": {"password": "x"}}, True),
    ({"spec": {"password": {"zq0": 2}}}, True),
    ({"spec": {"passwords": ["x"]}}, True),
    ({"spec": {"tokens": {"ci": {"x-1": 1}}}}, True),
    ({"spec": {"args": ["--password=x"]}}, True),
    ({"spec": {"imagePullSecrets": [{"name": "x1"}]}}, False),
    ({"spec": {"secret": {"secretName": "x1", "items": [{"key": "a", "path": "b"}]}}}, False),
    ({"spec": {"serviceAccountToken": {"path": "x", "expirationSeconds": 3600}}}, False),
    ({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "x1", "key": "y"}}}]}, False),
    ({"rules": [{"resources": ["secrets"]}]}, False),
]


@pytest.mark.parametrize(("obj", "keeps"), KEEPS)
def test_an_object_keeps_a_secret_by_the_names_of_its_fields(obj: Any, *, keeps: bool) -> None:
    assert keeps_secret(obj) == keeps


def test_keys_below_a_secret_field_are_hidden_in_paths() -> None:
    assert concealed(("spec", "password", "zq0", 1)) == ("spec", "password", "***", 1)
    assert concealed(("spec", "secret", "secretName")) == ("spec", "secret", "secretName")
    assert concealed(("data", "zq0")) == ("data", "zq0")


PATHS: list[tuple[tuple[str | int, ...], bool]] = [
    (("spec", "password"), True),
    (("spec", "passwords", 0), True),
    (("spec", "tokens", "ci"), True),
    (("spec", "credentials", 0, "value"), True),
    (("spec", "imagePullSecrets", 0, "name"), False),
    (("spec", "volumes", 0, "secret", "secretName"), False),
    (("spec", "replicas"), False),
]


@pytest.mark.parametrize(("path", "hidden"), PATHS)
def test_changes_and_drift_below_a_secret_field_show_no_value(
    path: tuple[str | int, ...], *, hidden: bool
) -> None:
    field = FieldChange(path=path, before="hunter2", after="hunter3")
    change = ObjectChange(
        kind=ChangeKind.CONFIGURE, key=ObjectKey("db.io", "D", "shop", "x"),
        before={"spec": {}}, after={"spec": {}}, fields=(field,),
    )  # fmt: skip
    (shown,) = covered(change, bytes(32))
    assert ("hunter" not in f"{shown.before} {shown.after}") == hidden
    (record,) = drift_records([change])
    assert ((record.git, record.live) == ("(hidden)", "(hidden)")) == hidden
    assert ("hunter" not in f"{record.git} {record.live}") == hidden
