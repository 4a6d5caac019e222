"""Bases in other repositories: the forms that kustomize knows, and the list that allows them.

A kustomization names a base by a URL with the folder and the ref in it. gitkruise fetches the
repository itself and gives kustomize a folder, so that the program needs no network. A base is
taken from a listed repository only, at a tag or a full commit id: a branch, or no ref, would give
the same commit of the kustomization another meaning tomorrow.
"""

from __future__ import annotations

import posixpath
import re
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from urllib.parse import parse_qsl

from gitkruise.errors import Finding, InvalidManifests, SourceFailed
from gitkruise.git.plumbing.refs import hide_password, is_ref, parse_url, repository_place
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.record import BaseRecord
from gitkruise.printable import shown

BASES: Final = ".remote-bases"  # folder of what is rendered; names that start with a dot are ours
_NAME: Final = re.compile(r"[^\w.]+", re.ASCII)
_LENGTH_MAX: Final = 4_096
_SHORT_ID: Final = 12
_GITHUB: Final = re.compile(r"(?:www\.)?github\.com/", re.IGNORECASE)
_START: Final = re.compile(r"[a-z]+://[^/]*/|[^/:]*:", re.IGNORECASE)  # up to the host
# Where the repository ends: each with the folder as its second group, the first that fits counts.
_ENDS: Final = (
    re.compile(r"(.+?)//+(.*)", re.DOTALL),
    re.compile(r"(.+?\.git)(?:/(.*))?", re.DOTALL),
    re.compile(r"(.+?/_git/[^/]+)(?:/(.*))?", re.DOTALL),
    re.compile(r"([^/]+/[^/]+)(?:/(.*))?", re.DOTALL),
    re.compile(r"(.+)()", re.DOTALL),
)
_NOTHING_FETCHED: Final = "it is not in the state directory, and nothing is fetched here"
# What only concerns how kustomize would fetch.
_IGNORED: Final = frozenset({"timeout", "submodules", "depth"})


@dataclass(frozen=True, slots=True)
class BaseAddress:
    """A base as a kustomization names it: a repository, a folder of it, and a ref."""

    url: str
    folder: str
    ref: str


class ListedBase(NamedTuple):
    """A repository that a unit lists, and `namespace/name` of the Secret it is read with, or ""."""

    url: str
    secret: str = ""


class BaseOrigin(Protocol):
    """Everything that brings the commits of bases here."""

    def commit(self, listed: ListedBase, ref: str) -> tuple[Repository, str]:
        """Return a listed repository, and the commit that a tag or a commit id names in it.

        Raises InvalidManifests GK3419 for another ref, GK3420 for one that may not
        be fetched now, and SourceFailed.
        """
        ...


@dataclass(frozen=True, slots=True)
class FoundBase:
    """A base at its commit. `root` is the folder that the repository is rendered in."""

    repository: Repository
    commit: str
    root: str
    folder: str
    record: BaseRecord

    @property
    def path(self) -> str:
        """Return the folder of the base where it is rendered."""
        return posixpath.join(self.root, self.folder).rstrip("/")


@dataclass(frozen=True, slots=True)
class RemoteBases:
    """The repositories that a unit's kustomizations may take bases from."""

    allowed: tuple[ListedBase, ...] = ()
    origin: BaseOrigin | None = None

    def find(self, text: str) -> FoundBase:
        """Return the base that a kustomization names. Raises InvalidManifests (GK3402, GK3010, and
        as `BaseOrigin.commit`) and SourceFailed."""
        address = parse_base(text)
        place = repository_place(address.url)
        listed = next((one for one in self.allowed if repository_place(one.url) == place), None)
        if place is None or listed is None:
            raise _not_listed(address.url)
        if not is_ref(f"refs/tags/{address.ref}"):
            raise _no_ref(address)
        folder = clean_path(address.folder)
        if self.origin is None:
            raise not_fetched(listed, address.ref)
        repository, commit = self.origin.commit(listed, address.ref)
        name = _NAME.sub("-", "/".join(part for part in place if part)).strip("-.")
        root = f"{BASES}/{name}@{commit[:_SHORT_ID]}"
        record = BaseRecord(url=hide_password(listed.url), ref=address.ref, commit=commit)
        return FoundBase(repository, commit, root, folder, record)


