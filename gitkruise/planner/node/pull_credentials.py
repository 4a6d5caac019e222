"""Credentials for a pull: the entries of pull secrets whose registry path fits the image.

Source: kubelet's docker keyring, as OpenKruise's node agent uses it (IMG-35): the longest matching
path first, a `*` in a part of the host, and an anonymous pull only when nothing matches.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.images import repository

_FIELDS: Final = {  # type of a secret → its field, and the key in it that holds the registries
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson", "auths"),
    "kubernetes.io/dockercfg": (".dockercfg", ""),
}
_SCHEME: Final = re.compile(r"^https?://")
_VERSION: Final = re.compile(r"^v[12]/?$")
_HUB: Final = "index.docker.io"
_MALFORMED: Final = (KeyError, ValueError, TypeError, AttributeError, binascii.Error)


class BadSecretError(ValueError):
    """A pull secret that cannot be read; the text names the secret and the fault, never a value."""


class Credentials(NamedTuple):
    """A login for pulls of the images below `path`."""

    path: str
    username: str
    password: str


def credentials_for(image: str, secrets: Iterable[Obj]) -> tuple[Credentials, ...]:
    """Return the logins to try for `image`, the one with the longest path first.

    `secrets` are raw Secrets. None matches: the pull is anonymous. Raises BadSecretError.
    """
    return _fitting(image, (login for secret in secrets for login in _logins(secret)))


def login_in(image: str, config: str) -> Credentials | None:
    """Return the login that the text of a Docker configuration has for `image`; None without one,
    and for a text that is no such configuration."""
    try:
        found = _fitting(image, _entries(config, "auths"))
    except _MALFORMED:
        return None
    return found[0] if found else None


def _fitting(image: str, logins: Iterable[Credentials]) -> tuple[Credentials, ...]:
    wanted = repository(image)
    matching = [login for login in logins if _matches(login.path, wanted)]
    return tuple(dict.fromkeys(sorted(matching, key=lambda c: c.path, reverse=True)))


def _logins(secret: Obj) -> Iterator[Credentials]:
    meta, kind = secret["metadata"], secret.get("type") or ""
    who = f"secret {meta.get('namespace', '')}/{meta['name']}"
    if kind not in _FIELDS:
        raise BadSecretError(f"{who}: type {kind or 'Opaque'} holds no registry credentials")
    field, key = _FIELDS[kind]
    try:
        text = base64.b64decode((secret.get("data") or {})[field], validate=True)
        yield from _entries(text.decode(), key)
    except _MALFORMED:
        # the error's own text may quote the secret
        raise BadSecretError(f"{who}: field {field} is missing or malformed") from None


def _entries(text: str, key: str) -> Iterator[Credentials]:
    """Yield the logins of a configuration, whose registries are below `key`. Raises _MALFORMED."""
    document = read_json(text)
    entries: Mapping[str, Any] = (document.get(key) or {}) if key else document
    for registry, entry in entries.items():
        username, password = _login(entry)
        if username or password:
            yield Credentials(_path(registry), username, password)


def _login(entry: Mapping[str, Any]) -> tuple[str, str]:
    """User and password: `auth` (base64 of `user:password`) wins, as in Docker's own client."""
    if auth := entry.get("auth"):
        username, colon, password = base64.b64decode(auth, validate=True).decode().partition(":")
        if not colon:
            raise ValueError("auth holds no colon")
        return username, password.rstrip("\0")
    return str(entry.get("username") or ""), str(entry.get("password") or "")


def _path(registry: str) -> str:
    """Host and path of a key: without scheme and without the version of the registry's API."""
    host, _, path = _SCHEME.sub("", registry).rstrip("/").partition("/")
    rest = "" if _VERSION.match(path) else path
    name = "docker.io" if host == _HUB else host
    return f"{name}/{rest}" if rest else name


def _matches(path: str, repository_name: str) -> bool:
    """Return whether an image is at or below `path`, whose host parts may hold `*`."""
    host, _, prefix = path.partition("/")
    image_host, _, image_path = repository_name.partition("/")
    parts, wanted = host.split("."), image_host.split(".")
    if len(parts) != len(wanted) or not all(map(_part_matches, parts, wanted)):
        return False
    return image_path.startswith(prefix)


def _part_matches(pattern: str, part: str) -> bool:
    """Return whether `part` is `pattern`, where each `*` matches any text."""
    first, *rest = pattern.split("*")
    if not rest:
        return part == pattern
    if not part.startswith(first):
        return False
    at = len(first)
    for text in rest[:-1]:
        found = part.find(text, at)
        if found < 0:
            return False
        at = found + len(text)
    return part.endswith(rest[-1]) and len(part) - at >= len(rest[-1])
