"""Sources that are artifacts of a registry: resolved, verified, imported, and refused."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gitkruise.errors import DiagnosticError, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.source.artifacts import ArtifactReader
from gitkruise.gitops.source.ref_resolver import ResolvedRef
from gitkruise.gitops.source.repositories import Pool, Renewal
from gitkruise.model.gitops.config import GitSource, GitSourceSpec
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.clock import ManualClock
from tests.gitops.analysis.endpoint import fetch_now
from tests.gitops.charts.hosts import Host, packed, serving
from tests.gitops.charts.test_registry import BASIC, served
from tests.gitops.registry.artifacts import (
    CONTENT,
    REVISION,
    SOURCE,
    Shelf,
    artifact,
    flux_archive,
    push_to,
    signature,
    signature_tag,
)

__all__ = ["served"]  # a fixture
APP = {"deploy/app.yaml": "kind: ConfigMap\n", "README": "x"}
ONE, TWO = artifact(APP), artifact({**APP, "README": "y"})
KEY, OTHER = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())


class Secrets:
    """The API server, of which Secrets are read."""

    def __init__(self) -> None:
        self.data: dict[str, dict[str, str]] = {}

    async def send(self, request: ApiRequest) -> ApiReply:
        texts = self.data[request.name]
        data = {key: base64.b64encode(text.encode()).decode() for key, text in texts.items()}
        return ApiReply(200, {"data": data})


@dataclass
class Bench:
    """A reader of one source, with its mirror."""

    reader: ArtifactReader
    source: GitSource
    repository: Repository
    clock: ManualClock

    def resolve(self) -> ResolvedRef:
        (found,) = asyncio.run(self.reader.resolve([self.source]))
        assert isinstance(found, ResolvedRef), found
        return found

    def refusal(self) -> str:
        (found,) = asyncio.run(self.reader.resolve([self.source]))
        assert isinstance(found, DiagnosticError), found
        return "\n".join(map(str, (found, *found.findings[0].notes)))

    def files(self, commit: str) -> dict[str, bytes]:
        entries = self.repository.list_tree(commit)
        return {entry.path: self.repository.read_blob(entry.id) for entry in entries}


@pytest.fixture
def shelf() -> Iterator[Shelf]:
    with serving() as host:
        yield Shelf(host)


@pytest.fixture
def secrets() -> Secrets:
    return Secrets()


class Factory(Protocol):
    def __call__(
        self, folder: Path, shelf: Shelf, secrets: Secrets | None = None, **spec: Any
    ) -> Bench: ...


@pytest.fixture
def bench() -> Iterator[Factory]:
    """Make readers; their mirrors are closed at the end."""
    with ExitStack() as opened:

        def make(folder: Path, shelf: Shelf, secrets: Secrets | None = None, **spec: Any) -> Bench:
            made = msgspec.convert({"url": shelf.url, **spec}, GitSourceSpec)
            source, transport = GitSource("shop", "app", made), secrets or Secrets()
            renewal = Renewal(transport)  # type: ignore[arg-type]  # it sends, and watches nothing
            pool = Pool(folder, transport, renewal)  # type: ignore[arg-type]  # as above
            repository = asyncio.run(pool.open("shop/app", source, 60, AsyncExitStack()))
            opened.callback(repository.close)
            reader = ArtifactReader(
                repository=repository, sources={"shop/app": source}, renewal=renewal,
                clock=(clock := ManualClock()), fetch=fetch_now,
            )  # fmt: skip
            return Bench(reader, source, repository, clock)

        yield make


def public(key: ec.EllipticCurvePrivateKey) -> str:
    pem = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem.decode()


def test_an_artifact_becomes_a_commit_with_its_files_time_and_digest(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(ONE, "latest")
    source = bench(tmp_path, shelf)
    found = source.resolve()
    assert found.revision == f"latest@{ONE.digest}"
    assert source.files(found.commit) == {k: v.encode() for k, v in APP.items()}
    commit = source.repository.commit(found.commit)
    assert (commit.parents, str(commit.time)) == ((), "2026-11-20 10:00:00+00:00")
    assert commit.subject == f"{ONE.digest} of {REVISION}"
    assert f"\nArtifact-Source: {SOURCE}\n" in source.repository.message(found.commit)
    asked = len(shelf.host.requests)
    assert source.resolve() == found
    assert shelf.host.paths[asked:] == ["/v2/app/manifests/latest"], "nothing is pulled again"


def test_an_artifact_is_the_same_commit_in_every_process(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(ONE, "latest", "v1")
    one = bench(tmp_path / "one", shelf).resolve()
    shelf.push(TWO, "latest")
    other = bench(tmp_path / "two", shelf)
    assert other.resolve().commit != one.commit
    shelf.push(ONE, "latest")
    assert other.resolve() == one
    tagged = bench(tmp_path / "two", shelf, ref={"tag": "v1"}).resolve()
    assert (tagged.commit, tagged.revision) == (one.commit, f"v1@{ONE.digest}")


def test_a_digest_is_followed_wherever_tags_lead(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(ONE, "latest")
    source = bench(tmp_path, shelf, ref={"digest": ONE.digest, "tag": "latest"})
    found = source.resolve()
    assert found.revision == ONE.digest
    shelf.host.replies.clear()
    assert source.resolve() == found
    signed: dict[str, Any] = {"verify": SIGNED["verify"], "ref": {"digest": TWO.digest}}
    missing = bench(tmp_path, shelf, **signed).refusal()
    assert f"GK3201: {TWO.digest} is not in" in missing


def test_the_highest_version_of_a_range_is_followed(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(ONE, "v1.0.0", "1.1.0-rc.1", "2.0.0", "latest", "1.0.1_build.5")
    shelf.push(TWO, "1.2.0", "1.9.0-amd64")
    assert bench(tmp_path, shelf, ref={"semver": "1.x"}).resolve().revision == (
        f"1.2.0@{TWO.digest}"
    )
    early = {"semver": ">=1.0.0-0 <2.0.0", "semverFilter": ".*-rc.*"}
    assert bench(tmp_path, shelf, ref=early).resolve().revision == f"1.1.0-rc.1@{ONE.digest}"
    built = {"semver": "1.x", "semverFilter": "build"}
    assert bench(tmp_path, shelf, ref=built).resolve().revision == f"1.0.1_build.5@{ONE.digest}"
    error = bench(tmp_path, shelf, ref={"semver": "3.x"}).refusal()
    assert "GK3207" in error
    assert "7 tags" in error


def test_a_registry_that_is_away_is_named_with_the_time_since_when(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(ONE, "latest")
    source = bench(tmp_path, shelf)
    source.resolve()
    for path in shelf.host.replies:
        shelf.host.replies[path] = (503, {}, b"")
    error = source.refusal()
    assert "GK3109" in error
    assert "status 503" in error
    host, *_ = source.source.spec.url.removeprefix("oci://").partition("/")
    assert ":" in host, "the port tells which registry of a host it is"
    assert f"look at {host}, and" in error
    assert "('since', '2026" in error
    shelf.host.replies.clear()
    assert "GK3201" in source.refusal(), "a tag that is gone deletes nothing"


def test_a_registry_that_asks_for_a_pause_is_left_alone_for_as_long(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(ONE, "latest")
    source = bench(tmp_path, shelf)
    whole = dict(shelf.host.replies)
    for path in whole:
        shelf.host.replies[path] = (429, {"Retry-After": "60"}, b"")
    error = source.refusal()
    assert "asks for a pause of 60 s" in error
    asked = len(shelf.host.requests)
    shelf.host.replies.update(whole)
    source.clock.advance(59)
    assert source.refusal() == error
    assert len(shelf.host.requests) == asked
    source.clock.advance(1)
    assert source.resolve().commit


def test_content_with_another_digest_is_refused(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(ONE, "latest")
    content = [digest for digest, data in ONE.blobs.items() if data != b"{}"]
    shelf.host.has(f"/v2/app/blobs/{content[0]}", b"x")
    assert "GK3110" in bench(tmp_path, shelf).refusal()
    shelf.push(ONE)
    shelf.host.has(f"/v2/app/manifests/{ONE.digest}", TWO.manifest)
    error = bench(tmp_path, shelf).refusal()
    assert "GK3110" in error
    assert f"('received', '{TWO.digest}')" in error


# A layer or its bytes, and why there are no files.
UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"layer": {"mediaType": "application/vnd.oci.image.layer.v1.tar"}}, "one layer must be"),
    ({"layer": {"digest": "sha512:0"}}, "its layer has no SHA-256"),
    ({"data": b"x"}, "its layer is not unpacked"),
    ({"data": packed({"../x": "x"})}, "../x is not a path below the root"),
    ({"data": packed({"a": "", "a/b": ""})}, "a is a file and a folder"),
]


@pytest.mark.parametrize(("more", "why"), UNUSABLE)
def test_an_artifact_without_usable_files_is_refused(
    bench: Factory, shelf: Shelf, tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    shelf.push(artifact(APP, **more), "latest")
    error = bench(tmp_path, shelf).refusal()
    assert "GK3214" in error
    assert why in error


def test_another_archive_alone_is_unpacked_too(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    kind = {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip"}
    shelf.push(artifact(APP, layer=kind), "latest")
    source = bench(tmp_path, shelf)
    assert source.files(source.resolve().commit).keys() == APP.keys()


CHART = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def test_a_selected_layer_is_a_commit_of_its_own(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(artifact(APP, more={CHART: flux_archive({"web/Chart.yaml": "x"})}), "latest")
    first = bench(tmp_path, shelf)
    flux = first.resolve().commit
    source = bench(tmp_path, shelf, layerSelector={"mediaType": CHART})
    chart = source.resolve().commit
    assert (*first.files(flux), *source.files(chart)) == (*sorted(APP), "web/Chart.yaml")
    asked = len(shelf.host.requests)
    assert (first.resolve().commit, source.resolve().commit) == (flux, chart)
    assert shelf.host.paths[asked:] == ["/v2/app/manifests/latest"] * 2
    same = bench(tmp_path, shelf, layerSelector={"mediaType": CONTENT})
    assert same.resolve().commit == flux, "the same files are the same commit"


@pytest.mark.parametrize(
    ("selector", "why", "following"),
    [
        ({"mediaType": "text/x"}, f"it has {CONTENT}, text/plain", "in layerSelector.mediaType"),
        ({"mediaType": "text/plain"}, "its layer is not unpacked", "push a folder"),
    ],
)
def test_a_selection_without_an_archive_names_the_layers(
    bench: Factory, shelf: Shelf, tmp_path: Path, selector: dict[str, str], why: str, following: str
) -> None:
    shelf.push(artifact(APP, more={"text/plain": b"x"}), "latest")
    error = bench(tmp_path, shelf, layerSelector=selector).refusal()
    assert "GK3214" in error
    assert why in error
    assert following in error


def test_an_artifact_without_a_time_is_imported_at_the_epoch(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    shelf.push(artifact(APP, created="yesterday"), "latest")
    source = bench(tmp_path, shelf)
    time = source.repository.commit(source.resolve().commit).time
    assert time is not None
    assert time.timestamp() == 0


# Signatures -------------------------------------------------------------------------------------

SIGNED = {"verify": {"provider": "cosign", "secretRef": {"name": "keys"}}}


def test_an_artifact_that_a_trusted_key_signed_is_followed(
    bench: Factory, shelf: Shelf, secrets: Secrets, tmp_path: Path
) -> None:
    secrets.data["keys"] = {"old.pub": public(OTHER), "cosign.pub": public(KEY), "note": "x"}
    shelf.push(ONE, "latest")
    source = bench(tmp_path, shelf, secrets, **SIGNED)
    error = source.refusal()
    assert "GK3309" in error
    assert "has no signature" in error
    assert f"cosign sign --key cosign.key {shelf.url[6:]}@{ONE.digest}" in error
    shelf.push(signature(ONE.digest, KEY), signature_tag(ONE.digest))
    assert source.resolve().revision == f"latest@{ONE.digest}"
    shelf.push(TWO, "latest")
    assert "GK3309" in source.refusal()
    secrets.data["keys"] = {"cosign.pub": public(OTHER)}
    shelf.push(ONE, "latest")
    assert "no signature of a trusted key" in source.refusal(), "keys are read with every poll"


def test_a_signature_of_another_artifact_is_refused(
    bench: Factory, shelf: Shelf, secrets: Secrets, tmp_path: Path
) -> None:
    secrets.data["keys"] = {"cosign.pub": public(KEY)}
    shelf.push(ONE, "latest")
    source = bench(tmp_path, shelf, secrets, **SIGNED)
    shelf.push(signature(TWO.digest, KEY), signature_tag(ONE.digest))
    assert "belongs to another artifact" in source.refusal()
    shelf.push(signature(ONE.digest, KEY, kind="other"), signature_tag(ONE.digest))
    assert "belongs to another artifact" in source.refusal()


@pytest.mark.parametrize(
    ("data", "why"),
    [({"key": "x"}, "no name in it ends in .pub"), ({"a.pub": "x"}, "it is not in PEM")],
)
def test_without_a_key_nothing_is_trusted(
    bench: Factory, shelf: Shelf, secrets: Secrets, tmp_path: Path, data: dict[str, str], why: str
) -> None:
    secrets.data["keys"] = data
    shelf.push(ONE, "latest")
    error = bench(tmp_path, shelf, secrets, **SIGNED).refusal()
    assert "GK3306" in error
    assert why in error


def test_credentials_of_the_secret_are_sent(
    bench: Factory, shelf: Shelf, secrets: Secrets, tmp_path: Path
) -> None:
    secrets.data["pull"] = {"username": "ann", "password": "hunter2"}
    shelf.push(ONE, "latest")
    shelf.host.user = "Basic " + base64.b64encode(b"ann:hunter2").decode()
    assert bench(tmp_path, shelf, secrets, secretRef={"name": "pull"}).resolve().commit
    error = bench(tmp_path / "x", shelf).refusal()
    assert "it requires credentials, and none were sent" in error


def docker(host: str, **login: str) -> str:
    return json.dumps({"auths": {"other.example": {"auth": "eDp5"}, host: login}})


@pytest.mark.parametrize(
    "login",
    [
        {"auth": base64.b64encode(b"ann:hunter2").decode()},
        {"username": "ann", "password": "hunter2"},
    ],
)
def test_a_secret_of_docker_is_understood(
    bench: Factory, shelf: Shelf, secrets: Secrets, tmp_path: Path, login: dict[str, str]
) -> None:
    host = shelf.host.url.removeprefix("http://")
    secrets.data["pull"] = {".dockerconfigjson": docker(f"https://{host}/v1/", **login)}
    shelf.push(ONE, "latest")
    shelf.host.user = BASIC
    assert bench(tmp_path, shelf, secrets, secretRef={"name": "pull"}).resolve().commit
    secrets.data["pull"] = {".dockerconfigjson": docker("elsewhere.example", **login)}
    with pytest.raises(UsageProblem, match=f"no credentials for the registry {host}"):
        bench(tmp_path / "x", shelf, secrets, secretRef={"name": "pull"})


def test_a_token_is_kept_until_the_registry_rejects_it(
    bench: Factory, shelf: Shelf, tmp_path: Path
) -> None:
    host, asked = shelf.host, "/token?service=r&scope=repository:app:pull"
    shelf.push(ONE, "latest")
    host.user = "Bearer one"
    host.challenge = f'Bearer realm="{host.url}/token",service="r",scope="repository:app:pull"'
    host.has(asked, b'{"token": "one"}')
    source = bench(tmp_path, shelf)
    source.resolve()
    before = len(host.requests)
    source.resolve()
    assert host.paths[before:] == ["/v2/app/manifests/latest"]
    host.user = "Bearer two"
    host.has(asked, b'{"token": "two"}')
    assert source.resolve().commit


# A real registry --------------------------------------------------------------------------------


@pytest.mark.slow
def test_an_artifact_of_a_real_registry_is_followed(
    bench: Factory, served: str, secrets: Secrets, tmp_path: Path
) -> None:
    secrets.data |= {
        "pull": {"username": "ann", "password": "hunter2"}, "keys": {"cosign.pub": public(KEY)},
    }  # fmt: skip
    spec = {**SIGNED, "url": f"oci://{served}/shop/app", "secretRef": {"name": "pull"}}
    push = partial(push_to, served, "shop/app", authorization=BASIC)
    push(ONE, "1.0.0", "latest")
    push(TWO, "1.1.0")
    for pushed in (ONE, TWO):
        push(signature(pushed.digest, KEY), signature_tag(pushed.digest))
    shelf = Shelf(Host())
    latest = bench(tmp_path, shelf, secrets, **spec)
    assert latest.resolve().revision == f"latest@{ONE.digest}"
    assert latest.files(latest.resolve().commit)["README"] == b"x"
    newest = bench(tmp_path, shelf, secrets, **{**spec, "ref": {"semver": "1.x"}})
    assert newest.resolve().revision == f"1.1.0@{TWO.digest}"
    push(TWO, "latest")
    assert latest.resolve().revision == f"latest@{TWO.digest}"
    other = artifact({"deploy/app.yaml": "x"})
    push(other, "latest")
    assert "GK3309" in latest.refusal()
    missing = bench(tmp_path, shelf, secrets, **{**spec, "ref": {"tag": "1.0"}}).refusal()
    assert "GK3201" in missing
    assert "1.0.0" in missing
    anonymous = bench(tmp_path / "x", shelf, secrets, **{**spec, "secretRef": None})
    assert "it requires credentials, and none were sent" in anonymous.refusal()
