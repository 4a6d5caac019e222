"""Kinds whose rollouts plans simulate, known without loading anything about them."""

from __future__ import annotations

from typing import Final

from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DEPLOYMENT,
    SIDECARSET,
    STATEFULSET,
)

# With ordinals: a partition of these is a number.
STATEFUL: Final = frozenset({STATEFULSET, ADVANCED_STATEFULSET})
ROLLING_KINDS: Final = frozenset({CLONESET, SIDECARSET, DEPLOYMENT}) | STATEFUL
# Whose pods sidecars are injected into, as far as manifests show.
BEARERS: Final = frozenset({CLONESET, DEPLOYMENT}) | STATEFUL
