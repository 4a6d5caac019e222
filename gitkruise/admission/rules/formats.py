"""Formats of names, labels, keys and ports; each returns the messages of its violations."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from ipaddress import ip_address
from typing import Final, TypeAlias

Format: TypeAlias = Callable[[str], list[str]]  # no sentence: the text is fine

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_VALUE: Final = f"({_NAME})?"
_ENV: Final = "[-._a-zA-Z][-._a-zA-Z0-9]*"
_SERVICE: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = "[-._a-zA-Z0-9]+"
_HEADER: Final = "[-A-Za-z0-9]+"

LABEL_SENTENCE: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'my-name',  or '123-abc', regex used for validation is '{_LABEL}')"
)
SUBDOMAIN_SENTENCE: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
    "'-' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)
_NAME_SENTENCE: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_SENTENCE: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' "
    "or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_VALUE}')"
)
_ENV_SENTENCE: Final = (
    "a valid environment variable name must consist of alphabetic characters, digits, '_', "
    "'-', or '.', and must not start with a digit (e.g. 'my.env-name',  or 'MY_ENV.NAME',  "
    f"or 'MyEnvName1', regex used for validation is '{_ENV}')"
)
_SERVICE_SENTENCE: Final = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an "
    "alphabetic character, and end with an alphanumeric character "
    f"(e.g. 'my-name',  or 'abc-123', regex used for validation is '{_SERVICE}')"
)
_KEY_SENTENCE: Final = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' "
    f"(e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '{_KEY}')"
)
_HEADER_SENTENCE: Final = (
    "a valid HTTP header must consist of alphanumeric characters or '-' "
    f"(e.g. 'X-Header-Name', regex used for validation is '{_HEADER}')"
)
_QUALIFIED_SENTENCE: Final = (
    f"a qualified name {_NAME_SENTENCE} with an optional DNS subdomain prefix and '/' "
    "(e.g. 'example.com/MyName')"
)
_RELAXED_SENTENCE: Final = (
    "a valid environment variable name must consist only of printable ASCII characters "
    "other than '='"
)
PORT_SENTENCE: Final = "must be between 1 and 65535, inclusive"


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.ASCII)


def _shape(pattern: str, limit: int, sentence: str) -> Format:
    def sentences(text: str) -> list[str]:
        long = [f"must be no more than {limit} bytes"] if len(text.encode()) > limit else []
        return long + ([] if _compiled(pattern).fullmatch(text) else [sentence])

    return sentences


dns_label: Final = _shape(_LABEL, 63, LABEL_SENTENCE)
dns_subdomain: Final = _shape(_SUBDOMAIN, 253, SUBDOMAIN_SENTENCE)
service_name: Final = _shape(_SERVICE, 63, _SERVICE_SENTENCE)
label_value: Final = _shape(_VALUE, 63, _VALUE_SENTENCE)
http_header: Final = _shape(_HEADER, 2**31, _HEADER_SENTENCE)
_name_part: Final = _shape(_NAME, 63, _NAME_SENTENCE)
_strict_env: Final = _shape(_ENV, 2**31, _ENV_SENTENCE)
_config_key: Final = _shape(_KEY, 253, _KEY_SENTENCE)


def qualified_name(text: str) -> list[str]:
    """A label key, a condition type, a resource: `name` or `prefix.example.com/name`."""
    prefix, slash, name = text.rpartition("/")
    if text.count("/") > 1:
        return [_QUALIFIED_SENTENCE]
    out: list[str] = []
    if slash and not prefix:
        out.append("prefix part must be non-empty")
    elif slash:
        out += [f"prefix part {sentence}" for sentence in dns_subdomain(prefix)]
    if not name:
        out.append("name part must be non-empty")
    return out + [f"name part {sentence}" for sentence in _name_part(name)]


def port_name(text: str) -> list[str]:
    """An IANA service name: up to 15 lower case letters, digits and single hyphens."""
    rules = (
        (len(text) <= 15, "must be no more than 15 characters"),
        (
            bool(_compiled("[-a-z0-9]*").fullmatch(text)),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (bool(_compiled("[a-z]").search(text)), "must contain at least one letter (a-z)"),
        ("--" not in text, "must not contain consecutive hyphens"),
        (
            text.strip("-") == text and bool(text),
            "must not begin or end with a hyphen",
        ),
    )
    return [sentence for holds, sentence in rules if not holds]


def env_name(text: str) -> list[str]:
    """An environment variable's name by the old rule, which OpenKruise still has."""
    return _strict_env(text) + _dots(text)


def relaxed_env_name(text: str) -> list[str]:
    """An environment variable's name since Kubernetes 1.34: printable ASCII without `=`."""
    if text and all(" " <= char <= "~" and char != "=" for char in text):
        return []
    return [_RELAXED_SENTENCE]


def config_key(text: str) -> list[str]:
    """A key of a ConfigMap or Secret."""
    return _config_key(text) + _dots(text)


def ip(text: str) -> list[str]:
    try:
        ip_address(text)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def _dots(text: str) -> list[str]:
    if text in {".", ".."}:
        return [f"must not be '{text}'"]
    return ["must not start with '..'"] if text.startswith("..") else []
