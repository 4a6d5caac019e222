"""Names and uids: derived from seed and version, never random; and the validation of names."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final

from gitkruise.errors import Problem
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.world.store.store import ObjectStore

SAFE_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"  # what generated names are made of
SUFFIX_LENGTH: Final = 5
GENERATED_BASE_MAX: Final = 58  # 63 less the suffix
INVALID: Final = "FieldValueInvalid"

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = _LABEL + r"(\." + _LABEL + ")*"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"

_SUBDOMAIN_RE: Final = re.compile(_SUBDOMAIN)
_LABEL_RE: Final = re.compile(_LABEL)
_LABEL_1035_RE: Final = re.compile(_LABEL_1035)
_NAME_RE: Final = re.compile(_NAME)


def new_uid(state: ObjectStore, *, dry_run: bool = False, ticket: str = "") -> str:
    """The uid of what the next commit creates, in the form of a random UUID.

    A dry run gets a uid that no object ever has. A request with its own `ticket` always gets the
    same uid, regardless of the commits in between.
    """
    seed = f"{'dry-' * dry_run}uid/{state.seed}/{ticket or state.version + 1}"
    digest = bytearray(hashlib.sha256(seed.encode()).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x40
    digest[8] = digest[8] & 0x3F | 0x80
    text = digest.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def generated_name(state: ObjectStore, base: str, attempt: int, *, ticket: str = "") -> str:
    """`base` and five characters of the safe alphabet, as generateName makes them."""
    seed = f"name/{state.seed}/{ticket or state.version + 1}/{attempt}/{base}".encode()
    digest = hashlib.sha256(seed).digest()
    letters = (SAFE_ALPHABET[byte % len(SAFE_ALPHABET)] for byte in digest[:SUFFIX_LENGTH])
    return base[:GENERATED_BASE_MAX] + "".join(letters)


def check_name(kind: Kind, name: str, *, prefix: bool = False) -> str:
    """Return the problem of a name, or ""; a `prefix` (generateName) may end in "-"."""
    rule = _RULES.get(kind.group_kind, _GROUP_RULES.get(kind.group, subdomain))
    return rule(re.sub(r"-$", "a", name) if prefix else name)


def subdomain(name: str) -> str:
    """DNS-1123 subdomain, the rule for most names."""
    if len(name) > 253:
        return "must be no more than 253 bytes"
    if _SUBDOMAIN_RE.fullmatch(name):
        return ""
    return (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', and must start and end with an alphanumeric character (e.g. "
        f"'example.com', regex used for validation is '{_SUBDOMAIN}')"
    )


def label(name: str) -> str:
    """DNS-1123 label, the rule for namespaces."""
    if "." in name:
        return "must not contain dots"
    if len(name) > 63:
        return "must be no more than 63 bytes"
    if _LABEL_RE.fullmatch(name):
        return ""
    return (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or "
        "'-', and must start and end with an alphanumeric character (e.g. 'my-name',  or "
        f"'123-abc', regex used for validation is '{_LABEL}')"
    )


def label_1035(name: str) -> str:
    """DNS-1035 label, the rule for services."""
    if len(name) > 63:
        return "must be no more than 63 bytes"
    if _LABEL_1035_RE.fullmatch(name):
        return ""
    return (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start "
        "with an alphabetic character, and end with an alphanumeric character (e.g. "
        f"'my-name',  or 'abc-123', regex used for validation is '{_LABEL_1035}')"
    )


def path_segment(name: str) -> str:
    """The rule for RBAC names: anything that is one segment of a path."""
    if name in (".", ".."):
        return f"may not be '{name}'"
    found = [mark for mark in "/%" if mark in name]
    return f"may not contain '{found[0]}'" if found else ""


_RULES: Final[Mapping[GroupKind, Callable[[str], str]]] = {
    GroupKind("", "Namespace"): label,
    GroupKind("", "Service"): label_1035,
    GroupKind("policy", "PodDisruptionBudget"): path_segment,  # no stricter rule is checked
}
_GROUP_RULES: Final[Mapping[str, Callable[[str], str]]] = {
    "rbac.authorization.k8s.io": path_segment
}


@lru_cache(maxsize=4096)
def qualified_name(text: str) -> str:
    """Return the problem of a label or annotation key, or ""."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return _QUALIFIED
    if slash and not prefix:
        return "prefix part must be non-empty"
    if slash and subdomain(prefix):
        return "prefix part " + subdomain(prefix)
    if not name:
        return "name part must be non-empty"
    if len(name) > 63:
        return "name part must be no more than 63 bytes"
    return "" if _NAME_RE.fullmatch(name) else "name part " + _NAME_RULE


_NAME_RULE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex "
    f"used for validation is '{_NAME}')"
)
_QUALIFIED: Final = (
    "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must "
    "start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
    f"'123-abc', regex used for validation is '{_NAME}') with an optional DNS subdomain "
    "prefix and '/' (e.g. 'example.com/MyName')"
)


@lru_cache(maxsize=4096)
def label_value(text: str) -> str:
    """Return the problem of a label's value, or ""."""
    if len(text) > 63:
        return "must be no more than 63 bytes"
    if not text or _NAME_RE.fullmatch(text):
        return ""
    return (
        "a valid label must be an empty string or consist of alphanumeric characters, '-', "
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  "
        "or 'my_value',  or '12345', regex used for validation is "
        "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )


def wrong(path: tuple[str | int, ...], shown: str, why: str) -> Problem:
    """An invalid-value problem in the server's form."""
    return Problem(path, INVALID, f"Invalid value: {shown}: {why}")
