"""Random histories of a workload of another kind than CloneSet: Deployments and StatefulSets."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random  # noqa: TID251  histories are drawn from the seed of a test
from typing import Any, Final

from tests.gitops.stage import config_map
from tests.observer.histories import EDITS, POLICIES, WHOLE, Copy, Edit, Player, drawn
from tests.observer.settings import BUDGETS, ENV
from tests.worlds import template

Spec = dict[str, Any]


def _roll(spec: Spec, budget: tuple[Any, Any]) -> None:
    rolling = {"maxUnavailable": budget[0], "maxSurge": budget[1]}
    spec["strategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}


def _recreate(spec: Spec, value: str) -> None:
    # Without null the API server keeps the defaults that it filled in, and refuses both.
    spec["strategy"] = {"type": value, "rollingUpdate": None}


def _by_ordinal(spec: Spec, **fields: Any) -> None:
    strategy = spec.setdefault("updateStrategy", {"type": "RollingUpdate"})
    strategy.setdefault("rollingUpdate", {}).update(fields)


def _down_at_once(spec: Spec, value: int | str) -> None:
    if spec["podManagementPolicy"] == "Parallel":  # the other one takes 1 alone
        _by_ordinal(spec, maxUnavailable=value)


_SHARED: Final[tuple[Edit, ...]] = (
    ENV,
    drawn("replicas", range(6), lambda spec, value: spec.update(replicas=value)),
    drawn("limit", (0, 1, 2), lambda spec, value: spec.update(revisionHistoryLimit=value)),
)
_BREATH: Final = drawn(
    "minReadySeconds", (0, 2, 5), lambda spec, value: spec.update(minReadySeconds=value)
)
_STEPPED: Final = drawn(
    "partition", range(4), lambda spec, value: _by_ordinal(spec, partition=value)
)
OWN: Final[dict[str, tuple[Edit, ...]]] = {
    "apps/v1 Deployment": (
        _BREATH,
        drawn("strategy", BUDGETS, _roll),
        drawn("strategy", ("Recreate",), _recreate),
        drawn("paused", (True, False, False), lambda spec, value: spec.update(paused=value)),
    ),
    "apps/v1 StatefulSet": (_BREATH, _STEPPED, _STEPPED),
    "apps.kruise.io/v1beta1 StatefulSet": (
        _STEPPED,
        _STEPPED,
        drawn("minReadySeconds", (0, 2, 5), lambda s, v: _by_ordinal(s, minReadySeconds=v)),
        drawn("policy", POLICIES, lambda s, v: _by_ordinal(s, podUpdatePolicy=v)),
        drawn("maxUnavailable", (1, 2, "50%"), _down_at_once),
        drawn("paused", (True, False, False), lambda s, v: _by_ordinal(s, paused=v)),
    ),
}
_LEFT_OUT: Final = {"_partition", "_replicas"}


def _elsewhere(edits: Sequence[Edit]) -> tuple[Edit, ...]:
    return tuple(edit for edit in edits if edit.__name__ not in _LEFT_OUT)


class WorkloadsPlayer(Player):
    """Plays one history of a Deployment or a StatefulSet, in every field that counts."""

    def _first_copy(self) -> Copy:
        self.kind = self.random.choice(sorted(OWN))
        self.whole = (*_SHARED, *OWN[self.kind], *_elsewhere(WHOLE))
        self.edits = (*self.whole, *self.whole, *_elsewhere(EDITS))
        made = Copy()
        made.add("one", _workload(self.kind, self.random))
        made.add("one", config_map("base-one", x="1"))
        made.add("two", config_map("base-two", x="1"))
        return made


def _workload(kind: str, random: Random) -> dict[str, Any]:
    version, _, name = kind.partition(" ")
    spec: Spec = {
        "replicas": random.randint(1, 4),
        "selector": {"matchLabels": {"app": "web"}},
        "template": template("app:v1"),
    }
    if name == "StatefulSet":
        policy = random.choice(["OrderedReady", "Parallel"])
        spec |= {"serviceName": "web", "podManagementPolicy": policy}
    if "kruise" in version:
        spec["template"]["spec"]["readinessGates"] = [{"conditionType": "InPlaceUpdateReady"}]
    return {"apiVersion": version, "kind": name, "metadata": {"name": "web"}, "spec": spec}
