"""One call to a container runtime: gRPC over a unix socket, with a deadline."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio

from gitkruise.agent.cri import cri_pb2
from gitkruise.errors import GitkruiseError, Retry

# containerd and CRI-O reject the authority that gRPC derives from a socket's path; the lists of a
# big node exceed gRPC's 4 MiB.
OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", 16 << 20),
    ("grpc.max_reconnect_backoff_ms", 2000),  # a restarted runtime is found within seconds
)
RUNTIME, IMAGES = "runtime.v1.RuntimeService", "runtime.v1.ImageService"
REPLIES: Final = {
    (RUNTIME, "Version"): cri_pb2.VersionResponse,
    (RUNTIME, "ListContainers"): cri_pb2.ListContainersResponse,
    (RUNTIME, "ContainerStatus"): cri_pb2.ContainerStatusResponse,
    (RUNTIME, "ExecSync"): cri_pb2.ExecSyncResponse,
    (RUNTIME, "StopContainer"): cri_pb2.StopContainerResponse,
    (IMAGES, "ListImages"): cri_pb2.ListImagesResponse,
    (IMAGES, "PullImage"): cri_pb2.PullImageResponse,
    (IMAGES, "RemoveImage"): cri_pb2.RemoveImageResponse,
}


class RuntimeCallFailed(GitkruiseError):
    """A call that the runtime refused or did not answer; `status` is gRPC's name of the reason."""

    retry, reason = Retry.BACKOFF, "RuntimeCallFailed"

    def __init__(self, method: str, code: str, details: str) -> None:
        super().__init__(f"{method}: {details or code}")
        self.method, self.code, self.details = method, code, details

    @property
    def missing(self) -> bool:
        """The runtime knows no such container or image."""
        return self.code == "NOT_FOUND"

    @property
    def unanswered(self) -> bool:
        """The runtime is away: it is unknown whether it carried out the call."""
        return self.code == "UNAVAILABLE"

    @property
    def unknown_method(self) -> bool:
        return self.code == "UNIMPLEMENTED"


class Calls:
    """A channel to the runtime at `socket`; gRPC opens it again after a restart."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self._channel = grpc.aio.insecure_channel(f"unix://{socket.absolute()}", options=OPTIONS)

    async def call(self, service: str, method: str, request: Any, *, within_s: float) -> Any:
        """Return the reply. Raises RuntimeCallFailed."""
        reply = REPLIES[service, method]
        return await self._send(service, method, request.SerializeToString, reply, within_s)

    async def answers(self, service: str, *, within_s: float) -> None:
        """Ask a service of any version of CRI for its version. Raises RuntimeCallFailed."""
        request = cri_pb2.VersionRequest()
        await self._send(
            service, "Version", request.SerializeToString, cri_pb2.VersionResponse, within_s
        )

    async def close(self) -> None:
        await self._channel.close()

    async def _send(
        self, service: str, method: str, written: Any, reply: Any, within_s: float
    ) -> Any:
        ask = self._channel.unary_unary(
            f"/{service}/{method}", response_deserializer=reply.FromString
        )
        try:
            return await ask(written(), timeout=within_s)
        except grpc.aio.AioRpcError as error:
            raise RuntimeCallFailed(method, error.code().name, error.details() or "") from None
