"""Rules that say which text may be a secret: by the kind of an object or by a name."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitkruise.redaction import HIDDEN, looks_secret

__all__ = [
    "HIDDEN", "concealed", "holds_secret", "keeps_secret", "looks_secret", "may_hold_secret",
    "names_secret", "path_names_secret", "refers", "shows_secret",
]  # fmt: skip

_TELLING: Final = re.compile(
    r"passw(?:or)?d|passphrase|secret|token|credential"
    r"|api[-_.]?key|private[-_.]?key|access[-_.]?key",
    re.IGNORECASE,
)
_REFERRING: Final = re.compile(
    r"(?:names?|refs?|paths?|files?|class|type|policy|mode)\Z", re.IGNORECASE
)
_FIELD: Final = re.compile(r"[a-z][A-Za-z]*")  # of an API, as secretName and audience are
_WORD: Final = re.compile(r"[\w.-]+")
# What a file says, as far as it was read, when it may go on to be a Secret: its kind, one of a
# Secret's fields, the marks of sops, or an escape that could spell any of them.
_MAY_BE_ONE: Final = re.compile(
    r"secret|stringdata|\bdata\b|\bsops\b|\bENC\[|\\[xuU\n]|PRIVATE KEY", re.IGNORECASE
)
_FIELDS: Final = frozenset({"data", "stringdata", "kind"})  # of an object without a kind
_HOLDERS: Final = frozenset({"Kustomization", "Component"})  # generators take literals


def names_secret(name: str) -> bool:
    """Return whether a field or variable of this name holds a secret, not a reference to one."""
    return _TELLING.search(name) is not None and _REFERRING.search(name) is None


def refers(name: str) -> bool:
    """Return whether a field of this name holds a name, a path or a sort, not a value."""
    return _REFERRING.search(name) is not None


def concealed(path: Sequence[str | int]) -> tuple[str | int, ...]:
    """A path for people: below a field called a secret, keys of one's own are hidden."""
    out: list[str | int] = []
    secret = False
    for part in path:
        own = secret and isinstance(part, str) and not _FIELD.fullmatch(part)
        out.append(HIDDEN if own else part)
        secret = secret or (isinstance(part, str) and names_secret(part))
    return tuple(out)


def holds_secret(obj: Any) -> bool:
    """Return whether a parsed document is, lists or generates a Secret, or may become one."""
    if not isinstance(obj, Mapping) or "sops" in obj:
        return True
    kind = obj.get("kind")
    if not isinstance(kind, str) or not kind:
        return any(str(key).casefold() in _FIELDS or names_secret(str(key)) for key in obj)
    if kind in _HOLDERS or kind.casefold().startswith("secret"):
        return True
    items = obj.get("items")
    if kind.endswith("List") and isinstance(items, Sequence):
        return any(holds_secret(item) for item in items)
    return False


def may_hold_secret(text: str, kinds: Sequence[Any]) -> bool:
    """Return whether a file that cannot be read to its end may hold a Secret.

    `kinds` are the kinds of its documents, as far as they were read.
    """
    known = all(isinstance(kind, str) and kind and kind not in _HOLDERS for kind in kinds)
    return not (kinds and known) or _MAY_BE_ONE.search(text) is not None or shows_secret(text)


def shows_secret(text: str) -> bool:
    """Return whether a line of a manifest names a field that holds a secret, or shows one."""
    return any(map(names_secret, _WORD.findall(text))) or looks_secret(text)


def keeps_secret(obj: Any) -> bool:
    """Return whether a field or variable anywhere in `obj` holds a secret in plain text."""
    waiting = [(obj, False)]  # and whether a field above it is called a secret
    while waiting:
        value, secret = waiting.pop()
        if isinstance(value, Mapping):
            if "value" in value and names_secret(str(value.get("name", ""))):
                return True
            if secret and not all(map(_FIELD.fullmatch, map(str, value))):
                return True  # keys of one's own, which may be the secret
            named = [(item, names_secret(str(key))) for key, item in value.items()]
            if any(_is_plain(item, secret=names) for item, names in named):
                return True
            waiting += [(item, secret or names) for item, names in named]
        elif isinstance(value, list | tuple):
            if any(_is_plain(item, secret=secret) for item in value):
                return True
            waiting += [(item, secret) for item in value]
    return False


def _is_plain(value: Any, *, secret: bool) -> bool:
    """Return whether a text or number is a secret, by the name of its field or by its form."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return False
    return secret or looks_secret(str(value))


def path_names_secret(obj: Any, path: Sequence[str | int]) -> bool:
    """Return whether the field at `path` is called a secret by its name or its item's name."""
    if any(isinstance(part, str) and names_secret(part) for part in path):
        return True
    at = obj
    for part in path[:-1]:
        try:
            at = at[part]
        except (KeyError, IndexError, TypeError):
            return False
    named = at.get("name") if isinstance(at, Mapping) else None
    return path[-1:] == ("value",) and isinstance(named, str) and names_secret(named)
