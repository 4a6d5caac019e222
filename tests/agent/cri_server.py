"""A container runtime in memory that serves CRI v1 over a unix socket, and a kubelet's restarts."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from gitkruise.agent.cri import cri_pb2 as cri

START_NS = 1_700_000_000_000_000_000
VERSIONED = "runtime.v1"


@dataclass
class Stored:
    """One container; ids and instants count up in the order of creation."""

    id: str
    pod_uid: str
    name: str
    attempt: int
    state: Any = cri.CONTAINER_RUNNING
    environment: tuple[str, ...] = ()
    plain: int = 0
    image: str = ""

    @property
    def created(self) -> int:
        return START_NS + int(self.id.rpartition("-")[2]) * 1_000_000_000


@dataclass
class MemoryRuntime:
    """Containers in order of creation, and everything that was asked of them.

    `restarts`: a stopped container is followed by its next attempt, as kubelet does.
    `failing`: (code, text) that a method answers, by method.
    """

    restarts: bool = True
    exec_code: int = 0
    containers: list[Stored] = field(default_factory=list)
    asked: list[tuple[Any, ...]] = field(default_factory=list)
    failing: dict[str, tuple[grpc.StatusCode, str]] = field(default_factory=dict)
    registry: dict[str, str] = field(default_factory=dict)  # image → the login that it needs
    held: set[str] = field(default_factory=set)  # images in the store
    digests: dict[str, str] = field(default_factory=dict)  # ids; without: one for each image

    def create(self, pod_uid: str, name: str, attempt: int = 0) -> str:
        found = Stored(f"c-{len(self.containers)}", pod_uid, name, attempt)
        self.containers.append(found)
        return found.id

    def find(self, container_id: str) -> Stored | None:
        return next((c for c in self.containers if c.id == container_id), None)

    # Methods of CRI ---------------------------------------------------------------------------

    def version(self, request: Any) -> Any:
        return cri.VersionResponse(
            version="0.1.0", runtime_name="memory", runtime_version="1", runtime_api_version="v1"
        )

    def list_containers(self, request: Any) -> Any:
        uid = request.filter.label_selector.get("io.kubernetes.pod.uid", "")
        found = [
            cri.Container(
                id=c.id, metadata=cri.ContainerMetadata(name=c.name, attempt=c.attempt),
                state=c.state, created_at=c.created,
                labels={"io.kubernetes.pod.uid": c.pod_uid, "io.kubernetes.container.name": c.name},
                image=cri.ImageSpec(image=c.image), image_ref=c.image,
                annotations={"io.kubernetes.container.restartCount": str(c.attempt)},
            )
            for c in self.containers if uid in {"", c.pod_uid}
        ]  # fmt: skip
        return cri.ListContainersResponse(containers=found)

    def container_status(self, request: Any) -> Any:
        found = self.find(request.container_id)
        if found is None:
            raise KeyError(request.container_id)
        status = cri.ContainerStatus(
            id=found.id, state=found.state, created_at=found.created, started_at=found.created,
            annotations={"io.kubernetes.container.hash": f"{found.plain:x}"},
        )  # fmt: skip
        spec = {"runtimeSpec": {"process": {"env": found.environment}}}
        info = {"info": json.dumps(spec)} if request.verbose else {}
        return cri.ContainerStatusResponse(status=status, info=info)

    def stop_container(self, request: Any) -> Any:
        self.asked.append(("stop", request.container_id, request.timeout))
        found = self.find(request.container_id)
        if found is None:
            raise KeyError(request.container_id)
        if found.state == cri.CONTAINER_RUNNING:
            found.state = cri.CONTAINER_EXITED
            if self.restarts:
                self.create(found.pod_uid, found.name, found.attempt + 1)
        return cri.StopContainerResponse()

    def exec_sync(self, request: Any) -> Any:
        self.asked.append(("exec", request.container_id, *request.cmd))
        return cri.ExecSyncResponse(exit_code=self.exec_code, stderr=b"said why")

    def list_images(self, request: Any) -> Any:
        found = dict[str, list[str]]()
        for name in sorted(self.held):
            found.setdefault(self.digests.get(name, f"sha256:{name}"), []).append(name)
        images = [cri.Image(id=id_, repo_tags=names) for id_, names in found.items()]
        return cri.ListImagesResponse(images=images)

    def remove_image(self, request: Any) -> Any:
        """Every tag of the image goes, as in containerd."""
        self.asked.append(("remove", request.image.image))
        id_ = self.digests.get(request.image.image, f"sha256:{request.image.image}")
        self.held = {n for n in self.held if self.digests.get(n, f"sha256:{n}") != id_}
        return cri.RemoveImageResponse()

    def pull_image(self, request: Any) -> Any:
        name, login = request.image.image, f"{request.auth.username}:{request.auth.password}"
        self.asked.append(("pull", name, login))
        assert request.sandbox_config.annotations["apps.kruise.io/pulling-image-by"]
        if self.registry.get(name) != login.strip(":"):
            raise KeyError(name)
        self.held.add(name)
        return cri.PullImageResponse(image_ref=f"sha256:{name}")


METHODS: dict[str, tuple[Callable[[MemoryRuntime, Any], Any], Any]] = {
    "Version": (MemoryRuntime.version, cri.VersionRequest),
    "ListContainers": (MemoryRuntime.list_containers, cri.ListContainersRequest),
    "ContainerStatus": (MemoryRuntime.container_status, cri.ContainerStatusRequest),
    "StopContainer": (MemoryRuntime.stop_container, cri.StopContainerRequest),
    "ExecSync": (MemoryRuntime.exec_sync, cri.ExecSyncRequest),
    "ListImages": (MemoryRuntime.list_images, cri.ListImagesRequest),
    "PullImage": (MemoryRuntime.pull_image, cri.PullImageRequest),
    "RemoveImage": (MemoryRuntime.remove_image, cri.RemoveImageRequest),
}


def _handler(runtime: MemoryRuntime, name: str) -> grpc.RpcMethodHandler:
    method, request_type = METHODS[name]

    async def answer(request: Any, context: grpc.aio.ServicerContext) -> Any:
        if name in runtime.failing:
            await context.abort(*runtime.failing[name])
        try:
            return method(runtime, request)
        except KeyError as error:
            await context.abort(grpc.StatusCode.NOT_FOUND, f"no {error}")

    return grpc.unary_unary_rpc_method_handler(
        answer, request_type.FromString, lambda reply: reply.SerializeToString()
    )


@asynccontextmanager
async def cri_server(
    socket: Path, runtime: MemoryRuntime, *, package: str = VERSIONED
) -> AsyncIterator[None]:
    """Serve `runtime` at `socket`; `package` runtime.v1alpha2 is that of old runtimes."""
    server = grpc.aio.server()
    handlers = {name: _handler(runtime, name) for name in METHODS}
    for service in ("RuntimeService", "ImageService"):
        answering = grpc.method_handlers_generic_handler(f"{package}.{service}", handlers)
        server.add_generic_rpc_handlers((answering,))
    server.add_insecure_port(f"unix://{socket}")
    await server.start()
    try:
        yield
    finally:
        await server.stop(None)
