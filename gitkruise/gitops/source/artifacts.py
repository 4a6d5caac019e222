"""Artifacts of a registry as commits: the ref of each source resolved, verified and imported.

A commit has the artifact's files, its time and its digest, and no parent: so the same artifact is
the same commit in every process, in every cluster and after the loss of a mirror.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import urlsplit

from gitkruise.errors import DiagnosticError, Finding, SourceFailed, Unavailable
from gitkruise.git.plumbing.commits import ARTIFACT, CommitAuthor, format_commit, format_message
from gitkruise.git.plumbing.errors import RefMoved, ref_missing
from gitkruise.git.push.status_branch import edit_tree
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.config.registry_checks import address_of
from gitkruise.gitops.http_get import Access, Fetch, fetch
from gitkruise.gitops.registry.artifact import Artifact, UnusableArtifact, artifact_of
from gitkruise.gitops.registry.cosign import TrustedSigners, Unsigned, unsigned
from gitkruise.gitops.registry.distribution import OtherContent, RegistryRepository, digest_in
from gitkruise.gitops.registry.requests import ContentHost
from gitkruise.gitops.source.ref_resolver import LATEST, ResolvedRef
from gitkruise.gitops.source.repositories import Renewal, patience_of
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import OCI, GitRef, GitSource
from gitkruise.printable import shown
from gitkruise.wire.primitives.times import format_time, parse_time
from gitkruise.wire.schema.patterns import compile_pattern
from gitkruise.wire.values.semver_range import Range

_IMPORTED: Final = "refs/artifacts/"  # of the mirror: a ref for each SHA-256 and media type
_ANNOTATION: Final = "org.opencontainers.image."
_NO_TIME: Final = datetime.fromtimestamp(0, UTC)  # of an artifact that does not say its time


@dataclass(slots=True, kw_only=True)
class ArtifactReader:
    """Resolves the refs of sources of one repository of a registry, and imports what they lead to.

    `repository` is its mirror. `renewal` has the Secrets of the sources, which are by `namespace/
    name` in `sources`.
    """

    repository: Repository
    sources: dict[str, GitSource]
    renewal: Renewal
    clock: Clock
    fetch: Fetch = fetch
    _host: ContentHost | None = None
    _away_since: datetime | None = None
    _refusals: Sequence[DiagnosticError] = ()  # of the last look, if no source was resolved
    _silent_until: float = 0.0  # on the monotonic clock, as the registry asked
    _signed: set[tuple[str, TrustedSigners]] = field(default_factory=set)  # by SHA-256

    async def resolve(self, sources: Sequence[GitSource]) -> list[ResolvedRef | DiagnosticError]:
        """Return the commit of each source, or why there is none."""
        known, host = self._host, self._as_known()
        self._host = host
        if self._refusals and host is known and self.clock.monotonic() < self._silent_until:
            return [*self._refusals]
        found = [await self._resolved(RegistryRepository(host), source) for source in sources]
        refused = [one for one in found if isinstance(one, DiagnosticError)]
        self._refusals = refused if len(refused) == len(found) else ()
        if not self._refusals:
            self._away_since = None
        return found

    def _as_known(self) -> ContentHost:
        """Return the host with the current credentials; while they last, so does its token."""
        first, source = next(iter(self.sources.items()))
        held = self.renewal.held(first)
        sent = {
            "username": held.username, "password": held.password, "bearerToken": held.bearer_token,
            "ca.crt": held.ca,
        }  # fmt: skip
        access = Access({name: text for name, text in sent.items() if text})
        if self._host is not None and self._host.access == access:
            return self._host
        return ContentHost(
            home=address_of(source.spec.url), access=access, namespace=source.namespace,
            guarded=any(one.custom for one in self.sources.values()), fetch=self.fetch,
            within_s=patience_of(self.sources, source.spec.url),
        )  # fmt: skip

    async def _resolved(
        self, registry: RegistryRepository, source: GitSource
    ) -> ResolvedRef | DiagnosticError:
        try:
            return await self._artifact(registry, source)
        except DiagnosticError as error:
            return error
        except Unavailable as error:
            self._away_since = self._away_since or self.clock.now()
            asked = self.clock.monotonic() + error.details.retry_after_s
            self._silent_until = max(self._silent_until, asked)
            why = registry.host.access.cover(error.message)
            return SourceFailed(_away(source, why, self._away_since))
        except OtherContent as error:
            return SourceFailed(_other_content(source, error))

    async def _artifact(self, registry: RegistryRepository, source: GitSource) -> ResolvedRef:
        tag, digest = await self._named(registry, source)
        revision = f"{tag}@sha256:{digest}" if tag else f"sha256:{digest}"
        media_type = source.spec.layer_selector.media_type
        name = _ref_of(digest, media_type)
        commit = await asyncio.to_thread(self._imported, name)
        if commit is None and not tag and await registry.digest(revision, "its manifest") is None:
            raise ref_missing(self.repository.url, revision, [])
        trusted = await self.renewal.trusted(source)
        if trusted is not None and (digest, trusted) not in self._signed:
            refused = await unsigned(registry, digest, trusted)
            if refused is not None:
                raise SourceFailed(_unsigned(source, revision, refused, trusted))
            self._signed.add((digest, trusted))
        if commit is None:
            try:
                artifact = await artifact_of(registry, digest, media_type)
            except UnusableArtifact as error:
                raise SourceFailed(_unusable(source, revision, error)) from error
            commit = await asyncio.to_thread(self._import, artifact, name)
        return ResolvedRef("", commit, revision=revision)

    async def _named(self, registry: RegistryRepository, source: GitSource) -> tuple[str, str]:
        """Return the tag that a source follows ("" for a pinned digest), and the SHA-256 that it
        has now. Raises RefMissing GK3201 and SourceFailed GK3207."""
        ref = source.spec.ref
        if ref.digest:
            return "", digest_in(ref.digest)
        tag = await self._highest(registry, ref) if ref.semver else ref.tag or LATEST
        digest = await registry.digest(tag, f"the manifest of tag {shown(tag)}")
        if digest is None:
            raise ref_missing(self.repository.url, tag, [*(await registry.tags() or ())])
        return tag, digest

    async def _highest(self, registry: RegistryRepository, ref: GitRef) -> str:
        pattern = compile_pattern(ref.semver_filter) if ref.semver_filter else None
        tags = [
            tag for tag in await registry.tags() or () if pattern is None or pattern.search(tag)
        ]
        # A tag has no +, which is written as _.
        versions = {tag.replace("_", "+"): tag for tag in tags}
        best = Range(ref.semver).best(versions)
        if best is None:
            raise SourceFailed(_nothing_in(self.repository.url, ref, len(tags)))
        return versions[best]

    def _imported(self, name: str) -> str | None:
        state = self.repository.ls_refs([name]).refs.get(name)
        return state.commit if state is not None else None

    def _import(self, artifact: Artifact, name: str) -> str:
        """Write the commit of an artifact into the mirror under the name of a ref; its id."""
        address = self.repository.url
        author = CommitAuthor(name=address.removeprefix(OCI), email="")
        revision, source = (
            artifact.annotations.get(_ANNOTATION + key, "") for key in ("revision", "source")
        )
        of = f" of {shown(revision, 100)}" if revision else ""
        annotations = (("Artifact-Revision", revision), ("Artifact-Source", source))
        trailers = [(ARTIFACT, f"{address}@sha256:{artifact.digest}")]
        trailers += [(key, shown(text)) for key, text in annotations if text]
        message = format_message(f"sha256:{artifact.digest}{of}", "", trailers)
        tree = edit_tree(self.repository, None, artifact.files, ())
        data = format_commit(tree, (), author, _time_of(artifact), message)
        commit = self.repository.write_object("commit", data)
        with suppress(RefMoved):  # imported meanwhile, as the same commit
            self.repository.push_ref(name, commit, old=None)
        return commit


def _ref_of(digest: str, media_type: str) -> str:
    """Return the ref of what was imported of a manifest: of the layer of a media type, if one is
    selected."""
    selected = hashlib.sha256(media_type.encode()).hexdigest()[:16]
    return f"{_IMPORTED}{digest}" + (f"-{selected}" if media_type else "")


def _time_of(artifact: Artifact) -> datetime:
    try:
        created = parse_time(artifact.annotations.get(f"{_ANNOTATION}created"))
    except ValueError:
        created = None
    return max(created or _NO_TIME, _NO_TIME)


def _away(source: GitSource, why: str, since: datetime) -> Finding:
    host = urlsplit(address_of(source.spec.url)).netloc
    return Finding(
        code="GK3109",
        message=f"cannot read the artifact {source.spec.url}: {why}",
        notes=(
            ("since", format_time(since)),
            ("unchanged", "what runs stays as it is; new artifacts are not seen"),
            ("next", f"look at {host}, and at url and secretRef of GitSource {source.name}"),
        ),
    )


def _other_content(source: GitSource, error: OtherContent) -> Finding:
    return Finding(
        code="GK3110",
        message=f"the registry of {source.spec.url} sends other content than its digest names:"
        f" {error.what}",
        notes=(
            ("named", f"sha256:{error.named}"),
            ("received", f"sha256:{error.received}"),
            ("unchanged", "what runs stays as it is; it is tried again"),
            ("next", "ask the operator of the registry"),
        ),
    )


def _unusable(source: GitSource, revision: str, error: UnusableArtifact) -> Finding:
    return Finding(
        code="GK3214",
        message=f"the artifact {revision} of {source.spec.url} has no files that are read: {error}",
        notes=(
            ("unchanged", "what runs stays as it is; nothing of the artifact was read"),
            ("next", error.following),
        ),
    )


def _nothing_in(url: str, ref: GitRef, count: int) -> Finding:
    among = f" that matches {shown(ref.semver_filter)}" if ref.semver_filter else ""
    return Finding(
        code="GK3207",
        message=f"no tag of {url}{among} is a version in {ref.semver}",
        notes=(
            ("found", f"{count} tags; a pre-release counts only where the range names one"),
            ("unchanged", "what runs stays as it is"),
            ("next", "push a tag such as v1.2.3, or widen ref.semver"),
        ),
    )


def _unsigned(
    source: GitSource, revision: str, refused: Unsigned, trusted: TrustedSigners
) -> Finding:
    name = f"{source.spec.url[len(OCI) :]}@{revision.rpartition('@')[2]}"
    *wanted, following = trusted.notes(name)
    return Finding(
        code="GK3309",
        message=f"the artifact {revision} of {source.spec.url} {refused.why}",
        notes=(
            *(("found", signer) for signer in refused.found),
            *wanted,
            ("unchanged", "what runs stays as it is; nothing of the artifact was read"),
            following,
        ),
    )
