"""A cluster that keeps itself as git says: the files that bring the controller and what it follows.

As with Flux, whoever may push there rules the cluster. Units for others belong into files beside
these, with service accounts that may do less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gitkruise.errors import Finding, InvalidManifests, NotFound, UsageProblem
from gitkruise.git.documents import parse_file
from gitkruise.git.refs import parse_url
from gitkruise.git.tree import clean_path
from gitkruise.gitops.install import CRD, KRUISE_GROUP, manifest_text
from gitkruise.kube.transport import Transport
from gitkruise.wire.names import Obj, key_of
from gitkruise.wire.paths import get, put
from gitkruise.wire.request import ApiRequest, ResourceRef

FOLDER: Final = "gitkruise"  # below the path that is followed
SOURCE, UNIT, KEEPER = "cluster", "cluster", "gitkruise-keeper"
SINK: Final = "outcome"
_API: Final = "gitkruise.io/v1alpha1"
_UNITS: Final = ResourceRef("gitkruise.io", "v1alpha1", "units")
_INSTALL_HEAD: Final = (
    "# The controller and its rights. Written anew by `gitkruise bootstrap`: to upgrade, run that\n"
    "# of the newer version. The unit below follow.yaml applies what stands here.\n"
)
_FOLLOW_HEAD: Final = (
    "# What the controller follows: this folder, and so itself. Yours to edit.\n"
    "# Whoever may push here rules the cluster.\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a cluster's files are: the repository as the controller reaches it, and the path that
    it follows. `secret` names the Secret with its credentials, "" for none."""

    url: str
    branch: str
    path: str
    namespace: str
    secret: str = ""

    @property
    def files(self) -> tuple[str, str]:
        """What brings the controller, and what it follows: paths from the repository's top."""
        folder = f"{self.path}/{FOLDER}" if self.path else FOLDER
        return f"{folder}/install.yaml", f"{folder}/follow.yaml"


def reachable(url: str, folder: Path) -> str:
    """`url` as it can stand in a repository that others read; a path counts from `folder`.

    Raises SourceFailed GK3001 for what no GitSource can have, credentials above all.
    """
    remote = parse_url(url)
    return url if remote.path is None else str((folder / remote.path).resolve())


def following(place: Place) -> tuple[Obj, ...]:
    """The objects that make the controller follow `place`. Git alone removes none of them."""
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
            "apiVersion": _API,
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


async def followed(place: Place, transport: Transport) -> bool:
    """Whether the cluster follows the place already.

    Raises UsageProblem GK7046 when it follows another one, and ApiError.
    """
    request = ApiRequest(verb="get", resource=_UNITS, namespace=place.namespace, name=UNIT)
    try:
        unit = (await transport.send(request)).body
    except NotFound:
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


def files(place: Place, objects: Sequence[Obj], found: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files that differ from those `found`, by path. The second is its user's once it is."""
    install, follow = place.files
    wanted = {install: (_INSTALL_HEAD + manifest_text(map(_careful, objects))).encode()}
    if follow not in found:
        wanted[follow] = (_FOLLOW_HEAD + manifest_text(following(place))).encode()
    return {path: data for path, data in wanted.items() if found.get(path) != data}


def objects_of(texts: Mapping[str, bytes], place: Place) -> tuple[Obj, ...]:
    """What the second file says to follow. Raises InvalidManifests."""
    path = place.files[1]
    parsed = parse_file(texts[path], path)
    if not parsed.ok:
        raise InvalidManifests(*parsed.findings)
    return tuple(document.obj for document in parsed.documents)


def _careful(obj: Obj) -> Obj:
    """OpenKruise's definitions are brought where they lack, and never changed: they may be its
    own, or served by our webhook."""
    key = key_of(obj)
    if key.group_kind != CRD or not key.name.endswith(KRUISE_GROUP):
        return obj
    changed: Obj = put(obj, ("metadata", "annotations", "gitkruise.io/apply"), "IfNotPresent")
    return changed
