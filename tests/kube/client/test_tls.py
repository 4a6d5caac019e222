"""TLS: what is trusted, and the sentence for what is not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.errors import ClusterFailed, Unauthorized, Unavailable
from gitkruise.kube.auth.connection import Connection
from gitkruise.kube.client.connection_errors import cluster_failed
from gitkruise.wire.primitives.requests import OPENED, ApiRequest
from tests.kube.certificates import Pair, self_signed
from tests.kube.server import connection_to, reply, run, serving
from tests.kube.toy import CONFIG_MAPS

GET = ApiRequest(verb="get", resource=CONFIG_MAPS, namespace="shop", name="a")
WATCH = ApiRequest(verb="watch", resource=CONFIG_MAPS, namespace="shop")
OK = reply(200, b'{"kind":"ConfigMap"}')
Connect = Callable[[Connection], Connection]


def trusting(pair: Pair) -> Connect:
    return lambda connection: replace(connection, ca_pem=pair.cert_pem)


def test_a_trusted_server_and_a_client_certificate(tmp_path: Path) -> None:
    server, client = self_signed(), self_signed()
    context = server.server_context(tmp_path, client_ca=client.cert_pem)

    def connect(connection: Connection) -> Connection:
        return replace(
            trusting(server)(connection),
            client_cert_pem=client.cert_pem,
            client_key_pem=client.key_pem,
        )

    async def main() -> None:
        async with serving(OK, tls=context, connect=connect) as (transport, _):
            assert (await transport.send(GET)).status == 200

    run(main())


def test_a_client_certificate_that_was_renewed_is_used_after_a_refusal(tmp_path: Path) -> None:
    server, old, new = self_signed(), self_signed(), self_signed()
    context = server.server_context(tmp_path)
    pairs = [(new.cert_pem, new.key_pem)]

    def connect(connection: Connection) -> Connection:
        return replace(
            trusting(server)(connection),
            client_cert_pem=old.cert_pem,
            client_key_pem=old.key_pem,
            client_pair=lambda: pairs[-1],
        )

    async def main() -> None:
        refused = reply(401, b"expired")
        async with serving(refused, OK, *[refused] * 3, OK, tls=context, connect=connect) as (
            transport,
            _,
        ):
            first = transport.session()
            assert (await transport.send(GET)).status == 200
            second = transport.session()
            assert (transport.connection.client_cert_pem, first is second) == (new.cert_pem, False)
            with pytest.raises(Unauthorized):
                await transport.send(GET)
            assert transport.session() is second, "the same pair needs no new connections"
            pairs.append(("no certificate", "no key"))
            with pytest.raises(Unauthorized, match=r"a certificate or key for .* is unusable"):
                await transport.send(GET)
            assert (await transport.send(GET)).status == 200

    run(main())


def test_an_authority_that_was_renewed_is_trusted_without_a_restart(tmp_path: Path) -> None:
    shown, old = self_signed(), self_signed()
    authorities = [old.cert_pem]

    def connect(connection: Connection) -> Connection:
        return replace(trusting(old)(connection), authorities=lambda: authorities[-1])

    async def main() -> None:
        context = shown.server_context(tmp_path)
        async with serving(OK, OK, tls=context, connect=connect) as (transport, scripted):
            with pytest.raises(Unavailable, match="self-signed certificate"):
                await transport.send(GET)
            authorities.append("-----BEGIN nothing")
            with pytest.raises(Unauthorized, match=r"a certificate or key for .* is unusable"):
                await transport.send(GET)
            assert scripted.asked == []
            authorities.append(shown.cert_pem)
            assert (await transport.send(GET)).status == 200
            assert transport.connection.ca_pem == shown.cert_pem

    run(main())


def test_a_watch_reads_a_renewed_authority_for_the_next_one(tmp_path: Path) -> None:
    shown, old = self_signed(), self_signed()

    def connect(connection: Connection) -> Connection:
        return replace(trusting(old)(connection), authorities=lambda: shown.cert_pem)

    async def main() -> None:
        context = shown.server_context(tmp_path)
        async with serving(reply(200, b""), tls=context, connect=connect) as (transport, _):
            with pytest.raises(Unavailable):
                await anext(transport.watch(WATCH))
            async with aclosing(transport.watch(WATCH)) as stream:
                assert (await anext(stream)).type == OPENED

    run(main())


@pytest.mark.parametrize(
    ("shown", "trusts_it", "words"),
    [
        (self_signed(), False, "TLS handshake failed: self-signed certificate"),
        (self_signed("127.0.0.2"), True, "TLS handshake failed: IP address mismatch"),
        (self_signed(days=1), True, "TLS handshake failed: certificate has expired"),
    ],
    ids=["stranger", "other address", "expired"],
)
def test_untrusted_servers(tmp_path: Path, shown: Pair, trusts_it: bool, words: str) -> None:
    trusted = shown if trusts_it else self_signed()
    context = shown.server_context(tmp_path)

    async def main() -> None:
        async with serving(*[OK] * 5, tls=context, connect=trusting(trusted)) as (transport, s):
            with pytest.raises(Unavailable) as caught:
                await transport.send(GET)
            finding = cluster_failed(transport.connection, caught.value).findings[0]
        assert words in caught.value.message
        assert s.asked == []
        assert finding.code == "GK4101"
        assert finding.message.startswith("cannot reach the cluster at https://127.0.0.1:")

    run(main())


def test_a_broken_authority_is_named() -> None:
    connection = replace(connection_to("https://127.0.0.1:1"), ca_pem="-----BEGIN nothing")
    with pytest.raises(ClusterFailed, match=r"GK4106: a certificate or key for 127\.0\.0\.1:1"):
        connection.ssl_context()
