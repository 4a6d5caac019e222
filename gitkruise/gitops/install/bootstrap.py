"""Bootstrap of a cluster from git: manifests of the controller and of what it follows.

As with Flux, every user who may push there rules the cluster. Units of other users belong into
other files next to these, with service accounts that have fewer rights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests, UsageProblem
from gitkruise.git.parsing.documents import parse_file
from gitkruise.git.plumbing.refs import parse_url
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.gitops.install.installer import defines_kruise, manifest_text
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.wire.primitives.names import OWN_API, OWN_GROUP, Obj, key_of
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.primitives.requests import ResourceRef

FOLDER: Final = "gitkruise"  # below the path that is followed
SOURCE, UNIT, KEEPER = "cluster", "cluster", "gitkruise-keeper"
SINK: Final = "outcome"
UNITS: Final = ResourceRef(OWN_GROUP, "v1alpha1", "units")
_INSTALL_HEAD: Final = (
    "# The controller and its rights. `gitkruise bootstrap` overwrites this file: to upgrade, run\n"
    "# that of the newer version. The unit in follow.yaml applies this file.\n"
)
_FOLLOW_HEAD: Final = (
    "# What the controller follows: this folder, and so itself. Yours to edit.\n"
    "# Every user who may push here rules the cluster.\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterPath:
    """Place of a cluster's files: the repository as the controller reaches it, and the path that
    it follows. `secret` names the Secret with its credentials, "" for none."""

    url: str
    branch: str
    path: str
    namespace: str
    secret: str = ""

    @property
    def files(self) -> tuple[str, str]:
        """Return the paths of the controller's manifests and of its sources and units."""
        folder = f"{self.path}/{FOLDER}" if self.path else FOLDER
        return f"{folder}/install.yaml", f"{folder}/follow.yaml"


def reachable(url: str, folder: Path) -> str:
    """`url` as it can stand in a repository that others read; a path counts from `folder`.

    Raises SourceFailed GK3001 for what no GitSource can have, credentials above all.
    """
    remote = parse_url(url)
    return url if remote.path is None else str((folder / remote.path).resolve())


def following(place: ClusterPath) -> tuple[Obj, ...]:
    """The objects that make the controller follow `place`. Git alone deletes no object of them."""
    ref: dict[str, Any] = {"url": place.url, "ref": {"branch": place.branch}}
    if place.secret:
        ref["secretRef"] = {"name": place.secret}
    unit = {
        "sourceRef": {"name": SOURCE},
        "path": place.path or ".",
        "serviceAccountName": KEEPER,
        "sinkRef": {"name": SINK},
        "prune": {"deletionPolicy": "Orphan"},  # the unit may go without the cluster
    }
    sink = {"git": {"sourceRef": {"name": SOURCE}}}
    specs = (("GitSource", SOURCE, ref), ("Sink", SINK, sink), ("Unit", UNIT, unit))
    return tuple(
        {
            "apiVersion": OWN_API,
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": place.namespace,
                "annotations": {"gitkruise.io/prune": "Disabled"},
            },
            "spec": spec,
        }
        for kind, name, spec in specs
    )


async def followed(place: ClusterPath, transport: Transport) -> bool:
    """Return whether the cluster already follows the place.

    Raises UsageProblem GK7046 when it follows another one, and ApiError.
    """
    unit = await find_object(transport, UNITS, UNIT, place.namespace)
    if unit is None:
        return False
    path = clean_path(str(get(unit, "spec", "path", default="")))
    if path == place.path:
        return True
    message = f"the cluster keeps itself by {path or 'the top'}, not by {place.path or 'the top'}"
    notes = (
        ("unchanged", "the repository and the cluster"),
        ("next", f"gitkruise bootstrap {path or '.'}, or kubectl delete unit {UNIT} first"),
    )
    raise UsageProblem(Finding(code="GK7046", message=message, notes=notes))


def files(
    place: ClusterPath, objects: Sequence[Obj], found: Mapping[str, bytes]
) -> dict[str, bytes]:
    """The files that differ from those `found`, by path. The second is its user's once it is."""
    install, follow = place.files
    wanted = {install: (_INSTALL_HEAD + manifest_text(map(_careful, objects))).encode()}
    if follow not in found:
        wanted[follow] = (_FOLLOW_HEAD + manifest_text(following(place))).encode()
    return {path: data for path, data in wanted.items() if found.get(path) != data}


def objects_of(texts: Mapping[str, bytes], place: ClusterPath) -> tuple[Obj, ...]:
    """Return the objects of the second file. Raises InvalidManifests."""
    path = place.files[1]
    parsed = parse_file(texts[path], path)
    if not parsed.ok:
        raise InvalidManifests(*parsed.findings)
    return tuple(document.obj for document in parsed.documents)


def _careful(obj: Obj) -> Obj:
    """OpenKruise's definitions are brought where they lack, and never changed: they may be its
    own, or served by our webhook."""
    if not defines_kruise(key_of(obj)):
        return obj
    changed: Obj = put(obj, ("metadata", "annotations", "gitkruise.io/apply"), "IfNotPresent")
    return changed
