"""Charts of OCI registries: by test code for what it may answer, and of a real registry."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import DiagnosticError
from gitkruise.gitops.charts.cache import ChartCache
from gitkruise.gitops.charts.fetcher import ChartAnswer, ChartFetcher
from gitkruise.gitops.http_get import Access
from gitkruise.model.gitops.config import Helm, Reference, Render, Unit, UnitSpec
from tests.clock import ManualClock
from tests.git.helm_program import real
from tests.gitops.analysis.endpoint import fetch_now
from tests.gitops.charts.hosts import Host, chart, serving
from tests.gitops.charts.real_registry import running

USER = Access({"username": "ann", "password": "hunter2"})
BASIC = "Basic " + base64.b64encode(b"ann:hunter2").decode()
# `ann:hunter2`, as htpasswd -B writes it.
HTPASSWD = "ann:$2y$05$abcdefghijklmnopqrstuuoXuKqgZXLiJqzfmMXDDhSFPIvxV7t8.\n"
LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"


def unit_of(host: str, version: str, name: str = "web") -> Unit:
    repository = f"oci://{host.removeprefix('http://')}/charts"
    helm = Helm(repository=repository, chart=name, version=version)
    spec = UnitSpec(source_ref=Reference("src"), render=Render(kind="helm", helm=helm))
    return Unit("shop", "web", spec)


def answered(folder: Path, unit: Unit, access: Access | None = None) -> ChartAnswer:
    async def answer() -> ChartAnswer:
        fetcher = ChartFetcher(ChartCache(folder), ManualClock(), fetch_now)
        return await fetcher.fetched(unit, access or Access())

    return asyncio.run(answer())


def refusal(folder: Path, unit: Unit, access: Access | None = None) -> str:
    with pytest.raises(DiagnosticError) as caught:
        answered(folder, unit, access)
    return "\n".join(map(str, (caught.value, *caught.value.findings[0].notes)))


@pytest.fixture
def host() -> Iterator[Host]:
    with serving() as found:
        offer(found, "1.0.0+a", chart("1.0.0+a"))
        found.has("/v2/charts/web/tags/list?n=1000", tags("1.0.0_a"))
        yield found


def tags(*names: str) -> bytes:
    return json.dumps({"name": "charts/web", "tags": names}).encode()


def offer(host: Host, version: str, data: bytes, **layer: Any) -> None:
    """Have a version of charts/web as a registry has it."""
    digest = f"sha256:{hashlib.sha256(data).hexdigest()}"
    layers = [{"mediaType": LAYER, "digest": digest, "size": len(data), **layer}]
    manifest = json.dumps({"schemaVersion": 2, "layers": layers}).encode()
    named = {"Docker-Content-Digest": f"sha256:{hashlib.sha256(manifest).hexdigest()}"}
    host.has(f"/v2/charts/web/manifests/{version.replace('+', '_')}", manifest, **named)
    host.has(f"/v2/charts/web/blobs/{digest}", data)


def test_a_chart_is_a_blob_of_a_manifest(host: Host, tmp_path: Path) -> None:
    found = answered(tmp_path, unit_of(host.url, "1.x")).chart
    assert (found.version, found.digest) == (
        "1.0.0+a", hashlib.sha256(chart("1.0.0+a")).hexdigest(),
    )  # fmt: skip
    assert len(host.requests) == 3


def test_a_tag_that_is_pushed_again_is_noticed_by_a_range(host: Host, tmp_path: Path) -> None:
    again = chart("1.0.0+a", template="")
    clock = ManualClock()
    fetcher = ChartFetcher(ChartCache(tmp_path), clock, fetch_now)

    async def digest(version: str) -> str:
        found = (await fetcher.fetched(unit_of(host.url, version), Access())).chart
        return str(found.digest)

    async def script() -> None:
        first = await digest("1.x")
        await clock.sleep(30)
        assert [await digest("1.x"), await digest("1.x")] == [first, first]
        assert len(host.requests) == 3 + 2, host.paths  # the tags and the manifest, one time
        offer(host, "1.0.0+a", again)
        assert await digest("1.x") == first  # as it was a moment ago
        await clock.sleep(30)
        assert await digest("1.x") == hashlib.sha256(again).hexdigest() != first

    clock.run(script())


def test_tags_are_read_page_by_page(host: Host, tmp_path: Path) -> None:
    offer(host, "1.1.0", chart("1.1.0"))
    more = {"Link": '</v2/charts/web/tags/list?last=x>; rel="next"'}
    host.replies["/v2/charts/web/tags/list?n=1000"] = (200, more, tags("1.0.0_a", "latest"))
    host.has("/v2/charts/web/tags/list?last=x", tags("1.1.0"))
    assert answered(tmp_path, unit_of(host.url, "1.x")).chart.version == "1.1.0"
    host.replies["/v2/charts/web/tags/list?last=x"] = (200, more, tags())
    assert "pages of tags" in refusal(tmp_path, unit_of(host.url, "2.x"))


def test_a_token_is_asked_for_with_the_credentials(host: Host, tmp_path: Path) -> None:
    host.user = "Bearer t0ken"
    host.challenge = f'Bearer realm="{host.url}/token",service="r",scope="repository:web:pull"'
    asked = "/token?service=r&scope=repository:web:pull"
    host.has(asked, b'{"token": "t0ken"}')
    assert answered(tmp_path, unit_of(host.url, "1.0.0+a"), USER).chart.version == "1.0.0+a"
    assert (asked, BASIC) in host.requests
    assert {given for path, given in host.requests[2:] if path != asked} == {"Bearer t0ken"}
    host.replies[asked] = (401, {}, b"")
    error = refusal(tmp_path, unit_of(host.url, "1.x"), USER)
    assert "gives no token: it rejects the credentials (status 401)" in error
    host.replies[asked] = (403, {}, b"")
    error = refusal(tmp_path, unit_of(host.url, "1.x"))
    assert "gives no token: it forbids this (status 403)" in error
    host.challenge = 'Bearer realm="http://elsewhere.example/token"'
    assert "only https:// is followed" in refusal(tmp_path, unit_of(host.url, "1.x"), USER)


# A layer of the manifest, and why it gives no chart.
LAYERS = [
    ({"mediaType": "application/vnd.oci.image.layer.v1.tar"}, "it has no chart"),
    ({"digest": "sha512:0"}, "it has no chart"),
    ({"digest": "sha256:../../x"}, "it has no chart"),
    ({"digest": f"sha256:{'0' * 64}"}, "there is none (status 404)"),
]


@pytest.mark.parametrize(("layer", "why"), LAYERS)
def test_a_manifest_without_a_chart_is_an_error(
    host: Host, tmp_path: Path, layer: dict[str, Any], why: str
) -> None:
    offer(host, "1.0.0+a", chart("1.0.0+a"), **layer)
    assert why in refusal(tmp_path, unit_of(host.url, "1.0.0+a"))


def test_a_blob_is_what_its_digest_says(host: Host, tmp_path: Path) -> None:
    digest = hashlib.sha256(chart("1.0.0+a")).hexdigest()
    host.has(f"/v2/charts/web/blobs/sha256:{digest}", b"x")
    assert "GK3416" in refusal(tmp_path, unit_of(host.url, "1.0.0+a"))


def test_a_chart_that_cannot_be_read_is_no_fault_of_another(host: Host, tmp_path: Path) -> None:
    offer(host, "1.1.0", chart("1.1.0"), mediaType="x")
    host.has("/v2/charts/web/tags/list?n=1000", tags("1.0.0_a", "1.1.0"))
    host.replies["/v2/charts/private/tags/list?n=1000"] = (403, {}, b"")
    clock = ManualClock()
    fetcher = ChartFetcher(ChartCache(tmp_path), clock, fetch_now)

    async def error_of(version: str, name: str) -> str:
        try:
            return str((await fetcher.fetched(unit_of(host.url, version, name), Access())).chart)
        except DiagnosticError as error:
            return error.findings[0].message

    async def script() -> None:
        for _ in range(2):
            assert "chart private cannot be read" in await error_of("1.x", "private")
            assert "manifest of version 1.1.0: it has no chart" in await error_of("1.x", "web")
            assert await error_of("<1.1.0", "web") == "chart web 1.0.0+a"
            await clock.sleep(1)
        host.url, away = "http://127.0.0.1:1", host.url
        assert "connection refused" in await error_of("1.x", "web")
        assert "chart other cannot be read" in await error_of("1.x", "other")
        host.url = away

    clock.run(script())


# A real registry --------------------------------------------------------------------------------


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The address of a registry that wants credentials."""
    with running(tmp_path, HTPASSWD) as address:
        yield address


