"""A request leaves a process only if its check passes at that moment, and not when it was made."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gitkruise.errors import ApiError, NotLeading
from gitkruise.kube.cache.leader_election import FencedTransport, Lease
from gitkruise.kube.client.transport import SEND_CHECK
from gitkruise.kube.system.lease_terms import LeaseName
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiReply, ApiRequest
from tests.clock import ManualClock
from tests.kube.server import reply, run, serving
from tests.kube.toy import CONFIG_MAPS, Toy

PATCH = ApiRequest(
    verb="patch", resource=CONFIG_MAPS, namespace="shop", name="a",
    body={"data": {"a": "1"}}, content_type=MERGE_PATCH,
)  # fmt: skip
DELETE = ApiRequest(verb="delete", resource=CONFIG_MAPS, namespace="shop", name="a")


def passes(times: int) -> Callable[[], None]:
    """A check that passes so many times."""
    left = iter(range(times))

    def check() -> None:
        if next(left, None) is None:
            raise NotLeading("another holds the lease")

    return check


@pytest.mark.parametrize(
    ("request_", "times"), [(PATCH, 0), (PATCH, 1), (DELETE, 0)],
    ids=["before the head", "between head and body", "without a body"],
)  # fmt: skip
def test_what_its_check_refuses_does_not_leave(request_: ApiRequest, times: int) -> None:
    async def main() -> None:
        async with serving(reply(200)) as (transport, server):
            token = SEND_CHECK.set(passes(times))
            with pytest.raises(ApiError):
                await transport.send(request_)
            SEND_CHECK.reset(token)
            assert server.asked == []
            assert (await transport.send(request_)).status == 200
        assert len(server.asked) == 1

    run(main())


class _Stopped(Toy):
    """A server whose client was stopped for an hour on its way to it."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__()
        self._clock, self.refused = clock, False

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.resource != CONFIG_MAPS:
            return await super().send(request)
        SEND_CHECK.get()()
        self._clock.advance(3600)
        with pytest.raises(NotLeading):
            SEND_CHECK.get()()
        self.refused = True
        raise NotLeading("stopped")


def test_the_check_of_a_fenced_write_is_the_time_of_its_lease() -> None:
    clock = ManualClock()
    toy = _Stopped(clock)
    lease = Lease(LeaseName(namespace="ops", name="gitkruise", identity="a"), toy, clock)

    async def main() -> None:
        with pytest.raises(ExceptionGroup) as lost:
            async with lease.held():
                await FencedTransport(toy, lease).send(PATCH)
        assert lost.group_contains(NotLeading)

    clock.run(main())
    assert toy.refused
    SEND_CHECK.get()()  # outside of a write there is none
