"""Values of Secrets taken out of sentences before anybody can read them."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from gitkruise.errors import Finding
from gitkruise.wire.names import Obj

VEIL: Final = "***"
_FIELDS: Final = ("data", "stringData")


def veil(finding: Finding, secret: Obj) -> Finding:
    """`finding` without any value that the Secret `secret` holds, in any of its spellings."""
    words = sorted(set(_spellings(secret)), key=lambda word: (-len(word), word))

    def clean(text: str) -> str:
        for word in words:
            text = text.replace(word, VEIL)
        return text

    return replace(
        finding,
        message=clean(finding.message),
        places=tuple(replace(p, label=clean(p.label)) for p in finding.places),
        notes=tuple((label, clean(text)) for label, text in finding.notes),
    )


def _spellings(secret: Obj) -> Iterator[str]:
    for field in _FIELDS:
        entries = secret.get(field)
        for value in entries.values() if isinstance(entries, dict) else ():
            for text in _written(value):
                yield from {text, json.dumps(text)[1:-1], repr(text)[1:-1]} - {""}


def _written(value: Any) -> Iterator[str]:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    yield text
    if isinstance(value, str):
        yield base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()
        try:
            yield base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            return
