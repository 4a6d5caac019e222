"""An installation of an earlier release, made of the manifests of this one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise import __version__
from gitkruise.gitops.install.installer import CRD, InstallOptions, manifests
from gitkruise.gitops.install.upgrade_plan import VERSION_LABEL
from gitkruise.wire.primitives.names import Obj, key_of
from gitkruise.wire.primitives.paths import get, put

VERSION: Final = "0.0.9"
STORED: Final = "v1alpha0"  # the version of Units that the earlier release stored
GONE: Final = "gitkruise-old"
UNITS: Final = "units.gitkruise.io"


def earlier(options: InstallOptions, *, version: str = VERSION) -> tuple[Obj, ...]:
    """Its objects: one role more, one rule less, another image, and Units in another version."""
    return tuple(_earlier(options, version))


def _earlier(options: InstallOptions, version: str) -> Iterator[Obj]:
    for obj in manifests(options):
        key = key_of(obj)
        if key.kind == "Deployment":
            image = ("spec", "template", "spec", "containers", 0, "image")
            named = put(obj, ("metadata", "labels", VERSION_LABEL), version)
            yield put(named, image, str(get(obj, *image)).replace(__version__, version))
        elif key.group_kind == CRD and key.name == UNITS:
            (only,) = obj["spec"]["versions"]
            yield put(obj, ("spec", "versions"), [{**only, "name": STORED}])
        elif key.kind == "ClusterRole" and key.name == "gitkruise-engine":
            yield put(obj, ("rules",), obj["rules"][1:])
            yield _named(obj, GONE)
        else:
            yield obj


def _named(obj: Obj, name: str) -> Obj:
    meta: dict[str, Any] = {"name": name, "labels": obj["metadata"]["labels"]}
    return {**obj, "metadata": meta}
