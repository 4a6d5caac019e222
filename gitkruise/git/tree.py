"""Trees and paths inside a repository: parsing, checking, building."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TreeEntry:
    path: str
    mode: int  # git's, e.g. 0o100644
    id: str
    size: int = -1  # bytes; -1 for what is not a blob
