"""Writes of NodeImages, ImagePullJobs and ContainerRecreateRequests as they were observed."""

from __future__ import annotations

from typing import TypeAlias

from gitkruise.model.node.node_image import NodeImage
from gitkruise.model.node.pull_job import PullJob
from gitkruise.model.node.recreate_request import RecreateRequest
from gitkruise.model.node.wire_shapes import VERSION
from gitkruise.model.planning.plan import Delete, Patch, PatchStep
from gitkruise.wire.primitives.names import Obj

_Observed: TypeAlias = NodeImage | PullJob | RecreateRequest


def patched(seen: _Observed, body: Obj, *, subresource: str = "") -> Patch:
    """Return a merge patch that holds for the version that was seen."""
    return Patch(
        key=seen.key,
        version=VERSION,
        uid=seen.metadata.uid,
        resource_version=seen.metadata.resource_version,
        steps=(PatchStep(body=body, subresource=subresource),),
    )


def deleted(seen: _Observed) -> Delete:
    """Return the deletion of an object, however it has changed since."""
    return Delete(key=seen.key, version=VERSION, uid=seen.metadata.uid, resource_version="")
