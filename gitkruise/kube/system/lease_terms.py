"""Name and terms of the lease of the process that applies, for commands and for the controller.

No other process takes over before it saw the record of the holder unchanged for the whole duration.
With one look until it saw the record and one until it takes the lease, that is less than 13 seconds
after a holder that was killed. The holder itself stops earlier, and bytes of a write that the API
server has not taken by then do not outlive the lease in the kernel: a connection that heals later
must not carry them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

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


def is_held_for_good(lease: Mapping[str, Any]) -> bool:
    """Return whether an embedded cluster holds a lease, by its controllers inside."""
    return bool((lease.get("spec") or {}).get("holderIdentity") == EMBEDDED_HOLDER)


def shard_lease(controller: str, number: int) -> str:
    """Return the name of the Lease of a shard; `controller` is that of the controller's own."""
    return f"{controller}-shard-{number}"


def member_lease(controller: str, number: int) -> str:
    """Return the name of the Lease of one of the replicas that share the shards."""
    return f"{controller}-member-{number}"
