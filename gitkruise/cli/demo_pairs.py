"""The two containers of a hot sidecar as they take turns in one pod, told line by line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from gitkruise.model.pod import PodFacts, pod_facts
from gitkruise.planner.sync.summary import tag_of
from gitkruise.wire.request import PODS, ApiRequest

if TYPE_CHECKING:
    from gitkruise.kube.clock import Clock
    from gitkruise.kube.transport import Transport

NAMESPACE, LABEL, SIDECAR, EMPTY = "shop", "mesh=enabled", "proxy", "/empty:"
_WORKING: Final = "kruise.io/sidecarset-working-hotupgrade-container"
_LOOK_S: Final = 0.1


class Pair:
    """Follows the first pod whose pair changes, and says each state it passes through once."""

    def __init__(self, transport: Transport, clock: Clock, say: Callable[[str], None]) -> None:
        self._transport, self._clock, self._say = transport, clock, say
        self._before: Mapping[str, str] = {}
        self._pod, self._told = "", ""

    async def follow(self, speed: float) -> None:
        """Until cancelled."""
        while True:
            self.look(await self._pods())
            await self._clock.sleep(_LOOK_S / speed)

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
        """Say what is new of the pod that is followed; choose it when there is none yet."""
        states = {pod.name: described(pod) for pod in pods if pod.deleting is None}
        if not self._pod:
            changed = [n for n in sorted(states) if self._before.get(n, states[n]) != states[n]]
            if changed:
                self._pod = changed[0]
                self._tell(self._before[self._pod])
            self._before = states
        if self._pod in states:
            self._tell(states[self._pod])

    def _tell(self, state: str) -> None:
        if state != self._told:
            self._told = state
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
    """The container runs the image its spec names."""
    asked = next((c.image for c in pod.containers if c.name == name), "")
    return any(status.image == asked for status in pod.statuses if status.name == name)
