"""Calls of registered webhooks over HTTPS, within their timeouts and without redirects."""

from __future__ import annotations

import asyncio
import base64
import ssl
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

import aiohttp
from yarl import URL

from gitkruise.admission.builtin.endpoints import SLICE
from gitkruise.admission.webhooks.matching import Webhook
from gitkruise.admission.webhooks.responses import REVIEW, WebhookReply
from gitkruise.errors import TooLarge
from gitkruise.kube.client.codec import decode, encode
from gitkruise.kube.client.responses import whole
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.endpoint_slices import SERVICE_NAME
from gitkruise.world.store.webhook_rounds import ReviewRequest

HTTPS: Final = 443
ANSWER_MAX: Final = 8 << 20  # bytes: a patch may replace all of an object
SPOKEN: Final = "v1"  # version of AdmissionReview
CONNECTIONS_MAX: Final = 100
TRIES: Final = 2  # a kept connection may have been closed from the other end meanwhile
BODY_SHOWN: Final = 2048  # bytes of an answer that is no review
HEADERS: Final = {
    "Content-Type": "application/json",
    "Accept": "application/json, */*",
    "User-Agent": "kube-apiserver-admission",
}
# What client-go says of an answer that is no success. Source: NewGenericServerResponse.
_STATUS_TEXTS: Final[Mapping[int, str]] = {
    400: "the server rejected our request for an unknown reason",
    401: "the server has asked for the client to provide credentials",
    404: "the server could not find the requested resource",
    405: "the server does not allow this method on the requested resource",
    409: "the server reported a conflict",
    413: "the server responded with the status code 413 but did not return more information",
    422: "the server rejected our request due to an error in our request",
    429: "the server has received too many requests and has asked us to try again later",
    503: "the server is currently unable to handle the request",
    504: "the server was unable to return a response in the time allotted, but may still be"
    " processing the request",
}
_UNTRUSTED, _EXPIRED, _OTHER_NAME = frozenset({18, 19, 20, 21}), 10, 62  # of OpenSSL


class WebhookCalls:
    """Client of all webhooks, with one connection pool."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, world: World, questions: Sequence[ReviewRequest]
    ) -> dict[str, WebhookReply]:
        """Call all webhooks concurrently; return the answers by digest. Never raises."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._ask(world, question)) for question in questions]
        return {q.digest: task.result() for q, task in zip(questions, tasks, strict=True)}

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None
            await asyncio.sleep(0)  # sockets cut just now close in the loop's next round

    async def _ask(self, world: World, question: ReviewRequest) -> WebhookReply:
        webhook, uid = question.webhook, str(uuid.uuid4())
        if SPOKEN not in webhook.versions:
            return WebhookReply(
                uid, failure=f"it takes none but {', '.join(webhook.versions)} reviews"
            )
        review = {
            "kind": "AdmissionReview",
            "apiVersion": REVIEW,
            "request": {"uid": uid, **question.request},
        }
        shown = named(webhook.client, webhook.timeout_s)
        try:
            place = place_of(world, webhook.client, webhook.timeout_s)
            async with asyncio.timeout(webhook.timeout_s):
                status, data = await self._post(place, webhook, encode(review))
        except TimeoutError:
            return WebhookReply(uid, failure=f'Post "{shown}": context deadline exceeded')
        except Nowhere as error:
            return WebhookReply(uid, failure=f'Post "{shown}": {error}')
        except TooLarge:
            return WebhookReply(uid, failure=f"its answer is larger than {ANSWER_MAX} bytes")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            return WebhookReply(uid, failure=f'Post "{shown}": {_why(error)}')
        return _read(uid, status, data)

    async def _post(
        self, place: EndpointAddress, webhook: Webhook, body: bytes
    ) -> tuple[int, bytes]:
        for turn in range(TRIES):
            try:
                async with self._pool().post(
                    URL(place.url, encoded=True),
                    data=body,
                    headers=HEADERS,
                    ssl=_trusting(webhook.client.get("caBundle") or ""),
                    server_hostname=place.server_name,
                    allow_redirects=False,
                ) as response:
                    return response.status, await whole(response.content, ANSWER_MAX)
            except aiohttp.ServerDisconnectedError:
                if turn + 1 == TRIES:
                    raise
        raise AssertionError

    def _pool(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX),
                timeout=aiohttp.ClientTimeout(total=None),  # each webhook has its own
                cookie_jar=aiohttp.DummyCookieJar(),
                trust_env=False,
            )
        return self._session


@lru_cache(maxsize=64)
def _trusting(bundle: str) -> ssl.SSLContext:
    """TLS with the authorities of a caBundle (base64 of PEM), or those of the system.

    Raises ValueError and ssl.SSLError for a bundle that holds no certificates.
    """
    if not bundle:
        return ssl.create_default_context()
    return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())


def _read(uid: str, status: int, data: bytes) -> WebhookReply:
    """Source: transformResponse of client-go and the decoder behind it."""
    if not 200 <= status < 300:
        return WebhookReply(uid, failure=_unsuccessful(status, data))
    try:
        body = decode(data)
    except ValueError as error:
        why = f"couldn't get version/kind; json parse error: {error}"
        return WebhookReply(uid, failure=why)
    failure = _not_a_review(body)
    return WebhookReply(uid, failure=failure) if failure else WebhookReply(uid, body)


