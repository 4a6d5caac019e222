"""TLS clients believe the sandbox for loopback names; certificates are renewed in time."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from gitkruise.errors import ClusterFailed
from gitkruise.kube.serve.certificates import is_due, new_authority, new_server, server_context
from gitkruise.sandbox.backend.state_dir import StateDir, renewed, stored_identity

NOW = datetime.now(UTC)  # noqa: TID251  TLS compares with the real clock


def handshake(server: ssl.SSLContext, ca: str, host: str) -> None:
    """A TLS handshake in memory; raises ssl.SSLError when the client does not believe."""
    client = ssl.create_default_context(cadata=ca)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(6):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ends[0].version() in {"TLSv1.2", "TLSv1.3"}


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_clients_believe_loopback_names(host: str) -> None:
    authority = new_authority(NOW)
    context = server_context(new_server(authority, NOW))
    handshake(context, authority.certificate.decode(), host)


@pytest.mark.parametrize("host", ["example.com", "10.0.0.1"])
def test_clients_believe_no_other_name(host: str) -> None:
    authority = new_authority(NOW)
    context = server_context(new_server(authority, NOW))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, authority.certificate.decode(), host)


def test_another_authority_is_not_believed() -> None:
    context = server_context(new_server(new_authority(NOW), NOW))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, new_authority(NOW).certificate.decode(), "localhost")


@pytest.mark.parametrize(("days", "due"), [(0, False), (59, False), (61, True), (91, True)])
def test_renewal_is_due_when_a_third_is_left(days: int, due: bool) -> None:
    pair = new_server(new_authority(NOW), NOW)
    assert is_due(pair, NOW + timedelta(days=days)) is due


def test_identity_is_kept_and_only_the_server_certificate_is_renewed(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "s")
    state.prepare()
    first = stored_identity(state, NOW)
    assert stored_identity(state, NOW) == first
    later = NOW + timedelta(days=70)
    fresh = renewed(state, first, later)
    assert fresh.server != first.server
    assert (fresh.authority, fresh.token) == (first.authority, first.token)
    assert stored_identity(state, later) == fresh
    assert all(p.stat().st_mode & 0o777 == 0o600 for p in state.root.iterdir())


def test_a_directory_others_can_write_is_refused(tmp_path: Path) -> None:
    state = StateDir(tmp_path)
    tmp_path.chmod(0o777)
    with pytest.raises(ClusterFailed, match="GK4112"):
        state.prepare()
    assert list(tmp_path.iterdir()) == []


def test_one_sandbox_a_directory(tmp_path: Path) -> None:
    state = StateDir(tmp_path / "s")
    state.prepare()
    assert not state.is_locked()
    with state.locked():
        assert state.is_locked()
        with pytest.raises(ClusterFailed, match="GK4113"), state.locked():
            pass
    assert not state.is_locked()


@pytest.mark.parametrize("other", ["rsa", "another", "encrypted"])
def test_a_key_that_is_not_the_certificates_is_refused(tmp_path: Path, other: str) -> None:
    state = StateDir(tmp_path / "state")
    state.prepare()
    stored_identity(state, NOW)
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    key: rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey = ec.generate_private_key(ec.SECP256R1())
    if other == "rsa":
        key = rsa.generate_private_key(65_537, 2_048)
    if other == "encrypted":
        encryption = serialization.BestAvailableEncryption(b"word")
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    (state.root / "ca.key").write_bytes(pem)
    with pytest.raises(ClusterFailed, match="GK4115"):
        stored_identity(state, NOW)
    assert (state.root / "ca.key").read_bytes() == pem
