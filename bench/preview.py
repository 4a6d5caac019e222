"""Cost of simulating a rollout in a lean copy of the cluster as `plan` does."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from bench.timing import Row, cpu
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.simulation.forecast import predict
from tests.worlds import SPACE, Lab, cloneset, template

CLONESETS: Final = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
PODS: Final = 1_000
WAVES: Final = 20
GOAL_MS: Final = 1_000.0
NEXT: Final[Mapping[str, Any]] = {"spec": {"template": template("app:v2")}}


def rows() -> Iterator[Row]:
    yield from _rollout("in place", "InPlaceIfPossible")
    yield from _rollout("recreated", "ReCreate")


def _rollout(how: str, policy: str) -> Iterator[Row]:
    lab = Lab(nodes=20)
    lab.simulation.events = False
    lab.apply(cloneset(replicas=PODS, maxUnavailable=PODS // WAVES, podUpdatePolicy=policy))
    lab.run()
    write = ApiRequest(
        verb="patch",
        resource=CLONESETS,
        namespace=SPACE,
        name="web",
        body=NEXT,
        content_type=MERGE_PATCH,
    )
    waves = len(predict(lab.world, [write], lab.now).rollouts[0].steps)
    spent = cpu(lambda: predict(lab.world, [write], lab.now))
    yield Row(
        name=f"preview, {PODS:,} pods {how} in {waves} steps",
        value=spent * 1000,
        unit="ms",
        limit=GOAL_MS,
    )
