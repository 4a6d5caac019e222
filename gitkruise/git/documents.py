"""YAML and JSON files as raw objects with positions, within limits, by kubectl's rules."""

from __future__ import annotations

from dataclasses import dataclass

from gitkruise.errors import Finding
from gitkruise.model.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one file; every one names itself in its error (GK9001 to GK9005)."""

    file_bytes: int = 1 << 20
    documents: int = 1_000
    nesting: int = 100
    alias_nodes: int = 50_000
    map_keys: int = 10_000
    items: int = 100_000
    nodes: int = 200_000
    key_chars: int = 1_024


@dataclass(frozen=True, slots=True)
class Parsed:
    """What a file says and what is wrong with it; documents are meant to be used only if `ok`."""

    documents: tuple[Document, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(f.severity == "error" for f in self.findings)


def parse_file(data: bytes, file: str, limits: Limits = Limits()) -> Parsed:
    """All documents of a YAML or JSON file; problems are findings, never exceptions."""
    raise NotImplementedError