def _unsuccessful(status: int, data: bytes) -> str:
    text = data[:BODY_SHOWN].decode(errors="replace").strip()
    if 300 <= status < 400:
        return f"the webhook answers with a redirect ({status}), which is not followed"
    if status >= 500 and status not in _STATUS_TEXTS:
        shown = text.replace("\\", "\\\\").replace('"', '\\"') or "unknown"
        return f'an error on the server ("{shown}") has prevented the request from succeeding'
    if status in (403, 406, 415):
        return text or "unknown"
    return _STATUS_TEXTS.get(
        status,
        f"the server responded with the status code {status} but did not return more information",
    )


def _not_a_review(body: Any) -> str:
    """Return why the body is not a review, or ""; a body without a kind counts as one."""
    if not isinstance(body, dict):
        return "couldn't get version/kind; json parse error: it is no object"
    kind, version = body.get("kind") or "AdmissionReview", body.get("apiVersion") or REVIEW
    if (kind, version) != ("AdmissionReview", REVIEW):
        return f'no kind "{kind}" of version "{version}" is expected as the answer'
    return ""


def _why(error: BaseException) -> str:
    """Go's words for what happened to a connection, where there is one for it."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return _untrusted(error.certificate_error)
    if isinstance(error, aiohttp.ClientConnectorError):
        inner = error.os_error
        if isinstance(inner, ConnectionRefusedError):
            return f"dial tcp {error.host}:{error.port}: connect: connection refused"
        return f"dial tcp {error.host}:{error.port}: {inner.strerror or inner}"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    return str(error) or type(error).__name__


def _untrusted(error: Exception) -> str:
    prefix = "tls: failed to verify certificate: x509:"
    code = getattr(error, "verify_code", 0)
    if code in _UNTRUSTED:
        return f"{prefix} certificate signed by unknown authority"
    if code == _EXPIRED:
        return f"{prefix} certificate has expired or is not yet valid"
    return f"{prefix} {getattr(error, 'verify_message', '') or error}"


class Nowhere(Exception):
    """No address of a service can be called from here; the message has the reason."""


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """`named` is the address as messages show it; `url` the one that is called."""

    named: str
    url: str
    server_name: str | None = None  # of the certificate, where it is not the host of `url`


def named(client: Obj, timeout_s: int) -> str:
    """The address of a clientConfig as kube-apiserver shows it in messages."""
    service = client.get("service")
    if service is None:
        return f"{client['url']}?timeout={timeout_s}s"
    host = f"{service['name']}.{service['namespace']}.svc:{service.get('port') or HTTPS}"
    return f"https://{host}{_path(service)}?timeout={timeout_s}s"


def place_of(world: World, client: Obj, timeout_s: int) -> EndpointAddress:
    """Raises Nowhere for a service without an address that a program of this host can have.

    A service is looked up as kube-apiserver does it, but for its last step: nothing routes a
    cluster IP here, so the addresses behind it are called. Pods are simulated and answer nothing.
    """
    shown, service = named(client, timeout_s), client.get("service")
    if service is None:
        return EndpointAddress(shown, shown)
    namespace, name, port = service["namespace"], service["name"], service.get("port") or HTTPS
    found = world.get(ObjectKey("", "Service", namespace, name))
    if found is None:
        raise Nowhere(f'service "{name}" not found')
    host, number = _address(world, found, port)
    host = f"[{host}]" if ":" in host else host
    url = urlunsplit(urlsplit(shown)._replace(netloc=f"{host}:{number}"))
    return EndpointAddress(shown, url, f"{name}.{namespace}.svc")


def _path(service: Obj) -> str:
    path = str(service.get("path") or "")
    return path if path.startswith("/") or not path else f"/{path}"


def _address(world: World, service: Obj, port: int) -> tuple[str, int]:
    name, spec = service["metadata"]["name"], service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName")), port
    ports = [one for one in spec.get("ports") or () if one.get("port") == port]
    if not ports:
        raise Nowhere(f'no service port {port} found for service "{name}"')
    simulated = False
    for address, number, pod in _behind(world, service, str(ports[0].get("name") or "")):
        if not pod:
            return address, number
        simulated = True
    if simulated:
        raise Nowhere(
            f'service "{name}" leads to pods, which are simulated here and answer nothing:'
            " let it be of type ExternalName with externalName localhost, or use clientConfig.url"
        )
    raise Nowhere(f'no endpoints available for service "{name}"')


def _behind(world: World, service: Obj, port: str) -> Iterator[tuple[str, int, bool]]:
    """(address, port, whether a pod's) of everything that serves the port of that name."""
    meta = service["metadata"]
    namespace, name = meta["namespace"], meta["name"]
    for piece in world.objects(SLICE, namespace):
        if (piece["metadata"].get("labels") or {}).get(SERVICE_NAME) == name:
            for number in _numbers(piece.get("ports"), port):
                for one in piece.get("endpoints") or ():
                    if get(one, "conditions", "ready") is not False:
                        yield one["addresses"][0], number, _is_pod(one)
    listed = world.get(ObjectKey("", "Endpoints", namespace, name)) or {}
    for subset in listed.get("subsets") or ():
        for number in _numbers(subset.get("ports"), port):
            for one in subset.get("addresses") or ():
                yield one["ip"], number, _is_pod(one)


def _numbers(ports: Any, name: str) -> Iterator[int]:
    for one in ports or ():
        if str(one.get("name") or "") == name and one.get("port"):
            yield int(one["port"])


def _is_pod(one: Obj) -> bool:
    return bool(get(one, "targetRef", "kind") == "Pod")
