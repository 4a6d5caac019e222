"""Live commits of a source, in a file of the state directory, for the next start.

Live objects name only commits that changed them; a commit that changed nothing and was dropped by a
rewrite is known from this file alone.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gitkruise.git.plumbing.refs import is_object_id
from gitkruise.gitops.source.ref_resolver import ref_of
from gitkruise.kube.system.private_files import read_regular, write_private
from gitkruise.model.gitops.config import GitSource
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_COMMITS_MAX: Final = 10_000


class Memory:
    """The live commits of one source in the cluster `cluster`.

    A source with another URL or ref is another source. An unreadable file costs this memory and
    nothing more.
    """

    def __init__(self, state_dir: Path, source: GitSource, cluster: str) -> None:
        parts = (cluster, source.namespace, source.name, source.spec.url, ref_of(source))
        name = hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
        self._file = state_dir / "stood-on" / f"{name}.txt"
        self._kept = self._failed = frozenset[str]()

    def recall(self) -> frozenset[str]:
        """Return the commits that an earlier run kept. Blocking."""
        try:
            lines = read_regular(self._file).decode("ascii").split()
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError) as error:
            log.warning(log_line("live-commits-not-read", error=error))
            return frozenset()
        return frozenset(filter(is_object_id, lines[:_COMMITS_MAX]))

    def keep(self, commits: Iterable[str]) -> None:
        """Write the live commits if they changed; a full disk is tried again. Blocking."""
        live = frozenset(commits)
        if not live or live == self._kept:
            return
        try:
            write_private(self._file, ("\n".join(sorted(live)) + "\n").encode("ascii"))
        except OSError as error:
            if live != self._failed:
                log.warning(log_line("live-commits-not-stored", error=error))
            self._failed = live
            return
        self._kept, self._failed = live, frozenset()
