"""Name and terms of the lease of the process that applies, for commands and for the controller.

No other process takes over before it saw the record of the holder unchanged for the whole duration.
With one look until it saw the record and one until it takes the lease, that is less than 13 seconds
after a holder that was killed. The holder itself stops earlier, and bytes of a write that the API
server has not taken by then do not outlive the lease in the kernel: a connection that heals later
must not carry them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.errors import Finding

SYNC_LEASE: Final = "gitkruise-sync"  # of a controller without a name of its own
EMBEDDED_HOLDER: Final = "sandbox"  # for good, of the lease of what drives pods
DURATION_S: Final = 10
JOINT: Final = 3  # durations that a Lease of several replicas together lasts
SHARDS_MAX: Final = 32  # a role names the Leases of each
# Shares of the duration:
RENEW_WITHIN: Final = 2 / 3  # without a renewal for so long the holder stops writing
RENEW_EVERY: Final = 1 / 4
RETRY: Final = 2 / 15  # between two looks, and after a renewal that failed
UNSENT_WITHIN: Final = 1 / 4  # the kernel drops a connection whose bytes are not acknowledged


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseName:
    """Name of a Lease and identity of its holder. `identity` must differ between replicas.

    `predecessor` is the identity of a process that has certainly ended: its lease need not expire.
    Replicas with different durations are safe with each other: the longer one is waited out.
    `keeper` is a holder that keeps the lease by design, so that to wait for it is no fault. `rival`
    returns the reason never to wait for a holder, once that one has renewed the lease.

    A `joint` lease is held by all replicas that share its identity. No replica releases it or makes
    way: the others write under it. What one of them renews counts for all. It lasts longer than
    `duration_s`, for a replica learns of the renewals of others by its looks alone.
    """

    namespace: str
    name: str
    identity: str
    predecessor: str = ""
    duration_s: float = DURATION_S
    keeper: str = ""
    joint: bool = False
    rival: Callable[[str], Finding | None] = lambda _: None

    @property
    def lasts_s(self) -> float:
        """Return how long the lease lasts without a renewal."""
        return self.duration_s * JOINT if self.joint else self.duration_s


def is_held_for_good(lease: Mapping[str, Any]) -> bool:
    """Return whether an embedded cluster holds a lease, by its controllers inside."""
    return bool((lease.get("spec") or {}).get("holderIdentity") == EMBEDDED_HOLDER)


def shard_lease(controller: str, number: int) -> str:
    """Return the name of the Lease of a shard; `controller` is that of the controller's own."""
    return f"{controller}-shard-{number}"


def member_lease(controller: str, number: int) -> str:
    """Return the name of the Lease of one of the replicas that share the shards."""
    return f"{controller}-member-{number}"
