"""A git repository, read in place or through a bare mirror; the one user of GitPython."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from gitkruise.model.document import Commit
from gitkruise.git.tree import TreeEntry


class Repository:
    """Blocking; safe to call from several threads. Raises SourceFailed (GK3xxx)."""

    url: str  # as shown: without secrets
    git_dir: Path
    local: bool  # read in place

    @classmethod
    def open(
        cls,
        url: str,
        *,
        mirrors: Path | None = None,
        credentials: object = None,
        protocols: Collection[str] = ("https", "ssh", "file"),
        timeout_s: float = 60.0,
    ) -> Repository:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def tip(self, ref: str) -> str:
        """Commit id of a branch or full ref now (asks the remote); GK3201 when it is not there."""
        raise NotImplementedError

    def fetch(self, ref: str) -> str:
        """tip() with its objects present locally."""
        raise NotImplementedError

    def resolve(self, ref: str) -> str:
        """Commit id of a branch, tag, full ref or commit id known locally (no network)."""
        raise NotImplementedError

    def commit(self, commit: str) -> Commit:
        raise NotImplementedError

    def is_ancestor(self, ancestor: str, descendant: str) -> bool:
        raise NotImplementedError

    def commits_between(
        self, old: str, new: str, *, paths: Sequence[str] = (), limit: int = 1_000
    ) -> list[Commit]:
        """Commits reachable from new and not from old ("" for all), newest first, touching `paths`."""
        raise NotImplementedError

    def changed_paths(self, old: str, new: str, path: str = "") -> list[str]:
        """Paths (below `path`) whose content differs between two commits, sorted."""
        raise NotImplementedError

    def tree_id(self, commit: str, path: str = "") -> str:
        """Id of the tree (or blob) at path; GK3202 when it is not there."""
        raise NotImplementedError

    def list_tree(self, commit: str, path: str = "") -> list[TreeEntry]:
        """All entries below path, sorted; paths are relative to the repository's root."""
        raise NotImplementedError

    def read_blob(self, blob: str, *, limit: int = 1 << 20) -> bytes:
        raise NotImplementedError

    def push_ref(self, ref: str, new: str, *, old: str | None) -> None:
        """Move a full ref from old (None: it must not exist) to new, never forced. Raises RefMoved."""
        raise NotImplementedError
