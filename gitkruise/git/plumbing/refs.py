"""Checks of URLs, refs and ids before git gets them, and their display."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from gitkruise.errors import Finding, SourceFailed, UsageProblem
from gitkruise.printable import UNPRINTABLE, shown

PROTOCOLS: Final = frozenset({"https", "ssh", "file"})  # http only where a caller asks for it
_KNOWN: Final = frozenset({"https", "ssh", "file", "http"})
HEADS: Final = "refs/heads/"
_URL_MAX: Final = 2_048
_REF_MAX: Final = 512
_SCP: Final = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_][\w.-]*)@)?(?P<host>[A-Za-z0-9][\w.-]*):(?P<path>[^:]+)"
)
_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\]")
_USER: Final = re.compile(r"[A-Za-z0-9_][\w.+-]*")
_UNSAFE: Final = re.compile(r"[\x00-\x20\x7f]|[^\x00-\x7f]|%0[0-9aAdD]|[\\^{}|`\"<>]")
_QUERY: Final = re.compile(r"\?.*", re.DOTALL)  # no part of an address; may be a token
_OBJECT_ID: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_BAD_REF: Final = re.compile(
    r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(?:/|\Z)|\.\Z|/\Z|\A[/.-]|/-"
)


@dataclass(frozen=True, slots=True)
class Remote:
    """A checked URL. `url` goes to git; a `path` means a repository of this machine."""

    url: str
    protocol: str  # https, http, ssh or file
    host: str = ""
    path: Path | None = None


def parse_url(url: str, *, protocols: Collection[str] = PROTOCOLS) -> Remote:
    """Check `url` by our own rules, before git sees it. Raises SourceFailed GK3001."""
    if not url or len(url) > _URL_MAX:
        raise bad_url(url, "it is empty or too long")
    if url.startswith("-"):
        raise bad_url(url, "it starts with '-'")
    if re.match(r"[A-Za-z0-9+.-]+::", url):
        raise bad_url(url, "remote helpers are not allowed")
    if "://" in url:
        return _with_scheme(url, protocols)
    found = _SCP.fullmatch(url)
    if found and not url.startswith(("/", "./", "../")):
        return _scp_style(url, found["host"], found["path"], protocols)
    if ":" in url.partition("/")[0]:
        raise bad_url(url, "its user or host is not allowed")
    return _local(url, url, protocols)


def _with_scheme(url: str, protocols: Collection[str]) -> Remote:
    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    if scheme not in _KNOWN or scheme not in protocols:
        raise bad_url(url, f"the protocol {scheme} is not allowed")
    if scheme == "file":
        return _local(url, "/" + rest.lstrip("/"), protocols)
    if _UNSAFE.search(url):
        raise bad_url(url, "it has characters a URL cannot have, or that look like others")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise bad_url(url, str(error)) from error
    if parts.password is not None or (parts.username and scheme != "ssh"):
        raise bad_url(url, "it carries credentials; give them as a secret instead")
    netloc_host = f"[{host}]" if ":" in host else host
    if not host or not _HOST.fullmatch(netloc_host) or ".." in host:
        raise bad_url(url, "it has no proper host")
    if port == 0 or (parts.username and not _USER.fullmatch(parts.username)):
        raise bad_url(url, "its user or port is not allowed")
    if parts.path.strip("/") == "" or "/-" in parts.path or parts.query or parts.fragment:
        raise bad_url(url, "its path names no repository")
    return Remote(url, scheme, host)


def _scp_style(url: str, host: str, path: str, protocols: Collection[str]) -> Remote:
    if "ssh" not in protocols:
        raise bad_url(url, "the protocol ssh is not allowed")
    if _UNSAFE.search(url) or path.startswith("-") or path.isdigit():
        raise bad_url(url, "its path is not allowed")
    if "@" not in url:
        raise bad_url(url, "host:path is ambiguous; write ssh://host/path or user@host:path")
    return Remote(url, "ssh", host)


def _local(url: str, path: str, protocols: Collection[str]) -> Remote:
    if "file" not in protocols:
        raise bad_url(url, "repositories of this machine are not allowed here")
    if UNPRINTABLE.search(path):
        raise bad_url(url, "it has control characters")
    return Remote(url, "file", "", Path(path))


def repository_place(url: str) -> tuple[str, str] | None:
    """(host, path), the same for each protocol that leads to a repository."""
    try:
        remote = parse_url(url)
    except SourceFailed:
        return None
    if remote.path is not None:
        path = remote.path.resolve()
        return "", str(path.parent if path.name == ".git" else path).removesuffix(".git")
    _, scheme, rest = url.rpartition("://")
    rest = rest.rpartition("@")[2] if "@" in rest else rest
    path_text = rest.partition("/")[2] if scheme else rest.partition(":")[2]
    return remote.host.lower(), path_text.strip("/").removesuffix(".git")


def bad_url(url: str, why: str) -> SourceFailed:
    return SourceFailed(
        Finding(
            code="GK3001",
            message=f"this git URL cannot be used: {why}",
            notes=(
                ("url", shown(_QUERY.sub("?***", hide_password(url)))),
                ("next", "write https://host/path, ssh://user@host/path or a local path"),
            ),
        )
    )


def hide_password(url: str) -> str:
    """`url` without the secrets it may carry."""
    return re.sub(r"(?<=//)[^/@]*@", lambda m: "***@" if ":" in m[0] else m[0], url)


def full_ref(name: str) -> str:
    """`refs/heads/<name>` for a branch's short name, or the full ref itself. Raises GK3201."""
    ref = name if name.startswith("refs/") else f"refs/heads/{name}"
    if not is_ref(ref) or name in {"", "HEAD", "@"} or is_object_id(name):
        message = f"{shown(name)!r} is not a name for a branch, a tag or a full ref"
        raise SourceFailed(Finding(code="GK3201", message=message))
    return ref


def is_ref(ref: str) -> bool:
    """Return whether `ref` is a full ref by git's rules and ours (no part may start with '-')."""
    return (
        ref.startswith("refs/")
        and ref.count("/") >= 2
        and len(ref) <= _REF_MAX
        and not _BAD_REF.search(ref)
        and not UNPRINTABLE.search(ref)
    )


def is_object_id(text: str) -> bool:
    """A full SHA-1 or SHA-256 id."""
    return bool(_OBJECT_ID.fullmatch(text))


def check_status_branch(branch: str, source: str) -> str:
    """The full ref of a status branch. Raises UsageProblem GK7201 when it is what we read."""
    ref = full_ref(branch)
    if source and ref == full_ref(source):
        message = (
            f"the status branch {shown(branch)} is the source branch; status would trigger syncs"
        )
        next_step = "choose another branch, such as gitkruise/status/<cluster>"
        raise UsageProblem(Finding(code="GK7201", message=message, notes=(("next", next_step),)))
    return ref
