"""Service accounts get tokens of their own, which hold until they end or their account does."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import Unauthorized
from gitkruise.kube.system.clock import ManualClock
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.http.authentication import Tokens
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.sandbox.served import Client

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ROBOT = "system:serviceaccount:default:robot"
GROUPS = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]


def token_of(client: Client, name: str) -> str:
    assert client.ask(ACCOUNTS, "POST", {"metadata": {"name": name}}).status == 201
    made = client.ask(f"{ACCOUNTS}/{name}/token", "POST", {"spec": {}})
    assert made.status == 201, made.data
    token: str = made.body["status"]["token"]
    return token


def test_a_token_is_its_accounts_and_ends_with_it(client: Client) -> None:
    token = token_of(client, "robot")
    headers = {"Authorization": f"Bearer {token}"}
    told = client.ask(WHO, "POST", {}, headers).body["status"]["userInfo"]
    assert told == {"username": ROBOT, "groups": GROUPS}
    status = client.ask(REVIEWS, "POST", {"spec": {"token": token}}).body["status"]
    assert (status["authenticated"], status["user"]) == (True, told)
    changed = token[:-2] + ("AA" if token[-2:] != "AA" else "BB")
    for other in (changed, token.rpartition(".")[0] + ".", "a.b.c", "..", "é.é.é"):
        bearer = {"Authorization": f"Bearer {other}"}
        assert client.ask(ACCOUNTS, headers=bearer).status == 401
        status = client.ask(REVIEWS, "POST", {"spec": {"token": other}}).body["status"]
        assert status == {"user": {}, "error": "invalid bearer token"}
    client.ask(f"{ACCOUNTS}/robot", "DELETE")
    assert client.ask(ACCOUNTS, headers=headers).status == 401
    assert token_of(client, "robot") != token
    assert client.ask(ACCOUNTS, headers=headers).status == 401, "another account of that name"


async def made(tokens: Tokens, subresource: str = "", **body: Any) -> Any:
    request = ApiRequest(
        verb="create",
        resource=ResourceRef("", "v1", "serviceaccounts"),
        namespace="default",
        name="a" if subresource else "",
        subresource=subresource,
        body=body,
    )
    if subresource:
        return (await tokens.issue(request)).body
    return (await tokens.cluster.handle(request)).body


@pytest.mark.parametrize(("later_s", "holds"), [(599, True), (600, False)])
def test_a_token_ends(cluster: Cluster, clock: ManualClock, later_s: int, holds: bool) -> None:
    tokens = Tokens(cluster, "admin")

    async def play() -> str:
        await made(tokens, metadata={"name": "a"})
        given = await made(tokens, subresource="token", spec={"expirationSeconds": 600})
        return str(given["status"]["token"])

    given = clock.run(play())
    clock.advance(later_s)
    if holds:
        assert tokens.user(given) == "system:serviceaccount:default:a"
        with pytest.raises(Unauthorized):
            Tokens(cluster, "another sandbox").user(given)
    else:
        with pytest.raises(Unauthorized):
            tokens.user(given)
