"""A container runtime as the agent uses it: containers of a pod, stops, commands and pulls."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, NamedTuple

from gitkruise.agent.cri import cri_pb2
from gitkruise.agent.cri.calls import IMAGES, RUNTIME, Calls, RuntimeCallFailed
from gitkruise.errors import ClusterFailed, Finding
from gitkruise.model.node.containers import (
    ContainerPhase,
    HeldImage,
    NodeContainer,
    newest_by_name,
)

POD_UID: Final = "io.kubernetes.pod.uid"
CONTAINER_NAME: Final = "io.kubernetes.container.name"
RESTART_COUNT: Final = "io.kubernetes.container.restartCount"
CONTAINER_HASH: Final = "io.kubernetes.container.hash"  # hexadecimal
CALL_S: Final = 5.0
LIST_IMAGES_S: Final = 10.0
STOP_MARGIN_S: Final = 5.0  # beyond the grace, for the runtime to kill and to answer
OUTPUT_MAX: Final = 1024  # characters of a hook's output that are kept
_OLD_SERVICE: Final = "runtime.v1alpha2.RuntimeService"
_HEXADECIMAL: Final = re.compile(r"[0-9a-f]{1,8}")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_PHASES: Final = {
    cri_pb2.CONTAINER_CREATED: ContainerPhase.CREATED,
    cri_pb2.CONTAINER_RUNNING: ContainerPhase.RUNNING,
    cri_pb2.CONTAINER_EXITED: ContainerPhase.EXITED,
}


class CommandResult(NamedTuple):
    """A command that ran in a container: its exit code, and the beginning of what it printed."""

    exit_code: int
    output: str


class StartedWith(NamedTuple):
    """Origin of a container: the hash and the environment that it was started with.

    `plain` is kubelet's hash; None where the container carries none. `environment` None: the
    runtime does not say.
    """

    plain: int | None
    environment: Mapping[str, str] | None


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime that answers CRI v1. `name` is the scheme of container ids in pods' statuses."""

    name: str
    version: str
    calls: Calls

    async def containers_of(self, pod_uid: str) -> dict[str, NodeContainer]:
        """Return the newest container of each name in a pod. Raises RuntimeCallFailed."""
        asked = cri_pb2.ContainerFilter(label_selector={POD_UID: pod_uid})
        reply = await self.calls.call(
            RUNTIME, "ListContainers", cri_pb2.ListContainersRequest(filter=asked), within_s=CALL_S
        )
        newest = newest_by_name(self._container(found) for found in reply.containers)
        full = [await self._with_start(container) for container in newest.values()]
        return {container.name: container for container in full if container is not None}

    async def started_with(self, container_id: str) -> StartedWith:
        """Return what a container was started with. Raises RuntimeCallFailed."""
        request = cri_pb2.ContainerStatusRequest(container_id=_bare(container_id), verbose=True)
        reply = await self.calls.call(RUNTIME, "ContainerStatus", request, within_s=CALL_S)
        text = reply.status.annotations.get(CONTAINER_HASH, "")
        plain = int(text, 16) if _HEXADECIMAL.fullmatch(text) else None
        return StartedWith(plain, _environment(reply.info.get("info", "")))

    async def stop(self, container_id: str, grace_s: int) -> None:
        """Stop a container; one that is gone is stopped. Raises RuntimeCallFailed."""
        request = cri_pb2.StopContainerRequest(
            container_id=_bare(container_id), timeout=max(grace_s, 0)
        )
        try:
            await self.calls.call(
                RUNTIME, "StopContainer", request, within_s=grace_s + STOP_MARGIN_S
            )
        except RuntimeCallFailed as failed:
            if not failed.missing:
                raise

    async def execute(
        self, container_id: str, command: Iterable[str], within_s: int
    ) -> CommandResult:
        """Run a command for at most `within_s` seconds. Raises RuntimeCallFailed."""
        request = cri_pb2.ExecSyncRequest(
            container_id=_bare(container_id), cmd=list(command), timeout=within_s
        )
        limit = within_s + STOP_MARGIN_S
        reply = await self.calls.call(RUNTIME, "ExecSync", request, within_s=limit)
        text = (reply.stdout + reply.stderr).decode(errors="replace").strip()
        return CommandResult(reply.exit_code, text[:OUTPUT_MAX])

    async def images(self) -> list[HeldImage]:
        """Return what the store holds. Raises RuntimeCallFailed."""
        reply = await self.calls.call(
            IMAGES, "ListImages", cri_pb2.ListImagesRequest(), within_s=LIST_IMAGES_S
        )
        return [HeldImage(i.id, tuple(i.repo_tags), tuple(i.repo_digests)) for i in reply.images]

    async def pull(
        self,
        image: str,
        *,
        sandbox: Mapping[str, Mapping[str, str]],
        login: tuple[str, str] | None = None,
        within_s: float,
    ) -> str:
        """Pull `image`; returns the runtime's reference. Raises RuntimeCallFailed."""
        username, password = login or ("", "")
        auth = cri_pb2.AuthConfig(username=username, password=password) if login else None
        config = cri_pb2.PodSandboxConfig(
            labels=sandbox["labels"], annotations=sandbox["annotations"]
        )
        request = cri_pb2.PullImageRequest(
            image=cri_pb2.ImageSpec(image=image), auth=auth, sandbox_config=config
        )
        reply = await self.calls.call(IMAGES, "PullImage", request, within_s=within_s)
        return str(reply.image_ref)

    async def images_in_use(self) -> frozenset[str]:
        """Return ids and references of the images of all containers. Raises RuntimeCallFailed."""
        reply = await self.calls.call(
            RUNTIME, "ListContainers", cri_pb2.ListContainersRequest(), within_s=CALL_S
        )
        found = ((c.image.image, c.image_ref, c.image_id) for c in reply.containers)
        return frozenset(name for names in found for name in names if name)

    async def remove_image(self, image: str) -> None:
        """Remove an image with all its tags. Raises RuntimeCallFailed."""
        request = cri_pb2.RemoveImageRequest(image=cri_pb2.ImageSpec(image=image))
        await self.calls.call(IMAGES, "RemoveImage", request, within_s=LIST_IMAGES_S)

    async def _with_start(self, container: NodeContainer) -> NodeContainer | None:
        """`container` with its phase and start of now; None when it was removed meanwhile."""
        request = cri_pb2.ContainerStatusRequest(container_id=_bare(container.id))
        try:
            reply = await self.calls.call(RUNTIME, "ContainerStatus", request, within_s=CALL_S)
        except RuntimeCallFailed as failed:
            if failed.missing:
                return None
            raise
        phase = _PHASES.get(reply.status.state, ContainerPhase.UNKNOWN)
        return replace(container, phase=phase, started=_instant(reply.status.started_at))

    def _container(self, found: Any) -> NodeContainer:
        count = found.annotations.get(RESTART_COUNT, "")
        return NodeContainer(
            name=found.labels.get(CONTAINER_NAME) or found.metadata.name,
            id=f"{self.name}://{found.id}",
            phase=_PHASES.get(found.state, ContainerPhase.UNKNOWN),
            attempt=int(count) if count.isdecimal() else found.metadata.attempt,
            created=_instant(found.created_at),
        )


