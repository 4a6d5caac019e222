"""OCI's distribution API: the tags, manifests and blobs of one repository of a registry."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urljoin, urlsplit

from gitkruise.errors import Unavailable
from gitkruise.gitops.http_get import HttpReply
from gitkruise.gitops.registry.requests import ContentHost, body_of, decoded

MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_PAGES_MAX: Final = 50
_TAGS_MAX: Final = 100_000
_ANSWER_MAX: Final = 4 << 20
_UNKNOWN: Final = frozenset({400, 404, 406})  # as registries answer to a path that they lack
_DIGEST: Final = re.compile(r"sha256:([0-9a-f]{64})")
_NEXT: Final = re.compile(r'<([^>]+)>;\s*rel="?next"?')


class OtherContent(Exception):
    """Content whose SHA-256 is not the one that it was asked for by."""

    def __init__(self, what: str, named: str, received: str) -> None:
        super().__init__(f"{what} has another digest")
        self.what, self.named, self.received = what, named, received


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest: the SHA-256 of its bytes in hex, and what it says."""

    digest: str
    content: Mapping[str, Any]

    @property
    def is_index(self) -> bool:
        """Return whether it lists other manifests, as for several platforms."""
        return self.content.get("mediaType") == _INDEX or "manifests" in self.content

    @property
    def layers(self) -> Sequence[Mapping[str, Any]]:
        """Return the descriptions of its layers."""
        listed = self.content.get("layers")
        found = listed if isinstance(listed, list) else []
        return [one for one in found if isinstance(one, Mapping)]

    @property
    def annotations(self) -> Mapping[str, str]:
        """Return its annotations that are texts."""
        return texts_of(self.content.get("annotations"))


@dataclass(frozen=True, slots=True)
class RegistryRepository:
    """The repository at the path of the host's home, or the repository `name` below it."""

    host: ContentHost
    name: str = ""

    async def tags(self) -> Sequence[str] | None:
        """Return the tags; None where there is no such repository. Raises Unavailable."""
        found: list[str] = []
        url = f"{self._root}/tags/list?n=1000"
        for _ in range(_PAGES_MAX):
            reply = await self.host.get(url, bytes_max=_ANSWER_MAX)
            if reply.status == 404:
                return None
            tags = decoded(reply, "the list of tags").get("tags")
            found += [tag for tag in tags if isinstance(tag, str)] if isinstance(tags, list) else []
            if len(found) > _TAGS_MAX:
                raise Unavailable(f"it lists more than {_TAGS_MAX} tags")
            more = _NEXT.search(reply.headers.get("Link", ""))
            if more is None:
                return found
            url = self.host.allowed(urljoin(url, more[1]))
        raise Unavailable(f"it lists more than {_PAGES_MAX} pages of tags")

    async def digest(self, reference: str, what: str) -> str | None:
        """Return the SHA-256 of the manifest of a tag or digest; None where there is none.

        A registry that does not name it sends the manifest itself. Raises Unavailable.
        """
        reply = await self._manifest(reference, bodiless=True)
        if reply.status == 404:
            return None
        body_of(reply, what)
        named = digest_in(reply.headers.get("Docker-Content-Digest"))
        return named or (await self.manifest(reference, what)).digest

    async def manifest(self, reference: str, what: str) -> Manifest:
        """Return the manifest of a tag, or of a digest, which it is verified by.

        Raises Unavailable and OtherContent.
        """
        reply = await self._manifest(reference)
        document = decoded(reply, what)
        digest, named = hashlib.sha256(reply.body).hexdigest(), digest_in(reference)
        if named not in {"", digest}:
            raise OtherContent(what, named, digest)
        return Manifest(digest, document)

    async def referrers(self, digest: str, what: str) -> Sequence[Mapping[str, Any]]:
        """Return the descriptions of what refers to the manifest with this SHA-256.

        A registry without this list has it under the tag `sha256-DIGEST`. Raises Unavailable and
        OtherContent.
        """
        accepted = {"Accept": _INDEX}
        url = f"{self._root}/referrers/sha256:{digest}"
        reply = await self.host.get(url, bytes_max=_ANSWER_MAX, headers=accepted)
        kind = reply.headers.get("Content-Type", "").partition(";")[0]
        if reply.status in _UNKNOWN or (reply.status == 200 and kind != _INDEX):
            named = await self.digest(f"sha256-{digest}", what)
            document = (await self.manifest(f"sha256:{named}", what)).content if named else {}
        else:
            document = decoded(reply, what)
        listed = document.get("manifests")
        found = listed if isinstance(listed, list) else []
        return [one for one in found if isinstance(one, Mapping)]

    async def blob(self, digest: str, what: str, *, bytes_max: int) -> bytes:
        """Return the content with a SHA-256, unverified. Raises Unavailable."""
        reply = await self.host.get(f"{self._root}/blobs/sha256:{digest}", bytes_max=bytes_max)
        return body_of(reply, what)

    async def verified_blob(self, digest: str, what: str, *, bytes_max: int) -> bytes:
        """Return the content with a SHA-256. Raises Unavailable and OtherContent."""
        data = await self.blob(digest, what, bytes_max=bytes_max)
        received = hashlib.sha256(data).hexdigest()
        if received != digest:
            raise OtherContent(what, digest, received)
        return data

    async def _manifest(self, reference: str, *, bodiless: bool = False) -> HttpReply:
        url = f"{self._root}/manifests/{quote(reference, safe=':')}"
        accepted = {"Accept": f"{MANIFEST}, {_INDEX}"}
        return await self.host.get(url, bytes_max=_ANSWER_MAX, headers=accepted, bodiless=bodiless)

    @property
    def _root(self) -> str:
        parts = urlsplit(self.host.home)
        path = f"{parts.path.strip('/')}/{self.name}".strip("/")
        return f"{parts.scheme}://{parts.netloc}/v2/{quote(path)}"


def digest_in(text: object) -> str:
    """Return the hex digits of `sha256:…`; "" for anything else."""
    found = _DIGEST.fullmatch(text) if isinstance(text, str) else None
    return found[1] if found else ""


def texts_of(value: object) -> Mapping[str, str]:
    """Return the entries of a mapping that are texts."""
    if not isinstance(value, Mapping):
        return {}
    return {key: text for key, text in value.items() if isinstance(text, str)}
