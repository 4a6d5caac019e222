"""Deploy key of a cluster: an ssh key that only its Secret has, for one repository."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
)

from gitkruise.errors import Finding, NotFound, UsageProblem
from gitkruise.git.manifests.gpg_home import run
from gitkruise.git.plumbing.refs import parse_url
from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef

_SECRETS = ResourceRef("", "v1", "secrets")


@dataclass(frozen=True, slots=True)
class DeployKey:
    """The public line of a key, and its Secret where that is new; None where it exists."""

    public: str
    secret: Obj | None


async def deploy_key(
    transport: Transport, namespace: str, name: str, known_hosts: str
) -> DeployKey:
    """Return the key in a Secret, or a new key with the Secret to create.

    Raises UsageProblem GK7070 for a Secret without a usable ssh key, and ApiError.
    """
    request = ApiRequest(verb="get", resource=_SECRETS, namespace=namespace, name=name)
    try:
        found = (await transport.send(request)).body
    except NotFound:
        key = Ed25519PrivateKey.generate()
        identity = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
        return DeployKey(_public(key), _secret(namespace, name, identity, known_hosts))
    public = _public_of(get(found, "data", "identity", default=""))
    if not public:
        raise UsageProblem(_unusable(namespace, name))
    return DeployKey(public, None)


def host_keys(url: str, files: Iterable[Path]) -> str:
    """Return the lines of `known_hosts` files for the host of an ssh address. Blocking.

    A cluster trusts the keys that the user of the command trusts, and asks no host for its own.
    Raises UsageProblem GK7069 for another address, and for a host that is not in the files.
    """
    remote = parse_url(url)
    if remote.protocol != "ssh":
        advice = "name an ssh address with --url, such as git@git.example.com:shop/fleet"
        message = f"{url}: a deploy key is for ssh"
        raise UsageProblem(Finding(code="GK7069", message=message, notes=(("next", advice),)))
    port = urlsplit(url).port if "://" in url else None
    host = f"[{remote.host}]:{port}" if port not in {None, 22} else remote.host
    lines = [line for file in files if file.is_file() for line in _entries(host, file)]
    if not lines:
        ask = f"ssh -p {port} {remote.host}" if port else f"ssh {remote.host}"
        notes = (
            ("why", "the controller trusts the host keys that you trust, and no others"),
            ("unchanged", "the repository and the cluster"),
            ("next", f"{ask}, and compare the fingerprint with the one that the host publishes"),
        )
        message = f"{host} is not in your known_hosts"
        raise UsageProblem(Finding(code="GK7069", message=message, notes=notes))
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def _entries(host: str, file: Path) -> list[str]:
    """The lines of one file for a host, whose names may be hashed."""
    found = run(["ssh-keygen", "-F", host, "-f", str(file)], file.parent)
    if found.status not in {0, 1}:
        notes = (("why", found.stopped or found.errors.strip() or "ssh-keygen is not installed"),)
        message = f"{file} cannot be searched for {host}"
        raise UsageProblem(Finding(code="GK7069", message=message, notes=notes))
    lines = found.output.decode("utf-8", "replace").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def _secret(namespace: str, name: str, identity: bytes, known_hosts: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/name": "gitkruise"},
        },
        "type": "Opaque",
        "data": {
            key: base64.b64encode(value).decode()
            for key, value in (("identity", identity), ("known_hosts", known_hosts.encode()))
        },
    }


def _public_of(encoded: str) -> str:
    """The public line of the private key in a Secret; "" where it is none, or has a passphrase."""
    for load in (load_ssh_private_key, load_pem_private_key):
        try:
            return _public(load(base64.b64decode(encoded), None))
        except (ValueError, TypeError, AttributeError, UnsupportedAlgorithm):
            continue  # in the other format, of another kind of key, or locked
    return ""


def _public(key: Any) -> str:
    line: bytes = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return line.decode()


def _unusable(namespace: str, name: str) -> Finding:
    return Finding(
        code="GK7070",
        message=f"Secret {namespace}/{name} exists, and its `identity` is no ssh key without a "
        "passphrase",
        notes=(
            ("unchanged", "the Secret: a key that something uses is not replaced"),
            ("next", "name another Secret with --secret, or delete this one"),
        ),
    )