@asynccontextmanager
async def connected_runtime(socket: Path) -> AsyncIterator[Runtime]:
    """The runtime at `socket` for the length of the block.

    Raises ClusterFailed: GK5120 where no program listens, GK5121 where it does not speak CRI,
    GK5122 where it speaks an older version only.
    """
    await _listened_on(socket)
    calls = Calls(socket)
    try:
        yield await _probed(calls)
    finally:
        await calls.close()


async def _listened_on(socket: Path) -> None:
    try:
        _, writer = await asyncio.open_unix_connection(socket)
    except OSError as error:
        message = f"{socket}: no container runtime listens: {error.strerror or error}"
        way_out = "start the runtime, or name its socket: --socket PATH"
        raise _unusable("GK5120", message, way_out) from None
    writer.close()
    await writer.wait_closed()


async def _probed(calls: Calls) -> Runtime:
    try:
        reply = await calls.call(RUNTIME, "Version", cri_pb2.VersionRequest(), within_s=CALL_S)
    except RuntimeCallFailed as failed:
        if failed.unknown_method and await _is_old(calls):
            message = f"{calls.socket}: the container runtime does not speak CRI v1"
            raise _unusable("GK5122", message, "update it: containerd 1.6, CRI-O 1.20") from None
        message = f"{calls.socket}: what listens is no container runtime: {failed}"
        raise _unusable(
            "GK5121", message, "name the socket of the runtime: --socket PATH"
        ) from None
    return Runtime(reply.runtime_name, reply.runtime_version, calls)


async def _is_old(calls: Calls) -> bool:
    try:
        await calls.answers(_OLD_SERVICE, within_s=CALL_S)
    except RuntimeCallFailed:
        return False
    return True


def _unusable(code: str, message: str, way_out: str) -> ClusterFailed:
    notes = (("unchanged", "every container of the node"), ("next", way_out))
    return ClusterFailed(Finding(code=code, message=message, notes=notes))


def _environment(info: str) -> dict[str, str] | None:
    """The environment in what containerd and CRI-O say of a container: JSON with its OCI spec."""
    try:
        listed = json.loads(info)["runtimeSpec"]["process"]["env"]
        return {name: value for name, _, value in (entry.partition("=") for entry in listed)}
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _bare(container_id: str) -> str:
    """The id as the runtime knows it, without the scheme of a pod's status."""
    return container_id.rpartition("://")[2]


def _instant(nanoseconds: int) -> datetime | None:
    return _EPOCH + timedelta(microseconds=nanoseconds // 1000) if nanoseconds > 0 else None