NONE: Final = RemoteBases()


def parse_base(text: str) -> BaseAddress:
    """Return the parts of a base in the forms of kustomize. Raises InvalidManifests GK3402."""
    if len(text) > _LENGTH_MAX:
        raise _unusable(text[:_LENGTH_MAX], "it is too long")
    address, _, query = text.strip().removeprefix("git::").partition("?")
    given = dict(parse_qsl(query, keep_blank_values=True))
    ref = given.pop("ref", "") or given.pop("version", "")
    given.pop("version", None)
    for name in given.keys() - _IGNORED:
        raise _unusable(text, f"the parameter {shown(name)} is not known")
    short = _GITHUB.match(address)
    if short:
        address = f"https://github.com/{address[short.end() :]}"
    start = _START.match(address)
    if start is None:
        raise _unusable(text, "it has no host")
    rest = address[start.end() :]
    found = next(m for end in _ENDS if (m := end.fullmatch(rest or "/")))
    url = start[0] + found[1]
    try:
        parse_url(url)
    except SourceFailed as error:
        why = error.findings[0].message.partition(": ")[2]
        raise _unusable(text, why) from error
    return BaseAddress(url, (found[2] or "").strip("/"), ref)


def root_of(path: str) -> str:
    """Return the folder that the repository of a rendered path is in; "" for the unit's own."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == BASES else ""


def _unusable(text: str, why: str) -> InvalidManifests:
    message = f"the remote base {shown(hide_password(text))} cannot be used: {why}"
    following = "write https://HOST/REPOSITORY//FOLDER?ref=TAG"
    return InvalidManifests(Finding(code="GK3402", message=message, notes=(("next", following),)))


def _not_listed(url: str) -> InvalidManifests:
    url = shown(hide_password(url))
    return InvalidManifests(
        Finding(
            code="GK3402",
            message=f"a remote base is not fetched from {url}: the unit does not allow it",
            notes=(
                ("next", f"commit a copy, or add {{url: {url}}} to render.kustomize.remoteBases"),
            ),
        )
    )


def _no_ref(address: BaseAddress) -> InvalidManifests:
    what = f"{shown(address.ref)} is no ref" if address.ref else "it has no ?ref="
    return bad_ref(address.url, what)


def bad_ref(url: str, why: str) -> InvalidManifests:
    """Return GK3419 for a base without a tag or a commit id."""
    because = ("why", "the same commit would give other objects when a branch moves")
    following = "end the base with ?ref=TAG or ?ref= and a full commit id"
    return _no_commit(url, why, because, ("next", following))


def no_ref(url: str, what: str) -> InvalidManifests:
    """Return GK3419 for a tag or a commit that a repository does not have."""
    return _no_commit(url, f"it has no {what}", ("next", "push it, or name another in ?ref="))


def _no_commit(url: str, why: str, *notes: tuple[str, str]) -> InvalidManifests:
    message = f"the remote base {shown(hide_password(url))} needs a tag or a commit: {why}"
    return InvalidManifests(Finding(code="GK3419", message=message, notes=notes))


def not_fetched(listed: ListedBase, ref: str, *, why: str = _NOTHING_FETCHED) -> InvalidManifests:
    """Return GK3420 for a base that is neither read nor fetched here."""
    following = "gitkruise plan, without --offline, fetches it"
    if listed.secret:
        following = f"gitkruise plan --context NAME reads the Secret {listed.secret} and fetches it"
    return InvalidManifests(
        Finding(
            code="GK3420",
            message=f"the remote base {shown(hide_password(listed.url))} at {shown(ref)} cannot be"
            " read here: the objects of the unit are not known",
            notes=(("why", why), ("next", following)),
        )
    )
