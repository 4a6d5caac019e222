"""A stage for a test, cleared away after it."""

from __future__ import annotations

from tests.gitops.conftest import embedded, staged

__all__ = ["embedded", "staged"]
