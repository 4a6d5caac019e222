"""Credentials and tokens as registries ask for them, and why they give nothing."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator

import pytest

from gitkruise.errors import Unavailable
from gitkruise.gitops.http_get import Access
from gitkruise.gitops.registry.distribution import RegistryRepository
from gitkruise.gitops.registry.requests import ContentHost
from tests.gitops.analysis.endpoint import fetch_now
from tests.gitops.charts.hosts import Host, serving

BASIC = "Basic " + base64.b64encode(b"ann:hunter2").decode()
ASKED = "/token?service=r&scope=repository:app:pull"


@pytest.fixture
def host() -> Iterator[Host]:
    with serving() as found:
        found.has("/v2/app/tags/list?n=1000", b'{"tags": ["v1"]}')
        found.has(ASKED, b'{"token": "one"}')
        yield found


def registry(host: Host) -> RegistryRepository:
    access = Access({"username": "ann", "password": "hunter2"})
    content = ContentHost(
        home=f"{host.url}/app", access=access, namespace="shop", guarded=False, fetch=fetch_now
    )
    return RegistryRepository(content)


def test_a_registry_may_ask_for_the_user_instead_of_a_token(host: Host) -> None:
    bearer = f'Bearer realm="{host.url}/token", service=r,Scope="repository:app:pull"'
    host.user, host.challenge = "Bearer one", f'Basic realm="any, bearer", {bearer}, Negotiate'
    read = registry(host)
    assert asyncio.run(read.tags()) == ["v1"]
    host.user, host.challenge = BASIC, 'Basic realm="registry"'
    assert asyncio.run(read.tags()) == ["v1"]
    host.user = "Basic another"
    with pytest.raises(Unavailable, match="it rejects the credentials"):
        asyncio.run(read.tags())


def test_a_registry_that_limits_requests_is_reported_to_do_so(host: Host) -> None:
    host.replies["/v2/app/tags/list?n=1000"] = (429, {"Retry-After": "60"}, b"")
    with pytest.raises(Unavailable) as caught:
        asyncio.run(registry(host).tags())
    words = "it limits how often it is asked, and asks for a pause of 60 s (status 429)"
    assert words in str(caught.value)
