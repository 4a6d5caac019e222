"""A model cluster for tests: nodes, a namespace, manifests, and time that passes when told."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gitkruise.admission.chain import admit
from gitkruise.kube.system.package_data import embedded_crds, load_catalog, only_storage_version
from gitkruise.model.planning.trace import Trace
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.workloads import EMBEDDED
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, split_api_version
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.client import resource_of
from gitkruise.world.controllers.garbage_collector import GarbageCollector
from gitkruise.world.controllers.namespace import NamespaceController
from gitkruise.world.controllers.scheduler import Scheduler, add_nodes
from gitkruise.world.controllers.volumes import VolumeController
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.profiles import FAST, Profile
from gitkruise.world.node_agent.agent import NodeAgents
from gitkruise.world.simulation.simulation import SimulatedComponent, Simulation

START: Final = datetime(2026, 11, 21, 10, tzinfo=UTC)
SPACE: Final = "shop"
PODS: Final = GroupKind("", "Pod")


def empty_world(*, seed: int = 0, gates: Gates | None = None) -> World:
    """A World with the recorded catalog, admission, and the namespace `shop`."""
    chosen = gates or Gates()
    world = World(
        load_catalog(), admit=lambda request: admit(request, chosen), gates=chosen, seed=seed
    )
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    world.handle(create(world, space), START)
    return world


def create(world: World, obj: Obj) -> ApiRequest:
    """The request that creates `obj` where its own words say."""
    return ApiRequest(
        verb="create",
        resource=_resource(world, obj),
        namespace=obj["metadata"].get("namespace", ""),
        body=obj,
    )


def _resource(world: World, obj: Obj) -> ResourceRef:
    group, version = split_api_version(obj["apiVersion"])
    return resource_of(world.catalog, ObjectKey(group, obj["kind"], "", ""), version)


def parts_of(profile: Profile) -> list[SimulatedComponent]:
    """What acts by itself in an embedded cluster."""
    first: list[SimulatedComponent] = [
        GarbageCollector(),
        NamespaceController(),
        VolumeController(),
    ]
    kubelet = Kubelet(profile)
    return [*first, Scheduler(), NodeAgents(kubelet), kubelet]


class Lab:
    """A World that runs: nodes, a namespace, the embedded cluster's controllers and parts."""

    def __init__(
        self,
        *,
        nodes: int = 3,
        profile: Profile = FAST,
        seed: int = 0,
        gates: Gates | None = None,
        parts: Sequence[SimulatedComponent] | None = None,
    ) -> None:
        self.world = empty_world(seed=seed, gates=gates)
        add_nodes(self.world, nodes, START)
        chosen: Sequence[SimulatedComponent] = parts_of(profile) if parts is None else parts
        self.parts = list(chosen)
        self.simulation = Simulation(self.world, self.parts, EMBEDDED, gates or Gates(), START)

    @property
    def now(self) -> datetime:
        return self.simulation.now

    def apply(self, obj: Obj) -> Obj:
        """Create `obj` in the namespace `shop` (unless it says otherwise)."""
        meta = {"namespace": SPACE, **obj["metadata"]}
        return self.world.handle(create(self.world, {**obj, "metadata": meta}), self.now).body

    def patch(self, obj: Obj, body: Any, *, subresource: str = "") -> Obj:
        """A merge patch of the object that `obj` names."""
        request = ApiRequest(
            verb="patch",
            resource=_resource(self.world, obj),
            namespace=obj["metadata"].get("namespace", SPACE),
            name=obj["metadata"]["name"],
            subresource=subresource,
            body=body,
            content_type=MERGE_PATCH,
        )
        return self.world.handle(request, self.now).body

    def delete(self, obj: Obj, **options: Any) -> None:
        body = {"apiVersion": "v1", "kind": "DeleteOptions", **options}
        request = ApiRequest(
            verb="delete",
            resource=_resource(self.world, obj),
            namespace=obj["metadata"].get("namespace", SPACE),
            name=obj["metadata"]["name"],
            body=body,
        )
        self.world.handle(request, self.now)

    def run(self, seconds: float = 3600) -> Trace:
        """Let up to `seconds` pass, or less when all is quiet before."""
        return self.simulation.run_until(self.now + timedelta(seconds=seconds))

    def get(self, obj: Obj) -> Any:
        """The object that `obj` names, as stored; None when it is gone."""
        group, _ = split_api_version(obj["apiVersion"])
        meta = obj["metadata"]
        key = ObjectKey(group, obj["kind"], meta.get("namespace", SPACE), meta["name"])
        return self.world.get(key)

    def pods(self) -> list[Obj]:
        return self.world.objects(PODS, SPACE)

    def events(self, name: str) -> list[str]:
        """Reasons of the events about the object `name`, in the order they happened."""
        found = self.world.objects(GroupKind("", "Event"), SPACE)
        about = [e for e in found if e["involvedObject"]["name"] == name]
        return [
            e["reason"] for e in sorted(about, key=lambda e: int(e["metadata"]["resourceVersion"]))
        ]


