"""Plays a recorded scenario on the World in virtual time and notes what can be seen."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Protocol

from gitkruise.admission.chain import admit
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import ApiError
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates, parse_gates
from gitkruise.planner.workloads import WORKLOADS
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.world.api.cluster import World
from gitkruise.world.simulation.simulation import Simulation
from tests.conformance.api import Api
from tests.conformance.node import Node

FILES: Final = ("cloneset.yaml", "sidecarset.yaml", "gates.yaml")
NAMESPACE: Final = "conf"
START: Final = datetime(2026, 7, 2, 10, 0, 0, tzinfo=UTC)
QUIET, PATIENCE = timedelta(seconds=1), timedelta(seconds=3)
_TICKS_MAX: Final = 60
_SETS: Final = ("clonesets", "sidecarsets")
_STATUS: Final = (
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "updatedReadyReplicas",
    "updatedAvailableReplicas",
    "expectedUpdatedReplicas",
    "currentRevision",
    "updateRevision",
    "collisionCount",
)
_SIDECARS: Final = ("matchedPods", "updatedPods", "readyPods", "updatedReadyPods")
_STATE: Final = "lifecycle.apps.kruise.io/state"


def gates_of(scenario: Obj) -> Gates:
    return parse_gates(",".join(f"{name}=true" for name in scenario.get("gates") or ()))


class Cluster(Protocol):
    """Where a scenario is played: its API, and a way to let time pass there."""

    api: Any

    def rest(self, span: timedelta) -> None:
        """Let controllers finish, `span` pass, and controllers finish again."""
        ...


class Virtual:
    """A fresh World with the controllers of OpenKruise's kinds, in virtual time."""

    def __init__(self, gates: Gates) -> None:
        def admitted(request: AdmissionRequest) -> Obj | None:
            return admit(request, gates)

        world = World(load_catalog(), admit=admitted)
        self.api = Api(world, NAMESPACE, START)
        self.api.marked = self._act
        self._simulation = Simulation(world, (), WORKLOADS, gates, START)

    def _act(self) -> None:
        self._simulation.run_until(self.api.now)

    def rest(self, span: timedelta) -> None:
        simulation = self._simulation
        self._act()
        self.api.now += span
        simulation.now = max(self.api.now, simulation.now)
        simulation.run_until(self.api.now)


