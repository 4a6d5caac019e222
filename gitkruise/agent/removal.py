"""Images that the agent pulled for a while: what it notes before the pull, and their removal."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.agent.cri.calls import RuntimeCallFailed
from gitkruise.agent.cri.runtime import Runtime
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.node.node_image import NODE_IMAGE, NodeImage
from gitkruise.model.node.wire_shapes import VERSION
from gitkruise.planner.node.image_removal import (
    PULLED_IMAGES,
    Fate,
    fate,
    names,
    pulled_images,
    removed_later,
    unwanted,
)
from gitkruise.planner.node.pull_agent import PullTask, held
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef

NODE_IMAGES: Final = ResourceRef(NODE_IMAGE.group, VERSION, "nodeimages")
AGAIN: Final = timedelta(minutes=1)  # while a container uses the image
log: Final = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ImageRemoval:
    """Keeps the annotation of the images that the agent may remove, and removes them."""

    store: InformerCache
    transport: Transport
    runtime: Runtime
    clock: Clock

    async def note(self, raw: Obj, wanted: NodeImage, tasks: Iterable[PullTask]) -> Obj:
        """Note which of `tasks`, about to begin, pull an image that goes later.

        One that the runtime holds already is not the agent's to remove. Returns the NodeImage as
        it is then. Raises ApiError and RuntimeCallFailed.
        """
        before = pulled_images(raw)
        asked = [t for t in removed_later(wanted, tasks) if t.image not in before]
        if not asked:
            return raw
        store = await self.runtime.images()
        fresh = [task.image for task in asked if held(task, store) is None]
        return await self._write(raw, (*before, *fresh)) if fresh else raw

    async def clear(self, raw: Obj, wanted: NodeImage) -> tuple[list[str], datetime | None]:
        """Remove what no tag names any more.

        Returns the images that went, and when to look again at those that something uses. Raises
        ApiError and RuntimeCallFailed.
        """
        pulled = pulled_images(raw)
        going = unwanted(wanted, pulled)
        if not going:
            return [], None
        store, used = await self.runtime.images(), await self.runtime.images_in_use()
        kept, gone = list[str](), list[str]()
        for image in going:
            match fate(image, store, used, going):
                case Fate.KEEP:
                    kept.append(image)
                case Fate.REMOVE:
                    if not await self._remove(image):
                        kept.append(image)
                        continue
                    gone.append(image)
                    store = [one for one in store if not names(image, one)]
                case Fate.FORGET:
                    pass  # it went with another tag, or kubelet collected it
        left = tuple(i for i in pulled if i in kept or i not in going)
        if left != pulled:
            await self._write(raw, left)
        return gone, self.clock.now() + AGAIN if kept else None

    async def _remove(self, image: str) -> bool:
        try:
            await self.runtime.remove_image(image)
        except RuntimeCallFailed as failed:
            log.warning(log_line("image-not-removed", image=image, error=failed))
            return False
        return True

    async def _write(self, raw: Obj, images: Iterable[str]) -> Obj:
        meta = raw["metadata"]
        held_: dict[str, Any] = {key: meta[key] for key in ("uid", "resourceVersion")}
        notes = {PULLED_IMAGES: " ".join(images) or None}
        patch = ApiRequest(
            verb="patch", resource=NODE_IMAGES, name=meta["name"],
            body={"metadata": {**held_, "annotations": notes}}, content_type=MERGE_PATCH,
        )  # fmt: skip
        written: Obj = thaw((await self.transport.send(patch)).body)
        self.store.note_write(written)
        return written
