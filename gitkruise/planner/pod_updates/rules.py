"""Rules of one workload for updates of its pods in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import Hook, Lifecycle, UpdateStrategy
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.revisions.registration import RevisionHistory


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRules:
    """Strategy, hooks and revisions of a CloneSet or an Advanced StatefulSet.

    `holder` names the PodUnavailableBudget that does not let a pod go now; "" for none.
    `template_hash`: its pods carry label `pod-template-hash` as well, as those of CloneSets do.
    """

    update: UpdateStrategy
    lifecycle: Lifecycle | None
    history: RevisionHistory
    gates: Gates
    now: datetime
    template_hash: bool
    holder: Callable[[PodFacts], str] = lambda _: ""

    @property
    def in_place_hook(self) -> Hook | None:
        return self.lifecycle.in_place_update if self.lifecycle else None

    def labels(self, revision: Revision) -> dict[str, str]:
        """Labels that a pod on `revision` carries."""
        if not self.template_hash:
            return {wire.REVISION_HASH: revision.name}
        shown = revision.short if self.gates.clone_set_short_hash else revision.name
        return {wire.REVISION_HASH: shown, wire.TEMPLATE_HASH: revision.short}
