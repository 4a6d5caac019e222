"""One fetch for all files of a commit, before many units read theirs one by one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gitkruise.errors import InvalidManifests
from gitkruise.git.repository.repository import Repository

_READ: Final = (".yaml", ".yml", ".json")


def bring_files(repository: Repository, commit: str, paths: Iterable[str]) -> None:
    """Make every manifest below `paths` present in a mirror, by one fetch. Blocking.

    A path that is missing, or cannot be listed, is skipped: its reader reports the error.
    """
    if repository.local:
        return
    wanted: set[str] = set()
    for path in sorted(set(paths)):
        try:
            if repository.find(commit, path) is not None:
                entries = repository.list_tree(commit, path)
                wanted |= {e.id for e in entries if e.is_file and e.path.lower().endswith(_READ)}
        except InvalidManifests:
            continue
    repository.sizes(sorted(wanted))
