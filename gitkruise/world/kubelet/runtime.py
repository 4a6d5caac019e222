"""Container runtime state of one pod, as values: the sandbox and the newest containers by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from gitkruise.model.workloads.labels import CONTAINERS_META
from gitkruise.planner.pods.container_hashes import ENVIRONMENT
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time

RUNTIME: Final = "containerd"


class RuntimeState(Enum):
    """State of a container as the runtime knows it (CRI)."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


class RuntimeContainer(NamedTuple):
    """The newest container of a name. `startup` None: its startup probe has not answered yet.

    `environment` is the hash of its variables from metadata, None where it has none or where they
    were not reported.
    """

    name: str
    image: str
    run: RuntimeState = RuntimeState.RUNNING
    image_id: str = ""
    restarts: int = 0
    started: datetime | None = None
    finished: datetime | None = None
    exit_code: int = 0
    ready: bool = False
    startup: bool | None = True
    live: bool = True
    resources: Obj = MappingProxyType({})
    last: Obj | None = None  # the terminated state before this one, its id left open
    environment: int | None = None
    killed: bool = False  # by a sync of ours: its restart meets no back-off

    @property
    def up(self) -> bool:
        return self.run is RuntimeState.RUNNING


class PodSandbox(NamedTuple):
    """The pod's network: `ready` False after the node restarted it."""

    attempt: int = 0
    ready: bool = True
    addressed: bool = True


class RuntimeIdentity(NamedTuple):
    """Identity of a pod. `ids` holds the container ids that do not follow from its uid.

    An id belongs to a container's name and its restarts.
    """

    uid: str
    ip: str = ""
    ids: Mapping[tuple[str, int], str] = MappingProxyType({})

    def container(self, name: str, restarts: int) -> str:
        """Return the id of a container, "" if none was reported."""
        known = self.ids.get((name, restarts))
        return container_id(self.uid, name, restarts) if known is None else known


class PodRuntime(NamedTuple):
    """Runtime state of one pod without its identity: identical pods have equal values.

    `waiting` is name → (reason, message) of failed starts.
    """

    sandbox: PodSandbox | None = None
    containers: Mapping[str, RuntimeContainer] = MappingProxyType({})
    waiting: Mapping[str, tuple[str, str]] = MappingProxyType({})

    def having(self, container: RuntimeContainer) -> PodRuntime:
        """With `container` as the newest of its name."""
        containers = {**self.containers, container.name: container}
        return PodRuntime(sandbox=self.sandbox, containers=containers, waiting=self.waiting)

    def stuck(self, name: str, reason: str, message: str) -> PodRuntime:
        """With the container waiting for `reason`."""
        return self._replace(waiting={**self.waiting, name: (reason, message)})

    def unstuck(self, name: str) -> PodRuntime:
        if name not in self.waiting:
            return self
        return self._replace(waiting={k: v for k, v in self.waiting.items() if k != name})


def regular(pod: Obj) -> Sequence[Obj]:
    return pod["spec"].get("containers") or ()


def initial(pod: Obj) -> Sequence[Obj]:
    return pod["spec"].get("initContainers") or ()


def every(pod: Obj) -> Sequence[Obj]:
    """Init containers first, in the order of the spec."""
    spec = pod["spec"]
    inits, others = spec.get("initContainers"), spec.get("containers") or ()
    return [*inits, *others] if inits else others


def is_sidecar(spec: Obj) -> bool:
    """Return whether an init container keeps running next to the regular ones."""
    return spec.get("restartPolicy") == "Always"


def was_replaced(spec: Obj, seen: RuntimeContainer, policy: str) -> bool:
    """Return whether kubelet stopped a container to start it again, whatever its exit code.

    It does both in one go: for a new definition under every restart policy, for a failed probe
    under all but Never. Source: computePodActions.
    """
    if not seen.killed or seen.run is not RuntimeState.EXITED:
        return False
    failed = not seen.live or seen.startup is False
    return seen.image != spec["image"] or (failed and policy != "Never")


def policy_of(pod: Obj) -> str:
    return pod["spec"].get("restartPolicy") or "Always"


def image_id(image: str) -> str:
    """The repository digest a pull of `image` reports: its own, or one derived from its name."""
    repository, at, digest = canonical_image(image).partition("@")
    if not at:
        digest = "sha256:" + sha256(repository.encode()).hexdigest()
    head, slash, tail = repository.rpartition("/")
    return f"{head}{slash}{tail.partition(':')[0]}@{digest}"


def canonical_image(image: str) -> str:
    """The fully qualified name a runtime uses: docker.io/library and :latest spelled out."""
    name, at, digest = image.partition("@")
    host, slash, rest = name.partition("/")
    if not slash:
        name = f"docker.io/library/{name}"
    elif "." not in host and ":" not in host and host != "localhost":
        name = f"docker.io/{host}/{rest}"
    if not at and ":" not in name.rpartition("/")[2]:
        name += ":latest"
    return f"{name}{at}{digest}"


def container_id(uid: str, name: str, restarts: int) -> str:
    return f"{RUNTIME}://" + sha256(f"{uid}/{name}/{restarts}".encode()).hexdigest()


