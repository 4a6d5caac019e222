"""Archives of charts in the state directory, and the version that each range led to last."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

from gitkruise.git.helm.release import FetchedChart
from gitkruise.kube.system.private_files import read_regular, write_private
from gitkruise.model.gitops.config import Helm, Unit

CHARTS: Final = "charts"  # folder of the state directory
ARCHIVES_MAX: Final = 300
BYTES_MAX: Final = 1 << 30
NOTES_MAX: Final = 3_000


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedChart:
    """A chart as a unit names it; `secret` is `namespace/name` of its credentials, or "".

    What was read with one Secret is not shared with others: an archive belongs to its `scope`.
    """

    repository: str
    name: str
    version: str
    secret: str = ""

    @property
    def scope(self) -> str:
        """Name the repository as it is read with these credentials."""
        return _digest(self.repository, self.secret)[:16]

    @property
    def note(self) -> str:
        """Name the file that says which archive this is."""
        return f"{_digest(self.repository, self.secret, self.name, self.version)[:40]}.json"


def wanted_of(unit: Unit) -> WantedChart | None:
    """Return the chart of a repository that a unit names; None for another unit."""
    render = unit.spec.render
    helm = render.helm or Helm()
    if render.kind != "helm" or not helm.repository:
        return None
    secret = f"{unit.namespace}/{helm.secret_ref.name}" if helm.secret_ref else ""
    return WantedChart(
        repository=helm.repository, name=helm.chart, version=helm.version, secret=secret
    )


class ChartCache:
    """Files of one folder, of which those that were not used for longest are removed. Blocking."""

    # Set once, when a process starts that may plan with charts that were fetched.
    shared: ClassVar[ChartCache | None] = None

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find(self, wanted: WantedChart) -> FetchedChart | None:
        """Return the chart that was fetched last for what is wanted."""
        path = self.folder / wanted.note
        try:
            note = json.loads(read_regular(path))
            version, digest = str(note["version"]), str(note["digest"])
        except (OSError, ValueError, KeyError, TypeError):
            return None  # it is fetched
        return self.archived(wanted, version, digest, path)

    def archived(
        self, wanted: WantedChart, version: str, digest: str, *also: Path
    ) -> FetchedChart | None:
        """Return a version of which the archive is here; it counts as used now."""
        archive = self._archive(wanted, digest)
        try:
            for path in (archive, *also):
                os.utime(path)
        except OSError:
            return None
        return FetchedChart(
            repository=wanted.repository, name=wanted.name, version=version, digest=digest,
            archive=str(archive),
        )  # fmt: skip

    def keep(self, wanted: WantedChart, version: str, data: bytes) -> FetchedChart:
        """Keep an archive as what is wanted. Raises OSError."""
        digest = hashlib.sha256(data).hexdigest()
        write_private(self._archive(wanted, digest), data)
        return self.note(wanted, version, digest)

    def note(self, wanted: WantedChart, version: str, digest: str) -> FetchedChart:
        """Remember that a kept archive is what is wanted. Raises OSError."""
        note = {"version": version, "digest": digest}
        write_private(self.folder / wanted.note, json.dumps(note).encode())
        self._prune()
        found = self.archived(wanted, version, digest)
        if found is None:
            raise FileNotFoundError(self._archive(wanted, digest))
        return found

    def _archive(self, wanted: WantedChart, digest: str) -> Path:
        return self.folder / f"{wanted.scope}-{digest}.tgz"

    def _prune(self) -> None:
        _remove_oldest(self.folder.glob("*.tgz"), ARCHIVES_MAX, BYTES_MAX)
        _remove_oldest(self.folder.glob("*.json"), NOTES_MAX, BYTES_MAX)


def kept_chart(unit: Unit) -> FetchedChart | None:
    """Return the chart that plans of this process use for a unit; None for a unit without one."""
    wanted = wanted_of(unit)
    if wanted is None or ChartCache.shared is None:
        return None
    return ChartCache.shared.find(wanted)


def _remove_oldest(paths: Iterable[Path], count_max: int, bytes_max: int) -> None:
    """Keep the files that were used last, as far as the limits go."""
    found = sorted(((path.stat(), path) for path in paths), key=lambda one: -one[0].st_mtime_ns)
    size = 0
    for number, (stat, path) in enumerate(found):
        size += stat.st_size
        if number >= count_max or size > bytes_max:
            path.unlink(missing_ok=True)


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()
