"""The kinds whose changes roll out over pods, known without loading anything about them."""

from __future__ import annotations

from typing import Final

from gitkruise.model.workloads.labels import KRUISE_GROUP
from gitkruise.wire.primitives.names import GroupKind

ROLLING_KINDS: Final = frozenset({
    GroupKind(KRUISE_GROUP, "CloneSet"), GroupKind(KRUISE_GROUP, "SidecarSet")
})  # fmt: skip
# Whose pods sidecars are injected into, as far as manifests tell.
BEARERS: Final = frozenset({GroupKind("apps", "Deployment"), GroupKind(KRUISE_GROUP, "CloneSet")})
