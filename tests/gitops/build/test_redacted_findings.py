"""Refusals by an API server: of a Secret no value is repeated, of other objects all words are."""

from __future__ import annotations

import pytest

from gitkruise.errors import (
    ApiError,
    Cause,
    Finding,
    Forbidden,
    InternalError,
    InvalidObject,
    StatusDetails,
)
from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.build.desired import desired_of
from gitkruise.gitops.reconcile.rejections import refusal
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.document import Desired

HUNTER = "hunter2-correct-horse"


def desired(text: str) -> Desired:
    (document,) = parse_file(text.encode(), "a.yaml").documents
    found, findings = desired_of(document, load_catalog(), "shop")
    assert found is not None, findings
    return found


SECRET = f"apiVersion: v1\nkind: Secret\nmetadata: {{name: a}}\nstringData: {{k: {HUNTER}}}\n"
CLAIM = f"apiVersion: db.io/v1\nkind: Db\nmetadata: {{name: a}}\nspec: {{password: {HUNTER}}}\n"
PLAIN = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}\n"
INVALID = InvalidObject(
    f'Secret "a" is invalid: data[k]: Invalid value: "{HUNTER}": too short',
    StatusDetails(
        causes=(Cause("data[k]", "FieldValueInvalid", f'Invalid value: "{HUNTER}": too short'),)
    ),
)
OF_A_CLAIM = InvalidObject(
    f'Db "a" is invalid: spec.password: Invalid value: "{HUNTER}": too short',
    StatusDetails(
        causes=(Cause("spec.password", "FieldValueInvalid", f'Invalid value: "{HUNTER}"'),)
    ),
)
DENIED = Forbidden(f'admission webhook "w" denied the request: {HUNTER} is weak')
_POLICY = f"ValidatingAdmissionPolicy 'p' with binding 'b' denied request: {HUNTER} is weak"
BY_POLICY = InvalidObject(
    f'secrets "a" is forbidden: {_POLICY}', StatusDetails(causes=(Cause("", "", _POLICY),))
)
NO_ROOM = Forbidden('secrets "a" is forbidden: exceeded quota: q, requested: count/secrets=1')
RIGHTS = Forbidden('secrets "a" is forbidden: User "me" cannot patch resource "secrets"')
ROWS = [
    ("invalid", SECRET, INVALID, "Secret shop/a: data[k]: the value is not valid"),
    ("a field of a custom resource", CLAIM, OF_A_CLAIM, "spec.password: the value is not valid"),
    ("denied", SECRET, DENIED, 'admission webhook "w" denied the request'),
    (
        "denied by a policy",
        SECRET,
        BY_POLICY,
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request",
    ),
    ("no room", SECRET, NO_ROOM, "exceeded quota: q"),
    ("no rights", SECRET, RIGHTS, 'User "me" cannot patch resource "secrets"'),
    ("an error", SECRET, InternalError(f"cannot store {HUNTER}"), "refused: InternalError"),
    ("no secret", PLAIN, Forbidden("quota of pods exceeded"), "quota of pods exceeded"),
]


@pytest.mark.parametrize(("text", "error", "says"), [r[1:] for r in ROWS], ids=[r[0] for r in ROWS])
def test_a_refusal_names_fields_and_rules(text: str, error: ApiError, says: str) -> None:
    finding = refusal(desired(text), error)
    assert says in finding.message
    assert HUNTER not in repr(finding)


def test_a_denied_secret_is_no_missing_right() -> None:
    assert refusal(desired(SECRET), DENIED).code == "GK2102"
    needed = [label for label, _ in refusal(desired(SECRET), NO_ROOM).notes]
    assert needed == ["unchanged", "next"]


@pytest.mark.parametrize(
    "text",
    [
        f"https://me:{HUNTER}@git.example.com/shop.git", f"http://{HUNTER}@git.example.com",
        f"-----BEGIN RSA PRIVATE KEY-----\n{HUNTER}", f"run --token={HUNTER}",
    ],
)  # fmt: skip
def test_a_finding_has_no_secret_of_known_form(text: str) -> None:
    finding = Finding(code="GK1", message=f"cannot read {text}", notes=(("git said", text),))
    assert HUNTER not in repr(finding)
    assert "***" in finding.message
