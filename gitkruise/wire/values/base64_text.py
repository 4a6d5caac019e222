"""Base64 as Go reads and writes it: line breaks in it mean nothing, and are not written back.

kustomize and `base64` wrap long values; the API server stores them on one line.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from gitkruise.wire.primitives.names import Obj

_BREAKS: Final = str.maketrans("", "", "\r\n")
_WEBHOOKS: Final = ("webhooks", "*", "clientConfig", "caBundle")
_FIELDS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {  # of bytes
    ("", "Secret"): ("data", "*"),
    ("", "ConfigMap"): ("binaryData", "*"),
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): _WEBHOOKS,
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): _WEBHOOKS,
    ("apiextensions.k8s.io", "CustomResourceDefinition"): (
        "spec", "conversion", "webhook", "clientConfig", "caBundle",
    ),
    ("apiregistration.k8s.io", "APIService"): ("spec", "caBundle"),
    ("certificates.k8s.io", "CertificateSigningRequest"): ("spec", "request"),
}  # fmt: skip


def decoded(text: str) -> bytes:
    """Return the bytes in a base64 text. Raises ValueError for other text."""
    return base64.b64decode(text.translate(_BREAKS), validate=True)


def with_stored_bytes(obj: Obj) -> Obj:
    """Return an object with its base64 as the API server stores it: that of Secrets, ConfigMaps and
    certificates of servers. What is no base64 stays."""
    group, _, _ = str(obj.get("apiVersion") or "").rpartition("/")
    path = _FIELDS.get((group, str(obj.get("kind"))))
    return _rewritten(obj, path) if path is not None else obj


def _rewritten(value: Any, path: tuple[str, ...]) -> Any:
    """Return `value` with the texts at `path` as stored; `*` is every key, or every item."""
    if not path:
        return _stored(value)
    step, rest = path[0], path[1:]
    if isinstance(value, list) and step == "*":
        return [_rewritten(item, rest) for item in value]
    if not isinstance(value, dict):
        return value
    return {k: _rewritten(v, rest) if step in {k, "*"} else v for k, v in value.items()}


def _stored(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64encode(decoded(value)).decode()
    except ValueError:
        return value
