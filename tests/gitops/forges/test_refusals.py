"""Refusals of forges and chats in words: no JSON, no page, and where a redirect leads."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import msgspec
import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from gitkruise.errors import ApiError, TooManyRequests
from gitkruise.gitops.forges.factory import always
from gitkruise.gitops.forges.http import JsonClient, JsonReply
from gitkruise.kube.system.clock import SystemClock
from tests.clock import ManualClock

PAGE: Final = b"\n<!DOCTYPE html>\n<html><head><title> Sign in </title></head>\n<body>secrets"
MOVED: Final = "https://hub.example/api/v1/repos/shop/new/pulls"
DOCS: Final = "https://docs.example"
ROWS: Final[dict[str, tuple[int, Any, str]]] = {
    "github": (404, {"message": "Not Found", "documentation_url": DOCS, "status": "404"},
               "the server answered 404: Not Found"),
    "github, why": (
        422,
        {"message": "Validation Failed", "documentation_url": DOCS,
         "errors": [{"resource": "PullRequest", "code": "custom", "message": "it exists"}]},
        "the server answered 422: Validation Failed, it exists",
    ),
    "gitea": (403, {"message": "token does not have required scope", "url": DOCS},
              "the server answered 403: token does not have required scope"),
    "gitlab": (401, {"message": "401 Unauthorized"}, "the server answered 401: 401 Unauthorized"),
    "gitlab, fields": (400, {"message": {"base": ["is no branch"]}},
                       "the server answered 400: is no branch"),
    "gitlab, scope": (403, {"error": "insufficient_scope", "error_description": "needs api"},
                      "the server answered 403: needs api, insufficient_scope"),
    "page": (502, PAGE, "the server answered 502: a page (Sign in)"),
    "text": (500, b"out of\n\x1b[31mdisk", "the server answered 500: out of \\u001b[31mdisk"),
    "deep": (422, b"[" * 300 + b'"x"' + b"]" * 300, "the server answered 422: x"),
    "too deep": (422, b"[" * 2000, f"the server answered 422: {'[' * 300}"),
    "no answer": (200, b"[" * 200_000, "the answer is no JSON: it nests too deeply"),
    "nothing": (500, b"", "the server answered 500"),
    "login": (200, PAGE, "the answer is no JSON: a page (Sign in)"),
    "renamed": (301, b"{}",
                f"the server redirects (301) to {MOVED}; redirects are not followed"),
}  # fmt: skip


class Answering:
    """Gives one answer to everything."""

    def __init__(self, status: int, body: bytes, retry_after: str = "") -> None:
        headers = {"Location": f"{MOVED}?token=x"} if status == 301 else {}
        headers |= {"Retry-After": retry_after} if retry_after else {}
        self.asked = 0
        self._reply = JsonReply(status, CIMultiDictProxy(CIMultiDict(headers)), body)

    async def exchange(
        self, _method: str, _url: str, _headers: Mapping[str, str], _body: bytes | None
    ) -> JsonReply:
        self.asked += 1
        return self._reply


@pytest.mark.parametrize(("status", "body", "message"), ROWS.values(), ids=ROWS)
def test_a_refusal_is_reported_in_words(status: int, body: Any, message: str) -> None:
    data = body if isinstance(body, bytes) else msgspec.json.encode(body)
    forge = JsonClient(
        Answering(status, data), "https://hub.example", always("Authorization", "x"), SystemClock()
    )
    with pytest.raises(ApiError) as caught:
        asyncio.run(forge.get("/repos/shop/fleet/pulls"))
    assert caught.value.message == message


def test_nothing_is_asked_before_the_time_that_a_forge_names() -> None:
    """Whoever asks: several loops share an account, and each would shorten the others' pauses."""
    clock, limiting = ManualClock(), Answering(429, b'{"message": "slow down"}', "1800")
    token = "old"

    async def authorize() -> Mapping[str, str]:
        return {"Authorization": token}

    forge = JsonClient(limiting, "https://hub.example", authorize, clock)

    def left() -> int:
        with pytest.raises(TooManyRequests, match="slow down") as caught:
            clock.run(forge.get("/user"))
        return caught.value.details.retry_after_s

    assert (left(), limiting.asked) == (1800, 1)
    clock.advance(600)
    assert (left(), limiting.asked) == (1200, 1)
    clock.advance(1201)
    assert (left(), limiting.asked) == (1800, 2)
    token = "of another account"
    assert (left(), limiting.asked) == (1800, 3)
