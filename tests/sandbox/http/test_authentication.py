"""Service accounts get tokens of their own, which hold until they end or their account does."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import Unauthorized
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.http.authentication import Tokens
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.clock import ManualClock
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
    user = client.ask(WHO, "POST", {}, headers).body["status"]["userInfo"]
    assert user == {"username": ROBOT, "groups": GROUPS}
    status = client.ask(REVIEWS, "POST", {"spec": {"token": token}}).body["status"]
    assert (status["authenticated"], status["user"]) == (True, user)
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


def bound(client: Client, spec: dict[str, Any]) -> Any:
    return client.ask(f"{ACCOUNTS}/bound/token", "POST", {"spec": spec})


def test_a_token_that_is_bound_to_an_object_ends_with_it(client: Client) -> None:
    secrets = "/api/v1/namespaces/default/secrets"
    assert client.ask(ACCOUNTS, "POST", {"metadata": {"name": "bound"}}).status == 201
    ref = {"kind": "Secret", "apiVersion": "v1", "name": "holder"}
    missing = bound(client, {"boundObjectRef": ref})
    assert (missing.status, missing.body["message"]) == (404, 'secrets "holder" not found')
    other = bound(client, {"boundObjectRef": {**ref, "kind": "ConfigMap"}})
    assert other.status == 400
    assert other.body["message"] == "cannot bind token to object of type /v1, Kind=ConfigMap"
    assert client.ask(secrets, "POST", {"metadata": {"name": "holder"}}).status == 201
    assert bound(client, {"boundObjectRef": {**ref, "uid": "of-another"}}).status == 409
    token = bound(client, {"boundObjectRef": ref}).body["status"]["token"]
    headers = {"Authorization": f"Bearer {token}"}
    assert client.ask(ACCOUNTS, headers=headers).status == 200
    assert client.ask(f"{secrets}/holder", "DELETE").status == 200
    assert client.ask(ACCOUNTS, headers=headers).status == 401


def test_a_token_is_bound_to_pods_of_its_account_alone(client: Client) -> None:
    pods = "/api/v1/namespaces/default/pods"
    client.ask(ACCOUNTS, "POST", {"metadata": {"name": "bound"}})
    pod = {"metadata": {"name": "other"}, "spec": {"containers": [{"name": "a", "image": "a:1"}]}}
    assert client.ask(pods, "POST", pod).status == 201
    ref = {"kind": "Pod", "apiVersion": "v1", "name": "other"}
    refused = bound(client, {"boundObjectRef": ref})
    assert (refused.status, "different serviceaccount" in refused.body["message"]) == (400, True)


def test_a_token_holds_for_its_audiences_alone(client: Client) -> None:
    client.ask(ACCOUNTS, "POST", {"metadata": {"name": "bound"}})
    token = bound(client, {"audiences": ["vault"]}).body["status"]["token"]
    assert client.ask(ACCOUNTS, headers={"Authorization": f"Bearer {token}"}).status == 401

    def status(**spec: Any) -> Any:
        return client.ask(REVIEWS, "POST", {"spec": {"token": token, **spec}}).body["status"]

    assert status() == {"user": {}, "error": "invalid bearer token"}
    assert status(audiences=["other", "vault"])["audiences"] == ["vault"]