def container(name: str = "app", image: str = "app:v1", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": image, **more}


def pod(name: str = "p", *containers: Obj, **spec: Any) -> dict[str, Any]:
    """A pod of `containers` (one `app:v1` if none are given)."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": list(containers) or [container()], **spec},
    }


def template(image: str = "app:v1", *, app: str = "web", **spec: Any) -> dict[str, Any]:
    """A pod template labelled `app`."""
    return {
        "metadata": {"labels": {"app": app}},
        "spec": {"containers": [container(image=image)], **spec},
    }


def deployment(name: str = "web", replicas: int = 3, image: str = "app:v1", **spec: Any) -> Obj:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(image, app=name),
            **spec,
        },
    }


def cloneset(
    name: str = "web", replicas: int = 5, image: str = "app:v1", **rolling: Any
) -> dict[str, Any]:
    """A v1beta1 CloneSet that updates in place; `rolling` are its rollingUpdate fields."""
    strategy = {"podUpdatePolicy": "InPlaceIfPossible", **rolling}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "CloneSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template(image, app=name),
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": strategy},
        },
    }


def sidecarset(name: str = "mesh", *containers: Obj, **spec: Any) -> dict[str, Any]:
    """A v1beta1 SidecarSet for the pods of `web`; one container `mesh` if none is given."""
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": name, "namespace": ""},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": list(containers) or [container("mesh", "mesh:v1")],
            **spec,
        },
    }


def spread(name: str = "zones", *subsets: Obj, kind: str = "CloneSet", to: str = "web") -> Any:
    """A v1beta1 WorkloadSpread for a workload, with these subsets."""
    api = {"CloneSet": "apps.kruise.io/v1beta1"}.get(kind, "apps/v1")
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "WorkloadSpread",
        "metadata": {"name": name},
        "spec": {
            "targetRef": {"apiVersion": api, "kind": kind, "name": to},
            "subsets": list(subsets),
        },
    }


def subset(name: str, limit: int | str | None = None, *, zone: str = "", **more: Any) -> Any:
    """A subset of a WorkloadSpread; its pods require nodes of `zone`, if one is given."""
    key = "topology.kubernetes.io/zone"
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [zone]}]}
    return {
        "name": name,
        **({"maxReplicas": limit} if limit is not None else {}),
        **({"requiredNodeSelector": term} if zone else {}),
        **more,
    }


def budget(
    name: str = "keep", *, kind: str = "CloneSet", to: str = "web", api: str = "", **spec: Any
) -> Obj:
    """A v1beta1 PodUnavailableBudget for a workload, or for what `selector` selects."""
    api = api or {"CloneSet": "apps.kruise.io/v1beta1"}.get(kind, "apps/v1")
    target = {"targetRef": {"apiVersion": api, "kind": kind, "name": to}}
    return {
        "apiVersion": "policy.kruise.io/v1beta1",
        "kind": "PodUnavailableBudget",
        "metadata": {"name": name},
        "spec": {**({} if "selector" in spec else target), **spec},
    }


def installable_crds() -> tuple[dict[str, Any], ...]:
    """The CRDs that an installation brings to a cluster without OpenKruise."""
    return tuple(map(only_storage_version, embedded_crds()))
