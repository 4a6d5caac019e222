"""Deliveries of each forge: how they are authenticated, and which repository and refs moved.

Headers and bodies are those of the forges' public documentation of web hooks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from urllib.parse import parse_qs

import msgspec

from gitkruise.wire.primitives.json_text import decode_problem

KEY_MIN: Final = 16  # characters of a shared key
WHSEC: Final = "whsec_"  # GitLab's signing tokens, in the form of Standard Webhooks
CLOCKS_APART_S: Final = 300
SIGNATURES_MAX: Final = 8
FORM: Final = "application/x-www-form-urlencoded"
_FORM_FORGES: Final = frozenset({"github", "gitea", "forgejo"})
_REFS_MAX: Final = 1_000


class Headers(Protocol):
    """Headers of a request, case-insensitive; aiohttp's and any other such mapping."""

    def __contains__(self, key: object, /) -> bool: ...

    def getall(self, key: str) -> list[str]: ...


@dataclass(frozen=True, slots=True)
class Push:
    """Addresses of the repository that was pushed to, and full refs that moved (() if untold)."""

    urls: tuple[str, ...]
    refs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PayloadFormat:
    """`signatures` are looked for in order, and the first that is there alone decides. `events`
    are the values of the header `event` that mean a push; the generic hook has no such header."""

    signatures: tuple[str, ...]
    deliveries: tuple[str, ...]
    read: Callable[[bytes], Push]
    prefix: str = ""
    event: tuple[str, ...] = ()
    events: frozenset[str] = frozenset()
    pulls: frozenset[str] = frozenset()  # events of a pull request


def sole(headers: Headers, name: str) -> str:
    """A header's value, "" when it is missing or given twice."""
    found = headers.getall(name) if name in headers else []
    return found[0] if len(found) == 1 else ""


def authentic(kind: str, keys: Sequence[str], headers: Headers, body: bytes, now: datetime) -> bool:
    """Return whether the sender knows one of the keys. Comparisons take constant time."""
    if kind == "gitlab":
        found = [_gitlab(key, headers, body, now) for key in keys]
        return any(found)
    forge = FORGES[kind]
    name = next((n for n in forge.signatures if n in headers), "")
    given = sole(headers, name).encode("utf-8", "surrogateescape") if name else b""
    found = [hmac.compare_digest(given, signature(forge.prefix, key, body)) for key in keys]
    return any(found)


def signature(prefix: str, key: str, body: bytes) -> bytes:
    """HMAC-SHA256 over the raw body, in lower-case hex behind `prefix`."""
    return (prefix + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()).encode()


def _gitlab(key: str, headers: Headers, body: bytes, now: datetime) -> bool:
    """A signing token signs id, time and body; a classic secret token is sent as it is."""
    if not key.startswith(WHSEC):
        given = sole(headers, "X-Gitlab-Token").encode("utf-8", "surrogateescape")
        return hmac.compare_digest(hashlib.sha256(given).digest(), _sha256(key))
    name, at = sole(headers, "webhook-id"), sole(headers, "webhook-timestamp")
    fresh = at.isascii() and at.isdigit() and len(at) < 16
    if not (name and fresh and abs(int(at) - now.timestamp()) <= CLOCKS_APART_S):
        return False
    signed = f"{name}.{at}.".encode("utf-8", "surrogateescape") + body
    digest = hmac.new(signing_key(key), signed, hashlib.sha256).digest()
    right = b"v1," + base64.b64encode(digest)
    given_all = sole(headers, "webhook-signature").split(" ")[:SIGNATURES_MAX]
    found = [hmac.compare_digest(g.encode("utf-8", "surrogateescape"), right) for g in given_all]
    return any(found)


