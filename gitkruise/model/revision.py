"""Revisions: one version of a pod template each, kept as the exact bytes OpenKruise would write."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from gitkruise.wire.names import Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One ControllerRevision. Two revisions are equal when their data bytes are equal."""

    name: str
    number: int
    data: bytes
    hash_label: str = ""  # label controller.kubernetes.io/hash
    claims_hash: str | None = None  # annotation kruise.io/cloneset-volumeclaimtemplate-hash
    labels: Obj = field(default_factory=dict)
    annotations: Obj = field(default_factory=dict)
    uid: str = ""
    resource_version: str = ""
    created: datetime | None = None
    api_version: str = "apps/v1"

    @property
    def short(self) -> str:
        """The hash part of the name: what `pod-template-hash` carries."""
        return self.name.rpartition("-")[2]
