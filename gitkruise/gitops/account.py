"""With whose rights a unit writes: those of the service account it names, or our own."""

from __future__ import annotations

from gitkruise.kube.impersonation import ActingFor
from gitkruise.kube.transport import Transport
from gitkruise.model.config import Unit
from gitkruise.wire.names import account_user


def account_of(unit: Unit) -> str:
    """The service account a unit names, as namespace/name; "" where it names none."""
    name = unit.spec.service_account_name
    return f"{unit.namespace}/{name}" if name else ""


def acting_as(account: str, transport: Transport) -> Transport:
    """What carries a unit's applies, dry runs and deletions, and asks for what it names.

    The inventory is read with our own rights: a unit that lost some must not lose sight.
    """
    if not account:
        return transport
    namespace, _, name = account.partition("/")
    return ActingFor(transport, account_user(namespace, name))


async def proven(transport: Transport) -> None:
    """See, before many requests, that they will count as those of the account.

    Raises ClusterFailed GK4302, or ApiError.
    """
    if isinstance(transport, ActingFor):
        await transport.prove()
