"""OpenKruise's conversion and defaults, for a cluster that has its CRDs and no webhooks.

`gitkruise install --crds` makes a cluster serve CloneSets and Advanced StatefulSets in their
storage version alone, because nothing there converts or defaults them. OpenKruise itself always
serves both versions, so a version that is readable and not served shows that no webhook is
installed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.admission.conversion.registry import convert
from gitkruise.admission.kruise.cloneset import default_cloneset
from gitkruise.admission.kruise.lazy_stages import default_stateful_set
from gitkruise.admission.rules.request import CREATE, UPDATE, AdmissionRequest
from gitkruise.gitops.build.validate import Nothing
from gitkruise.model.gitops.document import Desired
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, key_of, split_api_version
from gitkruise.wire.primitives.paths import get

_DEFAULTS: Final[Mapping[GroupKind, Callable[[AdmissionRequest, Gates], Obj]]] = {
    CLONESET: default_cloneset,
    ADVANCED_STATEFULSET: default_stateful_set,
}
_TEMPLATES: Final = ("template", "volumeClaimTemplates")  # kept alike by default_templates


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDialect:
    """The form in which one cluster takes one object: its `kind`, and with our defaults or
    without."""

    kind: Kind
    version: str  # the one git speaks
    defaulted: bool = False

    def outgoing(self, body: Obj, live: Obj | None, gates: Gates) -> Obj:
        """Return `body`, written in git's version, in the form for this cluster.

        Defaults of a template change its hash, so they are set as the webhook sets them: on new or
        changed templates, and never on one that is stored without. Of the other fields that git
        does not set, live values stay: an autoscaler owns `replicas`, a person `partition`.
        """
        if not self.defaulted:
            return convert(body, self.kind.version)
        sent = _defaulted(body, live, self.kind, gates)
        if live is not None:
            there = convert(live, self.version)
            sent = {**sent, "spec": _unless_set(sent["spec"], body.get("spec"), there.get("spec"))}
        return convert(sent, self.kind.version)

    def incoming(self, reply: Obj) -> Obj:
        """Return the stored object in git's version."""
        return convert(reply, self.version)


def as_webhook_keeps(live: Obj, catalog: Catalog, gates: Gates) -> Obj:
    """Return a live object with the defaults that OpenKruise's webhook would have set."""
    group, version = split_api_version(live["apiVersion"])
    kind = catalog.by_kind(group, version, live["kind"])
    return live if kind is None else _defaulted(live, live, kind, gates)


def _defaulted(body: Obj, live: Obj | None, kind: Kind, gates: Gates) -> Obj:
    request = AdmissionRequest(
        operation=CREATE if live is None else UPDATE,
        kind=kind,
        key=key_of(body),
        obj=body,
        old=live,
        view=Nothing(),
    )
    return _DEFAULTS[request.key.group_kind](request, gates)


def _unless_set(full: Obj, asked: Any, live: Any) -> Obj:
    """Return `full` without defaults, of fields that `asked` lacks, where `live` has another
    value."""
    out = {}
    for name, value in full.items():
        mine, there = get(asked, name), get(live, name)
        if name in _TEMPLATES or there is None:
            out[name] = value
        elif isinstance(value, Mapping) and isinstance(there, Mapping):
            out[name] = _unless_set(value, mine, there)
        elif mine is not None or there == value:
            out[name] = value
    return out


def dialect_of(desired: Desired, catalog: Catalog) -> ClusterDialect | None:
    """Return the dialect; None when the cluster serves the kind in no version that we convert
    to."""
    key, version = desired.key, desired.version
    spoken, stored = catalog.by_kind(key.group, version, key.kind), catalog.stored(key.group_kind)
    if spoken is None or stored is None:
        return None
    versions = (k for k in catalog.kinds() if k.group_kind == key.group_kind)
    alone = key.group_kind in _DEFAULTS and any(not k.verbs for k in versions)
    return ClusterDialect(kind=spoken if spoken.verbs else stored, version=version, defaulted=alone)
