"""The webhook's certificates: made, kept where all replicas find them, and renewed in time."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

from cryptography import x509
from cryptography.hazmat.primitives import serialization

from gitkruise.errors import AlreadyExists, ClusterFailed, Conflict, Finding
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.serve.certificates import (
    KeyPair,
    hosts_of,
    is_due,
    new_authority,
    new_server,
    signed_by,
)
from gitkruise.kube.system.private_files import read_state, write_private
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef

log: Final = logging.getLogger(__name__)

SECRETS: Final = ResourceRef("", "v1", "secrets")
SECRET: Final = "gitkruise-webhook"  # noqa: S105  its name
AUTHORITY: Final = "gitkruise webhook authority"
NEW_AUTHORITY_BEFORE: Final = timedelta(days=365)
FILES: Final = ("ca.crt", "ca.key", "tls.crt", "tls.key")
TRIES_MAX: Final = 5
BUNDLE_MAX: Final = 4  # authorities trusted at a time


@dataclass(frozen=True, slots=True)
class ServingCertificates:
    """`bundle` are all authorities to be trusted, PEM, the newest first; `authority` is that."""

    authority: KeyPair
    server: KeyPair
    bundle: bytes

    def files(self) -> dict[str, bytes]:
        return dict(
            zip(
                FILES,
                (self.bundle, self.authority.key, self.server.certificate, self.server.key),
                strict=True,
            )
        )


def credentials_of(files: Mapping[str, bytes]) -> ServingCertificates | None:
    """Decode stored certificates; None if a part is missing. Raises ValueError."""
    bundle, ca_key, certificate, key = (files.get(name, b"") for name in FILES)
    if not all((bundle, ca_key, certificate, key)):
        return None
    newest = x509.load_pem_x509_certificates(bundle)[0]
    authority = KeyPair(newest.public_bytes(serialization.Encoding.PEM), ca_key)
    server = KeyPair(certificate, key)
    for pair in (authority, server):
        serialization.load_pem_private_key(pair.key, password=None)
        pair.expires()
    return ServingCertificates(authority, server, bundle)


def renewed(
    known: ServingCertificates | None, hosts: Sequence[str], now: datetime
) -> ServingCertificates:
    """Return `known` with every part renewed that is missing, expires soon or has other hosts.

    A new authority is trusted next to the old one until that expires; the server's certificate
    moves to it at its next renewal, so that both never change at the same time.
    """
    if known is None or known.authority.expires() <= now:
        authority = new_authority(now, AUTHORITY)
        return ServingCertificates(
            authority, new_server(authority, now, hosts), authority.certificate
        )
    if known.authority.expires() - now < NEW_AUTHORITY_BEFORE:
        authority = new_authority(now, AUTHORITY)
        known = replace(known, authority=authority, bundle=authority.certificate + known.bundle)
    known = replace(known, bundle=_living(known.bundle, now))
    server = known.server
    if is_due(server, now) or hosts_of(server) != set(hosts) or not _trusted(server, known.bundle):
        return replace(known, server=new_server(known.authority, now, hosts))
    return known


def _living(bundle: bytes, now: datetime) -> bytes:
    found = x509.load_pem_x509_certificates(bundle)
    kept = [c for c in found if c.not_valid_after_utc > now][:BUNDLE_MAX]
    return b"".join(c.public_bytes(serialization.Encoding.PEM) for c in kept)


def _trusted(server: KeyPair, bundle: bytes) -> bool:
    authorities = x509.load_pem_x509_certificates(bundle)
    return any(
        signed_by(server, KeyPair(a.public_bytes(serialization.Encoding.PEM), b""))
        for a in authorities
    )


class CertificateStore(Protocol):
    """Storage of certificates. `mark` identifies a version; "" without one."""

    async def read(self) -> tuple[Mapping[str, bytes], str]: ...

    async def write(self, files: Mapping[str, bytes], mark: str) -> bool:
        """Store files; return False when another process wrote meanwhile."""
        ...


class SecretVault:
    """A Secret that all replicas read."""

    def __init__(self, transport: Transport, namespace: str) -> None:
        self._transport, self._namespace = transport, namespace

    async def read(self) -> tuple[Mapping[str, bytes], str]:
        secret = await find_object(self._transport, SECRETS, SECRET, self._namespace)
        if secret is None:
            return {}, ""
        data = {name: base64.b64decode(text) for name, text in (secret.get("data") or {}).items()}
        return data, str(secret["metadata"]["resourceVersion"])

    async def write(self, files: Mapping[str, bytes], mark: str) -> bool:
        meta: dict[str, Any] = {"name": SECRET, "namespace": self._namespace}
        meta["labels"] = {"app.kubernetes.io/name": "gitkruise"}
        if mark:
            meta["resourceVersion"] = mark
        body: Obj = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta,
            "type": "Opaque",
            "data": {name: base64.b64encode(data).decode() for name, data in files.items()},
        }
        request = ApiRequest(
            verb="update" if mark else "create",
            resource=SECRETS,
            namespace=self._namespace,
            name=SECRET if mark else "",
            body=body,
        )
        try:
            await self._transport.send(request)
        except (AlreadyExists, Conflict):
            return False
        return True


class FolderVault:
    """Files of mode 0600 below one folder, for a process outside a cluster."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self) -> tuple[Mapping[str, bytes], str]:
        return await asyncio.to_thread(self._read), "here"

    def _read(self) -> Mapping[str, bytes]:
        paths = {name: self._folder / name for name in FILES}
        found = {name: read_state(path) for name, path in paths.items()}
        return {name: data for name, data in found.items() if data is not None}

    async def write(self, files: Mapping[str, bytes], mark: str) -> bool:
        del mark
        await asyncio.to_thread(self._write, files)
        return True

    def _write(self, files: Mapping[str, bytes]) -> None:
        for name, data in files.items():
            write_private(self._folder / name, data)


async def current(
    store: CertificateStore, hosts: Sequence[str], now: datetime
) -> ServingCertificates:
    """Return the stored certificates, renewed if due. Raises ApiError, ClusterFailed GK5112."""
    for _ in range(TRIES_MAX):
        files, mark = await store.read()
        try:
            known = credentials_of(files)
        except ValueError as error:
            raise _unreadable(error) from error
        fresh = renewed(known, hosts, now)
        if fresh == known:
            return fresh
        if await store.write(fresh.files(), mark):
            log.info(
                log_line("certificates-created", host=hosts[0], expires=fresh.server.expires())
            )
            return fresh
    raise _unreadable(ValueError("others keep changing them"))


def _unreadable(error: Exception) -> ClusterFailed:
    return ClusterFailed(
        Finding(
            code="GK5112",
            message="the webhook's certificates cannot be used",
            notes=(
                ("why", str(error)[:200]),
                ("unchanged", "the stored files were not written"),
                ("next", f"delete the Secret {SECRET} (or the folder); gitkruise creates new ones"),
            ),
        )
    )
