"""Kinds whose rollouts plans simulate, known without loading anything about them."""

from __future__ import annotations

from typing import Final

from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET, DEPLOYMENT, SIDECARSET

ROLLING_KINDS: Final = frozenset({CLONESET, ADVANCED_STATEFULSET, SIDECARSET, DEPLOYMENT})
# Whose pods sidecars are injected into, as far as manifests tell.
BEARERS: Final = frozenset({CLONESET, ADVANCED_STATEFULSET, DEPLOYMENT})
