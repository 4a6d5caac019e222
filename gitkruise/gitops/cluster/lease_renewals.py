"""Second looks at Leases, because their times are of the clocks of their holders.

`renewTime` is a time of the holder's clock. Where clocks differ, a Lease in use looks old: only a
second look shows that it is renewed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.names import Obj

_SHARE: Final = 1 / 3  # of its duration, within which a holder renews a Lease
_LEAST_S, _LONGEST_S = 4.0, 20.0  # OpenKruise and gitkruise renew every 2 to 3 s by default


async def renewed_meanwhile(
    specs: Mapping[str, Obj], read: Callable[[str], Awaitable[Obj]], clock: Clock
) -> frozenset[str]:
    """Return the names of the Leases with these `specs` that are renewed while their holders should
    do so; `read` returns the spec of one later, {} without one."""
    held = {name: spec for name, spec in specs.items() if spec.get("holderIdentity")}
    if not held:
        return frozenset()
    lasts_s = max(float(spec.get("leaseDurationSeconds") or 0) for spec in held.values())
    await clock.sleep(min(max(lasts_s * _SHARE, _LEAST_S), _LONGEST_S))
    later = {name: await read(name) for name in held}
    return frozenset(
        name
        for name, spec in held.items()
        if later[name].get("holderIdentity")
        and later[name].get("renewTime") != spec.get("renewTime")
    )
