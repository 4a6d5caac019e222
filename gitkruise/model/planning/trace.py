"""A rollout as data: what was done, when, to which object, and why others were left alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

HELD: Final = "held"
IN_PLACE: Final = "in-place"
SIDECAR: Final = "sidecar"


class Line(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One thing that happened, or one pod that was left alone.

    `what` is an action with its kind (`CreatePod`, `PatchPod`, `DeletePod`), `held`, or a change
    of a pod seen in the cluster: `in-place` (it moved to the revision in `why`), `sidecar`
    (a SidecarSet gave it the images in `why`), `ready`, `unready`, `gone`. `workload` is the
    `Kind namespace/name` that decided it or owns the pod.
    """

    at: datetime
    what: str
    object: str  # name of the object; of a SidecarSet's pods `namespace/name`
    why: str = ""
    workload: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Lines in the order they happened. `quiet`: nothing is left to do before a change."""

    start: datetime
    end: datetime
    lines: tuple[Line, ...]
    quiet: bool

    def only(self, *whats: str) -> Iterator[Line]:
        """The lines whose `what` is one of `whats`."""
        return (line for line in self.lines if line.what in whats)