@pytest.mark.slow
def test_a_chart_that_helm_pushed_to_a_registry_is_fetched(served: str, tmp_path: Path) -> None:
    pushed = tmp_path / "pushed"
    pushed.mkdir()
    for version in ("1.0.0", "1.1.0+build.5"):
        (pushed / "web.tgz").write_bytes(chart(version))
        auth = {"auths": {served: {"auth": BASIC.removeprefix("Basic ")}}}
        (pushed / "config.json").write_text(json.dumps(auth))
        subprocess.run(
            [
                f"{real()}/helm", "push", str(pushed / "web.tgz"), f"oci://{served}/charts",
                "--plain-http", "--registry-config", str(pushed / "config.json"),
            ],
            env={"PATH": os.defpath, "HOME": str(pushed)}, check=True, capture_output=True,
        )  # fmt: skip
    state = tmp_path / "charts"
    found = answered(state, unit_of(served, "1.x"), USER).chart
    assert found.version == "1.1.0+build.5"
    assert Path(found.archive).read_bytes() == chart("1.1.0+build.5")
    assert answered(state, unit_of(served, "1.0.0"), USER).chart.version == "1.0.0"
    assert "none were sent" in refusal(tmp_path / "x", unit_of(served, "1.0.0"))
    wrong = replace(USER, data={**USER.data, "password": "canary"})
    error = refusal(tmp_path / "x", unit_of(served, "1.0.0"), wrong)
    assert "it rejects the credentials" in error
    assert "canary" not in error
    assert "there is no chart wbe" in refusal(state, unit_of(served, "1.0.0", "wbe"), USER)
    assert "'newest', '1.1.0+build.5, 1.0.0'" in refusal(state, unit_of(served, "9.x"), USER)