class Player:
    """One scenario on a cluster. `log` is what a recording holds."""

    def __init__(self, scenario: Obj, cluster: Cluster | None = None) -> None:
        self.scenario = scenario
        self.cluster = cluster or Virtual(gates_of(scenario))
        self.api = self.cluster.api
        self.namespace: str = self.api.namespace
        meta = {"name": self.namespace}
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        self.node = Node(self.api, int(scenario.get("nodes") or 5))
        self.log: list[Any] = []

    def play(self) -> list[Any]:
        for step in self.scenario["steps"]:
            ((verb, argument),) = step.items()
            getattr(self, f"do_{verb}")(argument)
        return self.log

    def pause(self, span: timedelta = QUIET) -> None:
        self.cluster.rest(span)

    def _here(self, asked: Obj) -> Obj:
        """With the namespace of this play in the place of `$NS`."""
        made: Obj = json.loads(json.dumps(asked).replace("$NS", self.namespace))
        return made

    def _named(self, kind: str, name: str) -> str:
        """SidecarSets belong to no namespace: each play has its own."""
        return f"{name}-{self.namespace}" if kind == "SidecarSet" else name

    # What a scenario may ask for

    def do_create(self, asked: Obj) -> None:
        obj = self._here(asked)
        meta = {**obj["metadata"], "name": self._named(obj["kind"], obj["metadata"]["name"])}
        try:
            self.api.create({**obj, "metadata": meta})
        except ApiError as error:
            self.log.append({"rejected": error.status})
            return
        self.pause()

    def do_patch(self, asked: Obj) -> None:
        asked = self._here(asked)
        name = self._named(asked["kind"], asked["name"])
        try:
            if "json" in asked:
                self.api.json_patch(asked["kind"], name, asked["json"])
            else:
                self.api.merge(asked["kind"], name, asked["merge"])
        except ApiError as error:
            self.log.append({"rejected": error.status})
            return
        self.pause()

    def do_delete(self, asked: Obj) -> None:
        policy = asked.get("propagation", "Background")
        self.api.delete(asked["kind"], asked["name"], propagationPolicy=policy)

    def do_try_delete(self, asked: Obj) -> None:
        """Ask for a deletion that admission may refuse."""
        name = str(asked["name"]).replace("$NS", self.namespace)
        options: dict[str, Any] = {"dryRun": ["All"]} if asked.get("dryRun") else {}
        options["propagationPolicy"] = asked.get("propagation", "Background")
        try:
            self.api.delete(asked["kind"], name, **options)
        except ApiError as error:
            self.log.append({"refused": error.status})
            return
        self.log.append({"deleted": "NS" if name == self.namespace else name})

    def do_index(self, _: Any) -> None:
        for at, pod in enumerate(self.api.list("Pod")):
            self._label(pod, {"labels": {"conf/idx": str(at)}})

    def do_pods(self, asked: Obj) -> None:
        if "idx" in asked:
            found = self._indexed(asked["idx"])
        else:
            found = [p for p in self.api.list("Pod") if _carries(p, asked["where"])]
        for pod in found[: asked.get("first")]:
            self.api.merge("Pod", pod["metadata"]["name"], asked["merge"])

    def do_delete_pods(self, indexes: Sequence[int]) -> None:
        for pod in self._indexed(indexes):
            self.api.delete("Pod", pod["metadata"]["name"], gracePeriodSeconds=0)

    def do_pods_to_delete(self, asked: Obj) -> None:
        names = [p["metadata"]["name"] for p in self._indexed(asked["idx"])]
        spec: dict[str, Any] = {"scaleStrategy": {"podsToDelete": names}}
        if "replicas" in asked:
            spec["replicas"] = asked["replicas"]
        self.api.merge("CloneSet", asked["name"], {"spec": spec})
        self.pause()

    def do_hold(self, asked: Obj) -> None:
        self.node.hold = _holder(asked)

    def do_unready(self, indexes: Sequence[int]) -> None:
        self.do_hold({"idx": indexes})
        self.node.tick()

    def do_release(self, _: Any) -> None:
        self.node.hold = None

    def do_freeze(self, value: Any) -> None:
        self.node.frozen = bool(value)

    def do_sleep(self, seconds: float) -> None:
        self.pause(timedelta(seconds=seconds))
        self.observe()

    def do_tick(self, count: int) -> None:
        for _ in range(int(count)):
            self.pause()
            self.node.tick()
            self.pause()
            self.observe()

    def do_settle(self, asked: Any) -> None:
        self.pause()
        self.observe()
        for _ in range((asked or {}).get("ticks", _TICKS_MAX)):
            changed = self.node.tick()
            self.pause()
            self.observe()
            if changed:
                continue
            self.pause(PATIENCE)
            self.observe()
            if not self.node.tick():
                break
        self.pause()
        self.observe(final=True)
        self.log.append({"settled": True})

    def _label(self, pod: Obj, metadata: Obj) -> None:
        self.api.merge("Pod", pod["metadata"]["name"], {"metadata": metadata})

    def _indexed(self, indexes: Sequence[int]) -> list[Obj]:
        wanted = {str(i) for i in indexes}
        return [p for p in self.api.list("Pod") if _index(p) in wanted]

    # What can be seen

    def observe(self, *, final: bool = False) -> None:
        wave: dict[str, Any] = {"pods": self._pods()}
        for raw in self.api.list("CloneSet"):
            status = raw.get("status") or {}
            shown = {k: status[k] for k in _STATUS if status.get(k) is not None}
            wave.setdefault("clonesets", {})[raw["metadata"]["name"]] = shown
            named = get(raw, "spec", "scaleStrategy", "podsToDelete", default=())
            if named:
                wave["podsToDelete"] = len(named)
        for raw in self.api.list("SidecarSet") if final else ():
            name, own, _ = str(raw["metadata"]["name"]).partition(f"-{self.namespace}")
            status = raw.get("status") or {}
            if own:
                shown = {key: status.get(key, 0) for key in _SIDECARS}
                wave.setdefault("sidecarsets", {})[name] = shown
        claims = self.api.list("PersistentVolumeClaim")
        if claims:
            wave["pvcs"] = sum(not c["metadata"].get("deletionTimestamp") for c in claims)
        if self.scenario.get("show_pull_jobs") and (jobs := self.api.list("ImagePullJob")):
            wave["pullJobs"] = sorted(_pull_job(job) for job in jobs)
        revisions = self.api.list("ControllerRevision")
        wave["revisions"] = sorted([r["metadata"]["name"], r["revision"]] for r in revisions)
        if self.scenario.get("compare") == "final" and not final:
            return
        if not self.log or self.log[-1] != wave:
            self.log.append(wave)

    def _pods(self) -> list[Any]:
        count: Counter[str] = Counter()
        for pod in self.api.list("Pod"):
            count[json.dumps(self._pod(pod), sort_keys=True)] += 1
        return [[n, json.loads(text)] for text, n in sorted(count.items())]

    def _pod(self, pod: Obj) -> dict[str, Any]:
        meta, status = pod["metadata"], pod.get("status") or {}
        labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
        running = {c["name"]: c for c in status.get("containerStatuses") or ()}
        conditions = status.get("conditions") or ()
        seen: dict[str, Any] = {
            "revision": labels.get("controller-revision-hash"),
            "phase": status.get("phase"),
            "ready": any(c["type"] == "Ready" and c["status"] == "True" for c in conditions),
            "containers": [
                [c["name"], c["image"], running.get(c["name"], {}).get("restartCount", 0)]
                for c in pod["spec"]["containers"]
            ],
        }
        if labels.get(_STATE):
            seen["lifecycle"] = labels[_STATE]
        if meta.get("deletionTimestamp"):
            seen["terminating"] = True
        if meta.get("finalizers"):
            seen["finalizers"] = meta["finalizers"]
        if self.scenario.get("ordered"):
            seen["idx"] = labels.get("conf/idx", "new")
        for key in self.scenario.get("show_labels") or ():
            seen.setdefault("labels", {})[key] = labels.get(key)
        for key in self.scenario.get("show_annotations") or ():
            shown = re.sub(r"^[0-9]{2,}$", "N", notes[key]) if key in notes else None
            seen.setdefault("annotations", {})[key] = shown
        return seen


def _index(pod: Obj) -> str | None:
    found: str | None = get(pod, "metadata", "labels", "conf/idx")
    return found


def _pull_job(job: Obj) -> list[Any]:
    spec = job["spec"]
    return [spec["image"], spec.get("parallelism"), get(spec, "completionPolicy", "type")]


def _carries(pod: Obj, labels: Mapping[str, str]) -> bool:
    return all(get(pod, "metadata", "labels", k) == v for k, v in labels.items())


def _holder(asked: Obj) -> Any:
    def holds(pod: Obj) -> bool:
        if "idx" in asked:
            return _index(pod) in {str(i) for i in asked["idx"]}
        if "image" in asked:
            return any(c["image"] == asked["image"] for c in pod["spec"]["containers"])
        return _index(pod) is None if "new" in asked else True

    return holds


def even(log: Sequence[Any]) -> list[Any]:
    """A status field that is 0 and one that is absent are the same."""
    return [
        {key: _without_zeros(value) if key in _SETS else value for key, value in entry.items()}
        for entry in log
    ]


def _without_zeros(sets: Obj) -> Obj:
    return {name: {k: v for k, v in status.items() if v != 0} for name, status in sets.items()}
