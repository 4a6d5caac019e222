"""The API server reads base64 with line breaks, and stores it on one line."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.base64_text import with_stored_bytes

WRAPPED, STORED = "aGVsbG8g\nd29ybGQ=\n", "aGVsbG8gd29ybGQ="
ADMISSION = "admissionregistration.k8s.io/v1"


def hook(text: str) -> Any:
    return [{"name": "a", "clientConfig": {"caBundle": text, "url": WRAPPED}}, {"name": "b"}]


def conversion(text: str) -> Any:
    return {"group": "x", "conversion": {"webhook": {"clientConfig": {"caBundle": text}}}}


@pytest.mark.parametrize(
    ("api_version", "kind", "field", "of"),
    [
        ("v1", "Secret", "data", lambda text: {"a": text, "b": "no base64"}),
        ("v1", "ConfigMap", "binaryData", lambda text: {"a": text}),
        (ADMISSION, "MutatingWebhookConfiguration", "webhooks", hook),
        (ADMISSION, "ValidatingWebhookConfiguration", "webhooks", hook),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", "spec", conversion),
        ("apiregistration.k8s.io/v1", "APIService", "spec", lambda text: {"caBundle": text}),
        ("certificates.k8s.io/v1", "CertificateSigningRequest", "spec", lambda t: {"request": t}),
    ],
)
def test_bytes_are_stored_on_one_line(api_version: str, kind: str, field: str, of: Any) -> None:
    obj: Obj = {"apiVersion": api_version, "kind": kind, "other": WRAPPED}
    assert with_stored_bytes({**obj, field: of(WRAPPED)}) == {**obj, field: of(STORED)}


@pytest.mark.parametrize("spec", [None, "text", [], {"caBundle": 1}, {"caBundle": None}])
def test_what_is_no_text_stays(spec: Any) -> None:
    obj = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "spec": spec}
    assert with_stored_bytes(obj) == obj


def test_kinds_of_others_stay() -> None:
    obj = {"apiVersion": "example.com/v1", "kind": "Secret", "data": {"a": WRAPPED}}
    assert with_stored_bytes(obj) == obj
