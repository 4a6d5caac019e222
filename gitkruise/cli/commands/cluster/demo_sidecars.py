"""The two containers of a hot sidecar while they take turns in one pod, line by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.report.summary import tag_of
from gitkruise.wire.primitives.requests import PODS, ApiRequest

if TYPE_CHECKING:
    from gitkruise.kube.client.transport import Transport
    from gitkruise.kube.system.clock import Clock

NAMESPACE, LABEL, SIDECAR, EMPTY = "shop", "mesh=enabled", "proxy", "/empty:"
_WORKING: Final = "kruise.io/sidecarset-working-hotupgrade-container"
_LOOK_S: Final = 0.1


class Pair:
    """Follows the first pod whose pair changes, and prints each of its states once."""

    def __init__(self, transport: Transport, clock: Clock, say: Callable[[str], None]) -> None:
        self._transport, self._clock, self._say = transport, clock, say
        self._before: Mapping[str, str] = {}
        self._pod, self._printed = "", ""

    async def begin(self) -> None:
        """Look at the pods as they are before the change."""
        self.look(await self._pods())

    async def follow(self, speed: float) -> None:
        """Look at the pods until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_S / speed)
            self.look(await self._pods())

    async def _pods(self) -> list[PodFacts]:
        request = ApiRequest(
            verb="list",
            resource=PODS,
            namespace=NAMESPACE,
            params={"labelSelector": LABEL},
        )
        items: Sequence[Any] = (await self._transport.send(request)).body["items"]
        return [pod_facts(item) for item in items]

    def look(self, pods: Sequence[PodFacts]) -> None:
        """Print the new state of the followed pod; choose the pod if there is none yet."""
        states = {pod.name: described(pod) for pod in pods if pod.deleting is None}
        if not self._pod:
            changed = [n for n in sorted(states) if self._before.get(n, states[n]) != states[n]]
            if changed:
                self._pod = changed[0]
                self._print(self._before[self._pod])
            self._before = states
        if self._pod in states:
            self._print(states[self._pod])

    def _print(self, state: str) -> None:
        if state != self._printed:
            self._printed = state
            self._say(f"         {self._pod}  {state}")


def described(pod: PodFacts) -> str:
    """`proxy-1 v1.31 serves · proxy-2 waits`."""
    serving = pod.annotations.get(_WORKING, "")
    ready = {status.name: status.ready and _runs(pod, status.name) for status in pod.statuses}
    words = []
    for name in (f"{SIDECAR}-1", f"{SIDECAR}-2"):
        image = next((c.image for c in pod.containers if c.name == name), "")
        if EMPTY in image:
            words.append(f"{name} waits")
            continue
        what = "serves" if f'"{name}"' in serving else "still serves"
        words.append(f"{name} {tag_of(image)} {what if ready.get(name) else 'starts'}")
    return " · ".join(words)


def _runs(pod: PodFacts, name: str) -> bool:
    """Return whether the container runs the image that its spec names."""
    wanted = next((c.image for c in pod.containers if c.name == name), "")
    return any(status.image == wanted for status in pod.statuses if status.name == name)
