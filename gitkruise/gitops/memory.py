"""Which commits of a source were live, in a file of the state directory: for the next start.

The cluster tells only of commits that changed something; one that changed nothing and is dropped
by a rewrite is missed by nobody else.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gitkruise.git.refs import is_object_id
from gitkruise.gitops.target import ref_of
from gitkruise.model.config import GitSource

log = logging.getLogger(__name__)
_COMMITS_MAX: Final = 10_000


class Memory:
    """The commits of one source that the cluster of `cluster` stands on.

    A source with another URL or ref is another source. What goes wrong with the file costs the
    memory and nothing else.
    """

    def __init__(self, state_dir: Path, source: GitSource, cluster: str) -> None:
        parts = (cluster, source.namespace, source.name, source.spec.url, ref_of(source))
        name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
        self._file = state_dir / "stood-on" / f"{name}.txt"
        self._kept: frozenset[str] | None = None

    def recall(self) -> frozenset[str]:
        """What an earlier run kept. Blocking."""
        try:
            lines = self._file.read_text("ascii").split()
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError) as error:
            log.warning("commits seen before are not known: %s", error)
            return frozenset()
        return frozenset(filter(is_object_id, lines[:_COMMITS_MAX]))

    def keep(self, commits: Iterable[str]) -> None:
        """Write what is live now, when that is news. Blocking."""
        live = frozenset(commits)
        if not live or live == self._kept:
            return
        beside = self._file.with_suffix(f".{os.getpid()}.new")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text("\n".join(sorted(live)) + "\n", "ascii")
            beside.replace(self._file)
        except OSError as error:
            log.warning("commits seen are not kept for the next start: %s", error)
        self._kept = live