def identity_of(pod: Obj) -> RuntimeIdentity:
    """Return the identity of a pod, by its uid and the last status that a kubelet wrote."""
    status, uid = pod.get("status") or {}, pod["metadata"]["uid"]
    ids: dict[tuple[str, int], str] = {}
    for entry in _container_statuses(status):
        state, last = entry.get("state") or {}, get(entry, "lastState", "terminated")
        restarts = entry.get("restartCount") or 0
        if last and "running" in state:
            ids[entry["name"], restarts - 1] = last.get("containerID") or ""
        ids[entry["name"], restarts] = entry.get("containerID") or ""
    strange = {who: id_ for who, id_ in ids.items() if id_ != container_id(uid, *who)}
    return RuntimeIdentity(uid=uid, ip=status.get("podIP") or "", ids=strange)


def _container_statuses(status: Obj) -> list[Obj]:
    return [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]


def runtime_of(pod: Obj) -> PodRuntime:
    """Return the runtime state that the last status of the pod implies.

    Used when a simulated kubelet meets pods it did not start: after a restart, on a copy of a
    cluster, or on objects read from a real one. An image the runtime spells differently (fully
    qualified, or only by digest) is taken for the one in the spec.
    """
    status = pod.get("status") or {}
    known = _container_statuses(status)
    specs = {spec["name"]: spec for spec in every(pod)}
    runtime = PodRuntime(
        sandbox=PodSandbox() if status.get("podIP") else None,
        containers={
            c.name: c for s in known if s["name"] in specs and (c := _seen(s, specs[s["name"]]))
        },
    )
    for name, hash_ in _reported_environment(pod, known).items():
        if name in runtime.containers:
            seen = runtime.containers[name]
            runtime = runtime.having(seen._replace(environment=hash_))
    for entry in known:
        if reason := get(entry, "state", "waiting", "reason"):
            runtime = runtime.stuck(
                entry["name"], reason, get(entry, "state", "waiting", "message", default="")
            )
    return runtime._replace(waiting={k: v for k, v in runtime.waiting.items() if v[0] in _FAILED})


def _reported_environment(pod: Obj, known: Sequence[Obj]) -> dict[str, int]:
    """Hashes of metadata variables that a node agent reported of the containers in the status.

    A report that does not parse says nothing here; controllers report it as an error.
    """
    text = (pod["metadata"].get("annotations") or {}).get(CONTAINERS_META)
    if not text:
        return {}
    ids = {status["name"]: status.get("containerID") for status in known}
    try:
        return {
            entry["name"]: entry["hashes"][ENVIRONMENT]
            for entry in read_json(text)["containers"]
            if entry["containerID"] == ids.get(entry["name"])
        }
    except (ValueError, KeyError, TypeError):
        return {}


def matches_spec(pod: Obj) -> bool:
    """Return whether the status says that everything in the spec runs and is ready.

    A kubelet that loads such a pod has nothing to do or report. Always False for a pod with
    init containers.
    """
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    if meta.get("deletionTimestamp") or initial(pod) or not status.get("podIP"):
        return False
    if status.get("phase") != "Running" or status.get("observedGeneration") != meta.get(
        "generation"
    ):
        return False
    stands = {c["type"]: c["status"] for c in status.get("conditions") or ()}
    gates = [gate["conditionType"] for gate in spec.get("readinessGates") or ()]
    if any(stands.get(type_) != "True" for type_ in ("Ready", "ContainersReady", *gates)):
        return False
    reported = {entry["name"]: entry for entry in status.get("containerStatuses") or ()}
    return all(_matches(one, reported.get(one["name"], {})) for one in regular(pod))


def _matches(spec: Obj, reported: Obj) -> bool:
    if not (
        reported.get("ready")
        and reported.get("started")
        and "running" in (reported.get("state") or {})
    ):
        return False
    asked, given = spec.get("resources") or {}, reported.get("resources") or {}
    return _is_image(reported.get("image") or "", spec["image"]) and (not given or given == asked)


def _is_image(reported: str, asked: str) -> bool:
    """Return whether `reported` is the runtime's name of `asked`: in full, or only its digest."""
    by_digest = reported.startswith("sha256:")
    return by_digest or reported == asked or canonical_image(reported) == canonical_image(asked)


_FAILED: Final = {
    "CrashLoopBackOff", "ErrImagePull", "ImagePullBackOff", "CreateContainerConfigError",
    "InvalidImageName", "ErrImageNeverPull", "RunContainerError", "CreateContainerError",
}  # fmt: skip


def _seen(status: Obj, spec: Obj) -> RuntimeContainer | None:
    state, last = status.get("state") or {}, get(status, "lastState", "terminated")
    if last and "containerID" in last:
        last = {**last, "containerID": ""}
    image = status.get("image") or ""
    facts: dict[str, Any] = {
        "name": status["name"],
        "image": spec["image"] if _is_image(image, spec["image"]) else image,
        "image_id": status.get("imageID") or "",
        "restarts": status.get("restartCount") or 0,
        "resources": status.get("resources") or spec.get("resources") or {},
    }
    if "running" in state:
        return RuntimeContainer(
            **facts,
            run=RuntimeState.RUNNING,
            started=parse_time(state["running"].get("startedAt")),
            ready=bool(status.get("ready")),
            startup=True if status.get("started") else None,
            last=last,
        )
    ended = state.get("terminated") or last
    if ended is None:
        return None
    return RuntimeContainer(
        **facts,
        run=RuntimeState.EXITED,
        started=parse_time(ended.get("startedAt")),
        finished=parse_time(ended.get("finishedAt")),
        exit_code=ended.get("exitCode") or 0,
        startup=None,
        last=None if ended is last else last,
    )
