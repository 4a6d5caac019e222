"""Certificates in files: what is refused, and how a renewed one is seen."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import pytest

from gitkruise.errors import UsageProblem
from gitkruise.kube.serve.certificates import KeyPair, new_authority, new_server
from gitkruise.kube.serve.tls_files import RELOAD_S, TlsFiles
from gitkruise.kube.system.clock import SystemClock
from tests.clock import ManualClock

NOW = SystemClock().now()  # TLS checks certificates against the machine's clock
AUTHORITY = new_authority(NOW)
FIRST, SECOND = new_server(AUTHORITY, NOW), new_server(AUTHORITY, NOW)


def written(folder: Path, certificate: bytes, key: bytes) -> TlsFiles:
    files = TlsFiles(folder / "tls.crt", folder / "tls.key")
    files.certificate.write_bytes(certificate)
    files.key.write_bytes(key)
    return files


LOCKED = b"""-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAg=
-----END ENCRYPTED PRIVATE KEY-----
"""
REFUSED: dict[str, tuple[bytes, bytes]] = {
    "no certificate": (b"", FIRST.key),
    "no PEM": (b"tls", FIRST.key),
    "no key": (FIRST.certificate, b""),
    "the key of another": (FIRST.certificate, SECOND.key),
    "a key with a passphrase": (FIRST.certificate, LOCKED),
}


@pytest.mark.parametrize("row", REFUSED)
def test_files_that_cannot_serve_are_refused(tmp_path: Path, row: str) -> None:
    files = written(tmp_path, *REFUSED[row])
    with pytest.raises(UsageProblem) as refused:
        files.context()
    (finding,) = refused.value.findings
    assert finding.code == "GK7055"
    assert str(files.certificate) in finding.message


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="No such file"):
        TlsFiles(tmp_path / "none", tmp_path / "none.key").context()


def shown(context: ssl.SSLContext) -> bytes:
    """The certificate that a client sees."""
    client_in, client_out = ssl.MemoryBIO(), ssl.MemoryBIO()
    trust = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    client = trust.wrap_bio(client_in, client_out, server_hostname="localhost")
    server = context.wrap_bio(client_out, client_in, server_side=True)
    for side in (client, server, client, server):
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return client.getpeercert(binary_form=True) or b""


def der(pair: KeyPair) -> bytes:
    return ssl.PEM_cert_to_DER_cert(pair.certificate.decode())


def test_a_renewed_certificate_is_seen_within_a_minute(tmp_path: Path) -> None:
    files, clock = written(tmp_path, FIRST.certificate, FIRST.key), ManualClock()
    context = files.context()
    assert shown(context) == der(FIRST)

    async def body() -> None:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(files.follow(context, clock))
            await clock.sleep(1)
            files.certificate.write_bytes(SECOND.certificate)  # half of a renewal
            await clock.sleep(RELOAD_S)
            assert shown(context) == der(FIRST)
            files.key.write_bytes(SECOND.key)
            await clock.sleep(RELOAD_S)
            assert shown(context) == der(SECOND)
            files.key.unlink()
            await clock.sleep(RELOAD_S)
            assert shown(context) == der(SECOND)
            following.cancel()

    clock.run(body())
