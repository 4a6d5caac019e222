"""What OpenKruise's webhooks would do to an object, done before it is sent to a cluster without.

`gitkruise install --crds` makes a cluster serve CloneSets in their storage version alone, because
nothing there converts or defaults them. OpenKruise itself always serves both versions, so a
version that is readable and not served says that no webhook is there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gitkruise.admission.cloneset import default_cloneset
from gitkruise.admission.conversion import convert
from gitkruise.admission.request import CREATE, UPDATE, AdmissionRequest
from gitkruise.gitops.check import Nothing
from gitkruise.model.change import Desired
from gitkruise.model.labels import CLONESET
from gitkruise.model.settings import Gates
from gitkruise.wire.catalog import Catalog, Kind
from gitkruise.wire.names import Obj, key_of
from gitkruise.wire.paths import drop, get

_REPLICAS: Final = ("spec", "replicas")


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How to talk to one cluster about one object: in `kind`, with our own defaults or not."""

    kind: Kind
    version: str  # the one git speaks
    defaulted: bool = False

    def outgoing(self, body: Obj, live: Obj | None, gates: Gates) -> Obj:
        """`body`, which git wrote in its own version, as this cluster is to be told.

        Defaults of a template change its hash, so they are given as the webhook gives them: to
        new or changed templates, and never to one that is stored without. `replicas` is left to
        whoever scales a CloneSet that git gives no number.
        """
        if not self.defaulted:
            return convert(body, self.kind.version)
        request = AdmissionRequest(
            operation=CREATE if live is None else UPDATE,
            kind=self.kind,
            key=key_of(body),
            obj=body,
            old=live,
            view=Nothing(),
        )
        full = default_cloneset(request, gates)
        silent = get(body, *_REPLICAS) is None
        scaled = get(live, *_REPLICAS) not in (None, get(full, *_REPLICAS)) if live else False
        told = drop(full, _REPLICAS) if silent and scaled else full
        return convert(told, self.kind.version)

    def incoming(self, reply: Obj) -> Obj:
        """The stored object in the version git speaks."""
        return convert(reply, self.version)


def dialect_of(desired: Desired, catalog: Catalog) -> Dialect | None:
    """None when the cluster serves the kind in no version we can convert to."""
    key, version = desired.key, desired.version
    spoken, stored = catalog.by_kind(key.group, version, key.kind), catalog.stored(key.group_kind)
    if spoken is None or stored is None:
        return None
    versions = (k for k in catalog.kinds() if k.group_kind == key.group_kind)
    alone = key.group_kind == CLONESET and any(not k.verbs for k in versions)
    return Dialect(kind=spoken if spoken.verbs else stored, version=version, defaulted=alone)
