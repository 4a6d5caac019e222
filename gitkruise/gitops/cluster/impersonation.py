"""Impersonation: a unit writes with the rights of its service account, or with our own."""

from __future__ import annotations

from gitkruise.kube.client.transport import Transport
from gitkruise.kube.client.wrappers import ActingFor
from gitkruise.model.gitops.config import Unit
from gitkruise.wire.primitives.names import account_user


def account_of(unit: Unit) -> str:
    """Return the service account of a unit as namespace/name; "" if it names none."""
    name = unit.spec.service_account_name
    return f"{unit.namespace}/{name}" if name else ""


def acting_as(account: str, transport: Transport) -> Transport:
    """Return the transport for a unit's applies, dry runs, deletions and reads of what it names.

    The inventory is read with our own rights: a unit that lost some must still see its objects.
    """
    if not account:
        return transport
    namespace, _, name = account.partition("/")
    return ActingFor(transport, account_user(namespace, name))


async def proven(transport: Transport) -> None:
    """Prove before many requests that the API server counts them as those of the account.

    Raises ClusterFailed GK4302, or ApiError.
    """
    if isinstance(transport, ActingFor):
        await transport.prove()
