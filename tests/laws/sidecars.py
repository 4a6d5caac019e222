"""A SidecarSet that changes over the pods of a CloneSet: the case, the judge, the prophecy."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.planning.forecast import HOT
from gitkruise.model.planning.trace import IN_PLACE
from gitkruise.model.workloads.sidecarset import SidecarSetFacts, sidecarset_facts
from gitkruise.planner.sidecarset.matching import matched
from gitkruise.planner.sidecarset.pod_view import PodState, judge
from gitkruise.planner.workloads import CLONESET, SIDECARSET
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.wire.values.intstr import resolve
from gitkruise.world.api.cluster import CommittedChange, World
from gitkruise.world.kubelet.profiles import FAST
from gitkruise.world.simulation.forecast import predict
from tests.laws.foretell import Move, live_through, waves
from tests.laws.judge import after, guarded
from tests.worlds import Lab, cloneset, container, sidecarset

MESH: Final = ObjectKey("apps.kruise.io", "SidecarSet", "", "mesh")
SETS: Final = ResourceRef("apps.kruise.io", "v1beta1", "sidecarsets")
EMPTY: Final = "mesh-empty:v1"
HORIZON: Final = timedelta(minutes=30)


@dataclass(frozen=True, kw_only=True)
class Case:
    """Pods at rest under a SidecarSet, and the change of it that comes.

    `older` pods were born when the sidecar had another argument, so they cannot follow; `sick`
    pods never become ready again; every pod has a label `tier` out of `tiers`.
    """

    replicas: int = 3
    older: int = 0
    hot: bool = False
    image: str = "mesh:v2"
    args: bool = False  # the change touches more than images
    update: dict[str, Any] = field(default_factory=dict)
    sick: tuple[int, ...] = ()
    tiers: str = "a"

    @property
    def text(self) -> str:
        return json.dumps(asdict(self), sort_keys=True)


def read(text: str) -> Case:
    raw = json.loads(text)
    return Case(**{**raw, "sick": tuple(raw.get("sick", ()))})


def mesh(case: Case, image: str, *, args: str = "") -> dict[str, Any]:
    made = container("mesh", image)
    if case.hot:
        made["upgradeStrategy"] = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": EMPTY}
    return {**made, "args": [args]} if args else made


def prepared(case: Case) -> Lab:
    """The cluster just before the change, at rest."""
    lab, web = Lab(nodes=5), cloneset(replicas=case.older)
    lab.apply(sidecarset("mesh", mesh(case, "mesh:v1", args="old")))
    assert lab.run().quiet
    lab.apply(web)
    assert lab.run().quiet
    lab.patch(sidecarset(), {"spec": {"containers": [mesh(case, "mesh:v1")]}})
    assert lab.run().quiet
    lab.patch(web, {"spec": {"replicas": case.replicas}})
    assert lab.run().quiet
    for at, pod in enumerate(lab.pods()):
        tier = case.tiers[at % len(case.tiers)]
        lab.patch(pod, {"metadata": {"labels": {"tier": f"tier-{tier}"}}})
        if at in case.sick:
            body = [
                {**c, "image": "app:unready"} if c["name"] == "app" else c
                for c in pod["spec"]["containers"]
            ]
            lab.patch(pod, {"spec": {"containers": body}})
    assert lab.run().quiet
    return lab


def change(case: Case) -> ApiRequest:
    made = mesh(case, case.image, args="new" if case.args else "")
    spec = {"containers": [made], "updateStrategy": {"type": "RollingUpdate", **case.update}}
    return ApiRequest(
        verb="patch", resource=SETS, name="mesh", body={"spec": spec}, content_type=MERGE_PATCH
    )


class Judge:
    """Laws of a SidecarSet's rollout by what a request would do; `broken` are sentences.

    `still` says that no container may be changed at all.
    """

    def __init__(self, world: World, *, still: bool = False) -> None:
        self.world, self.still = world, still
        self.broken: list[str] = []
        self.writes: list[str] = []
        self._free: set[str] = set()  # pods that were down already when they were told to change

    @property
    def owner(self) -> SidecarSetFacts:
        raw = self.world.get(MESH)
        assert raw is not None
        return sidecarset_facts(raw)

    def pods(self) -> tuple[PodState, ...]:
        return judge(self.owner, matched(self.owner, self.world.pods("")))

    def look(self, request: ApiRequest, now: datetime) -> None:
        """Judge one request that is about to be carried out."""
        del now
        if request.verb in {"get", "list"} or request.resource.plural == "events":
            return
        name = request.name or get(request.body, "metadata", "name", default="")
        self.writes.append(f"{request.verb} {request.resource.plural} {name}")
        if request.verb != "create" and not guarded(request):
            self.say("a write that holds for any version")
        if request.resource.plural == "pods":
            self._pod(request)

    def say(self, sentence: str) -> None:
        self.broken.append(f"{sentence} (write {len(self.writes)}: {self.writes[-1]})")

    def _pod(self, request: ApiRequest) -> None:
        pods = {j.pod.name: j for j in self.pods()}
        found = pods.get(request.name)
        if request.verb != "patch":
            self.say("a pod is not patched")
        elif found is None:
            self.say("a pod that is not matched is touched")
        elif named := self._changed(request):
            self._limits(found, tuple(pods.values()), named)

    def _changed(self, request: ApiRequest) -> dict[str, str]:
        """Images that the patch changes, if the pod is what its sender saw."""
        pod = self.world.get(ObjectKey("", "Pod", request.namespace, request.name))
        made = after(request, pod) if pod is not None and guarded(request) else None
        if pod is None or made is None:
            return {}
        had = {c["name"]: c["image"] for c in pod["spec"]["containers"]}
        has = {c["name"]: c["image"] for c in made["spec"]["containers"]}
        return {name: image for name, image in has.items() if had.get(name) != image}

    def _limits(self, found: PodState, pods: tuple[PodState, ...], named: dict[str, str]) -> None:
        if self.still:
            self.say("a container changes although the sidecars are what they were")
        if set(named) - {name for s in self.owner.containers for name in s.names}:
            self.say("a container that is not ours changes")
        if found.updated:  # the second half of a hot upgrade: the pod counts as down already
            return
        if not found.fits:
            self.say("a pod changes that differs in more than images")
        update = self.owner.update
        waiting = sum(not j.updated and j.fits for j in pods)
        if waiting <= update.partition.kept(len(pods)):
            self.say(f"{waiting - 1} pods left on the old revision")
        value = 1 if update.max_unavailable is None else update.max_unavailable
        allowed = resolve(value, len(pods), round_up=True)
        down = [j for j in pods if j.updated and not j.up and j.pod.name not in self._free]
        if found.ready and len(down) >= allowed:
            self.say(f"{len(down) + 1} pods down, {allowed} allowed")
        (self._free.discard if found.ready else self._free.add)(found.pod.name)


def foretold(lab: Lab, write: ApiRequest) -> tuple[list[list[Move]], Obj]:
    """(steps as a plan prints them, the status they end in)."""
    forecast = predict(lab.world, [write], lab.now, profile=FAST, horizon=HORIZON)
    (prediction,) = forecast.rollouts
    steps = [[(move.pod, move.how) for move in step.moves] for step in prediction.steps]
    return steps, numbers(forecast.world)


def lived(lab: Lab, write: ApiRequest) -> tuple[list[list[Move]], Obj]:
    """The same of the live controllers: informers, store, executor, over the embedded cluster."""
    known: set[str] = set()

    def first_change(record: CommittedChange) -> Move | None:
        pod, how = f"{record.key.namespace}/{record.key.name}", ""
        if pod not in known and (how := what_happened(record.before, record.after)):
            known.add(pod)
        return (pod, how) if how else None

    seen, world = live_through(lab, write, [CLONESET, SIDECARSET], first_change)
    return waves(seen), numbers(world)


def what_happened(before: Obj | None, after: Obj | None) -> str:
    sides = [
        {c["name"]: c["image"] for c in get(obj, "spec", "containers", default=())}
        for obj in (before, after)
    ]
    moved = [name for name, image in sides[0].items() if sides[1].get(name, image) != image]
    if not moved:
        return ""
    return HOT if any(name.startswith("mesh-") for name in moved) else IN_PLACE


def numbers(world: World) -> Obj:
    """The status without zeros."""
    obj = world.get(MESH)
    assert obj is not None
    return {name: value for name, value in obj["status"].items() if value}


def check(case: Case) -> None:
    lab, write = prepared(case), change(case)
    promised, kept = foretold(lab, write), lived(lab, write)
    assert promised[0] == kept[0], f"replay: python -m tests.laws.sidecars '{case.text}'"
    assert promised[1] == kept[1], f"replay: python -m tests.laws.sidecars '{case.text}'"


if __name__ == "__main__":
    check(read(sys.argv[1]))
