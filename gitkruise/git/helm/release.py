"""A release: everything besides a chart that decides which objects it renders to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterValues:
    """Values of an entry of a ConfigMap or Secret, in YAML; `origin` is `Secret shop/web`."""

    origin: str
    text: str = field(repr=False)
    secret: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseInputs:
    """Contribution of a cluster to a release.

    `unread` names objects with values that were not read; the version is `assumed` without a
    cluster.
    """

    kube_version: str
    assumed: bool = False
    values: tuple[ClusterValues, ...] = ()
    unread: tuple[str, ...] = ()


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
        told = [
            self.name, self.namespace, self.values, self.values_files, self.include_crds,
            self.skip_tests, self.api_versions, self.inputs.kube_version, self.inputs.assumed,
            self.inputs.unread,
        ]  # fmt: skip
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
