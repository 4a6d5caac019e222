"""A release: everything besides a chart that decides which objects it renders to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gitkruise.printable import shown


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterValues:
    """Values of an entry of a ConfigMap or Secret, in YAML; `origin` is `Secret shop/web`."""

    origin: str
    text: str = field(repr=False)
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchedChart:
    """A chart of a repository of charts; `digest` is the SHA-256 of its archive, which is the file
    `archive` of this machine."""

    repository: str
    name: str
    version: str
    digest: str
    archive: str

    def __str__(self) -> str:
        return f"chart {shown(self.name)} {shown(self.version)}"

    @property
    def folder(self) -> str:
        """Name the archive as the folder of its files."""
        return f"{self.name}-{self.version}.tgz"

    @property
    def try_it(self) -> str:
        """Return the command of helm that a user tries the chart with."""
        if self.repository.startswith("oci://"):
            where = f"{self.repository.rstrip('/')}/{self.name}"
        else:
            where = f"{self.name} --repo {self.repository}"
        return f"helm template {shown(where, 400)} --version {shown(self.version)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseInputs:
    """Contribution of a cluster to a release, and a chart that is not in the git repository.

    `unread` names objects with values that were not read, and `why` they were not; the version is
    `assumed` without a cluster.
    """

    kube_version: str
    assumed: bool = False
    values: tuple[ClusterValues, ...] = ()
    unread: tuple[str, ...] = ()
    why: str = ""
    chart: FetchedChart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Names, values and versions that helm is given; later values win: files, cluster, `values`."""

    name: str
    namespace: str
    values: Mapping[str, Any] = field(default_factory=dict)
    values_files: tuple[str, ...] = ()
    include_crds: bool = True
    skip_tests: bool = False
    api_versions: tuple[str, ...] = ()
    inputs: ReleaseInputs

    def digest(self) -> str:
        """Name everything but the values of the cluster, of which a plain digest may not be kept
        (they may be secret)."""
        parts = [
            self.name, self.namespace, self.values, self.values_files, self.include_crds,
            self.skip_tests, self.api_versions, self.inputs.kube_version, self.inputs.assumed,
            self.inputs.unread,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