def _sha256(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def signing_key(token: str) -> bytes:
    """The bytes of a GitLab signing token. Raises ValueError when it is none."""
    try:
        return base64.b64decode(token.removeprefix(WHSEC), validate=True)
    except binascii.Error as error:
        raise ValueError(str(error)) from error


def delivery_of(kind: str, headers: Headers) -> str:
    """The id the forge gave this delivery; "" without one."""
    return next(filter(None, (sole(headers, n)[:200] for n in FORGES[kind].deliveries)), "")


def is_push(kind: str, headers: Headers) -> bool:
    """Return whether the event moves refs."""
    return not FORGES[kind].event or _event(kind, headers) in FORGES[kind].events


def is_pull(kind: str, headers: Headers) -> bool:
    """Return whether the event is about a pull request."""
    return _event(kind, headers) in FORGES[kind].pulls


def _event(kind: str, headers: Headers) -> str:
    return next(filter(None, (sole(headers, name) for name in FORGES[kind].event)), "")


def read_push(kind: str, content_type: str, body: bytes) -> Push:
    """Return the pushed refs. Raises ValueError for a body that this forge does not send."""
    return _read(FORGES[kind].read, kind, content_type, body)


def read_pull(kind: str, content_type: str, body: bytes) -> Push:
    """The repository of a pull request, and no ref. Raises ValueError as `read_push` does."""
    return _read(_read_repository, kind, content_type, body)


def _read(read: Callable[[bytes], Push], kind: str, content_type: str, body: bytes) -> Push:
    if content_type == FORM and kind in _FORM_FORGES:
        try:
            fields = parse_qs(body.decode("ascii"), strict_parsing=True, max_num_fields=4)
        except UnicodeDecodeError as error:
            raise ValueError("the form is not ASCII") from error
        body = fields.get("payload", [""])[0].encode("utf-8", "surrogateescape")
    try:
        push = read(body)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise ValueError(decode_problem(error)) from error
    return Push(tuple(filter(None, push.urls)), push.refs[:_REFS_MAX])


class _Repository(msgspec.Struct):
    clone_url: str = ""
    ssh_url: str = ""
    html_url: str = ""


class _Push(msgspec.Struct):
    """GitHub's, Gitea's and Forgejo's."""

    ref: str
    repository: _Repository


def _read_push(body: bytes) -> Push:
    push = msgspec.json.decode(body, type=_Push)
    urls = push.repository
    return Push((urls.clone_url, urls.ssh_url, urls.html_url), (push.ref,))


class _Project(msgspec.Struct):
    git_http_url: str = ""
    git_ssh_url: str = ""
    web_url: str = ""


class _GitlabPush(msgspec.Struct):
    ref: str
    project: _Project


def _read_gitlab(body: bytes) -> Push:
    push = msgspec.json.decode(body, type=_GitlabPush)
    urls = push.project
    return Push((urls.git_http_url, urls.git_ssh_url, urls.web_url), (push.ref,))


class _PushFields(msgspec.Struct):
    """Fields that all forges share; GitLab calls a repository a project."""

    repository: _Repository = msgspec.field(default_factory=_Repository)
    project: _Project = msgspec.field(default_factory=_Project)


def _read_repository(body: bytes) -> Push:
    payload = msgspec.json.decode(body, type=_PushFields)
    repository, project = payload.repository, payload.project
    urls = (repository.clone_url, repository.ssh_url, repository.html_url)
    return Push((*urls, project.git_http_url, project.git_ssh_url, project.web_url), ())


class _Link(msgspec.Struct):
    href: str = ""


class _Links(msgspec.Struct):
    html: _Link = msgspec.field(default_factory=_Link)
    clone: list[_Link] = []


class _BitbucketRepository(msgspec.Struct):
    links: _Links = msgspec.field(default_factory=_Links)


class _Tip(msgspec.Struct):
    type: str
    name: str


class _RefChange(msgspec.Struct):
    """Change of a ref: old and new target from the Cloud, `ref_id` from the Data Center."""

    new: _Tip | None = None
    old: _Tip | None = None
    ref_id: str = msgspec.field(default="", name="refId")


class _Changes(msgspec.Struct):
    changes: list[_RefChange] = []


class _BitbucketPush(msgspec.Struct):
    repository: _BitbucketRepository
    push: _Changes = msgspec.field(default_factory=_Changes)  # the Cloud's
    changes: list[_RefChange] = []  # the Data Center's


_SPACES: Final[Mapping[str, str]] = {"branch": "refs/heads/", "tag": "refs/tags/"}


def _read_bitbucket(body: bytes) -> Push:
    payload = msgspec.json.decode(body, type=_BitbucketPush)
    links = payload.repository.links
    refs = [change.ref_id for change in payload.changes]
    for change in payload.push.changes:
        tip = change.new or change.old
        if tip is not None and tip.type in _SPACES:
            refs.append(_SPACES[tip.type] + tip.name)
    urls = (links.html.href, *(link.href for link in links.clone))
    return Push(urls, tuple(filter(None, refs)))


class _Generic(msgspec.Struct):
    repository: str = ""
    refs: list[str] = []


def _read_generic(body: bytes) -> Push:
    payload = msgspec.json.decode(body or b"{}", type=_Generic)
    return Push((payload.repository,), tuple(payload.refs))


_PULL: Final = frozenset({"pull_request", "pull_request_sync"})
FORGES: Final[Mapping[str, PayloadFormat]] = {
    "github": PayloadFormat(
        ("X-Hub-Signature-256",), ("X-GitHub-Delivery",), _read_push, "sha256=",
        ("X-GitHub-Event",), frozenset({"push"}), _PULL | {"merge_group"},
    ),
    "gitea": PayloadFormat(
        ("X-Gitea-Signature",), ("X-Gitea-Delivery",), _read_push, "",
        ("X-Gitea-Event",), frozenset({"push"}), _PULL,
    ),
    "forgejo": PayloadFormat(
        ("X-Forgejo-Signature", "X-Gitea-Signature"), ("X-Forgejo-Delivery", "X-Gitea-Delivery"),
        _read_push, "", ("X-Forgejo-Event", "X-Gitea-Event"), frozenset({"push"}), _PULL,
    ),
    "gitlab": PayloadFormat(
        (), ("webhook-id", "Idempotency-Key", "X-Gitlab-Event-UUID"), _read_gitlab, "",
        ("X-Gitlab-Event",), frozenset({"Push Hook", "Tag Push Hook"}),
        frozenset({"Merge Request Hook"}),
    ),
    "bitbucket": PayloadFormat(
        ("X-Hub-Signature",), ("X-Request-UUID", "X-Request-Id"), _read_bitbucket, "sha256=",
        ("X-Event-Key",), frozenset({"repo:push", "repo:refs_changed"}),
    ),
    "generic-hmac": PayloadFormat(("X-Signature",), ("X-Delivery",), _read_generic, "sha256="),
}  # fmt: skip
