"""Tags are listed with the Secret of the unit, by the rules for addresses that charts obey."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import DiagnosticError, Forbidden, NotFound
from gitkruise.gitops.images.tags import SeenTags, TagReader
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.analysis import SecretReference
from gitkruise.model.gitops.config import Reference, Unit, UnitSpec
from gitkruise.model.gitops.image_policy import (
    ChosenTag,
    FollowedImage,
    ImagePolicy,
    OrderPolicy,
    SemverPolicy,
)
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.clock import ManualClock
from tests.gitops.analysis.endpoint import fetch_now
from tests.gitops.charts.hosts import Host, serving
from tests.gitops.charts.real_registry import push, running

BASIC = "Basic " + base64.b64encode(b"ann:hunter2").decode()
UNIT = Unit("shop", "web", UnitSpec(source_ref=Reference("src")))
LIST = "/v2/shop/web/tags/list?n=1000"


class Secrets:
    """An API server with one Secret, or an error for it."""

    def __init__(self, found: dict[str, Any] | NotFound | Forbidden) -> None:
        self.found = found

    async def send(self, request: ApiRequest) -> ApiReply:
        assert (request.verb, request.namespace, request.name) == ("get", "shop", "regcred")
        if isinstance(self.found, Exception):
            raise self.found
        return ApiReply(200, self.found)


def encoded(**data: str) -> dict[str, str]:
    return {
        key.replace("__", "."): base64.b64encode(v.encode()).decode() for key, v in data.items()
    }


def secret(kind: str = "Opaque", **data: str) -> dict[str, Any]:
    meta = {"name": "regcred", "namespace": "shop"}
    return {"metadata": meta, "type": kind, "data": encoded(**data)}


@pytest.fixture
def host() -> Iterator[Host]:
    with serving() as found:
        found.has(LIST, json.dumps({"tags": ["1.0.0", "1.1.0", 7]}).encode())
        yield found


def image(host: Host, name: str = "shop/web", secret: str = "") -> FollowedImage:
    return FollowedImage(
        repository=f"{host.url.removeprefix('http://')}/{name}",
        policy=ImagePolicy(alphabetical=OrderPolicy()),
        secret_ref=SecretReference(name=secret) if secret else None,
    )


def seen(image: FollowedImage, transport: Any = None, unit: Unit = UNIT) -> SeenTags:
    given: Transport | None = transport
    reader = TagReader(unit=unit, transport=given, clock=ManualClock(), get=fetch_now)
    return asyncio.run(reader.read(image))


def refusal(image: FollowedImage, transport: Any = None) -> str:
    with pytest.raises(DiagnosticError) as caught:
        seen(image, transport)
    return "\n".join(map(str, (caught.value, *caught.value.findings[0].notes)))


def test_the_tags_are_those_of_the_registry(host: Host) -> None:
    found = seen(image(host))
    assert found == SeenTags(2, ChosenTag("1.1.0"), ManualClock().now())
    assert host.requests == [(LIST, "")]


def test_a_pull_secret_or_user_and_password_authenticate(host: Host) -> None:
    host.user = BASIC
    assert "it requires credentials, and none were sent" in refusal(image(host))
    known = secret(username="ann", password="hunter2")
    assert seen(image(host, secret="regcred"), Secrets(known)).count
    registry = host.url.removeprefix("http://")
    auths = {"auths": {registry: {"auth": BASIC.removeprefix("Basic ")}}}
    pull = secret("kubernetes.io/dockerconfigjson", __dockerconfigjson=json.dumps(auths))
    assert seen(image(host, secret="regcred"), Secrets(pull)).count


def test_the_authority_in_a_pull_secret_is_trusted(host: Host) -> None:
    auths = json.dumps({"auths": {host.url.removeprefix("http://"): {}}})
    kind = "kubernetes.io/dockerconfigjson"
    pull = secret(kind, __dockerconfigjson=auths, ca__crt="no certificate")
    error = refusal(image(host, secret="regcred"), Secrets(pull))
    assert "ca.crt of its Secret is not a certificate" in error


def test_a_pull_secret_of_another_registry_is_reported_to_have_no_login(host: Host) -> None:
    host.user = BASIC
    other = json.dumps({"auths": {"registry.example": {"auth": BASIC.removeprefix("Basic ")}}})
    pull = secret("kubernetes.io/dockerconfigjson", __dockerconfigjson=other)
    error = refusal(image(host, secret="regcred"), Secrets(pull))
    assert "none were sent (status 401); its Secret shop/regcred has no login for it" in error
    wrong = secret(username="ann", password="outdated")
    assert "it rejects the credentials" in refusal(image(host, secret="regcred"), Secrets(wrong))


REFUSED = [
    (None, "GK3507", "its Secret shop/regcred is in the cluster, and none was named"),
    (NotFound("no"), "GK3507", "its Secret shop/regcred does not exist"),
    (Forbidden("not you"), "GK3507", "its Secret shop/regcred is not readable: not you"),
    (secret(token="x"), "GK7025", "the Secret shop/regcred has no credentials for a registry"),
    (secret("kubernetes.io/dockerconfigjson", __dockerconfigjson="{"), "GK7025", "malformed"),
]


@pytest.mark.parametrize(("found", "code", "words"), REFUSED, ids=range(len(REFUSED)))
def test_a_secret_that_cannot_be_used_is_an_error(
    host: Host, found: Any, code: str, words: str
) -> None:
    error = refusal(image(host, secret="regcred"), found and Secrets(found))
    assert code in error
    assert words in error
    assert not host.requests


def test_an_image_that_the_registry_does_not_have_is_an_error(host: Host) -> None:
    assert "web2 cannot be read: the registry does not have it" in refusal(image(host, "shop/web2"))


def test_an_object_of_the_cluster_is_led_to_no_other_place(host: Host) -> None:
    custom = Unit("shop", "web", UnitSpec(source_ref=Reference("src")), custom=True)
    host.replies[LIST] = (307, {"Location": "http://169.254.169.254/latest"}, b"")
    with pytest.raises(DiagnosticError, match="only https:// is followed"):
        seen(image(host), unit=custom)


@pytest.mark.slow
def test_tags_of_a_real_registry_are_listed(tmp_path: Path) -> None:
    with running(tmp_path) as address:
        push(address, "shop/web", "1.0.0", "1.1.0", "latest")
        policy = ImagePolicy(semver=SemverPolicy(range="1.x"))
        found = FollowedImage(repository=f"{address}/shop/web", policy=policy)
        assert seen(found) == SeenTags(3, ChosenTag("1.1.0"), ManualClock().now())
        other = FollowedImage(repository=f"{address}/shop/other", policy=policy)
        assert "the registry does not have it" in refusal(other)
