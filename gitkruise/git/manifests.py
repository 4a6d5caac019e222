"""The objects a path of a repository asks for at one commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gitkruise.errors import Finding
from gitkruise.git.repo import Repository
from gitkruise.model.document import Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifests:
    """What a path of a commit holds. `tree` is the id of its content: equal id, equal result."""

    commit: str
    path: str
    tree: str
    documents: tuple[Document, ...]
    findings: tuple[Finding, ...] = ()
    skipped: tuple[str, ...] = ()

    def checked(self) -> Manifests:
        """Itself; raises InvalidManifests with the first 20 errors and a count of the rest."""
        raise NotImplementedError


class ParseCache:
    """Parsed files by blob id, bounded."""

    def __init__(self, entries_max: int = 20_000) -> None:
        raise NotImplementedError


def read_desired(
    repository: Repository,
    commit: str,
    path: str = "",
    *,
    kind: str = "auto",
    ignore: Sequence[str] = (),
    cache: ParseCache | None = None,
) -> Manifests:
    """Read (kind plain) or render (kustomize) the objects at `path`; auto looks for a kustomization."""
    raise NotImplementedError
