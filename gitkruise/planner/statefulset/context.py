"""One round's inputs in one place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from gitkruise.model.planning.plan import Hold
from gitkruise.model.planning.unavailable_budget import PodOperation
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import LifecycleState, PodFacts
from gitkruise.planner.budgets.ledger import BudgetLedger
from gitkruise.planner.pod_updates.predownload import PredownloadRules
from gitkruise.planner.pod_updates.rules import UpdateRules
from gitkruise.planner.pods.inplace_batches import batch_done
from gitkruise.planner.pods.inplace_state import read_state
from gitkruise.planner.pods.lifecycle import enter, hooked
from gitkruise.planner.pods.pod_patch import PodChange, patch_of
from gitkruise.planner.pods.round_result import RoundResult
from gitkruise.planner.revisions.registration import RevisionHistory
from gitkruise.planner.statefulset.claims import Claims
from gitkruise.planner.statefulset.facts import StatefulSetFacts
from gitkruise.planner.statefulset.identity import delete_pod


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulRound:
    """Input of scale and update. `ordinals` are those in range that it looks at, ascending;
    `ledger` notes what the round asks of PodUnavailableBudgets."""

    owner: StatefulSetFacts
    pods: Mapping[int, PodFacts]
    claims: Claims
    ordinals: tuple[int, ...]
    history: RevisionHistory
    gates: Gates
    now: datetime
    ledger: BudgetLedger

    @property
    def rules(self) -> UpdateRules:
        return UpdateRules(
            update=self.owner.update,
            lifecycle=self.owner.lifecycle,
            history=self.history,
            gates=self.gates,
            now=self.now,
            template_hash=False,
            holder=lambda pod: self.ledger.holder(pod, PodOperation.UPDATE),
        )

    @property
    def predownload(self) -> PredownloadRules:
        owner = self.owner
        return PredownloadRules(
            key=owner.key,
            reference=owner.owner_reference,
            selector=owner.raw["spec"].get("selector") or {},
            replicas=owner.replicas,
            kept=owner.kept,
            unavailable=owner.unavailable,
            update=owner.update,
            status=owner.status,
            history=self.history,
            gates=self.gates,
        )

    def below(self, at: int) -> bool:
        """Return whether the partition of an ordered update keeps an ordinal in range."""
        place = self.owner.position(at, self.gates)
        return place is not None and place < self.owner.kept

    @property
    def in_range(self) -> Iterator[PodFacts]:
        """Its pods of ordinals in range, ascending."""
        return (self.pods[at] for at in self.ordinals if at in self.pods)

    @property
    def surplus(self) -> tuple[PodFacts, ...]:
        """Its pods of other ordinals, the highest first."""
        inside = set(self.ordinals)
        return tuple(self.pods[at] for at in sorted(self.pods, reverse=True) if at not in inside)

    def updated(self, pod: PodFacts) -> bool:
        return pod.on_revision(self.history.update.name)

    @property
    def resizes(self) -> bool:
        """Return whether claims grow with the update of their pods."""
        return self.owner.resizes and self.gates.stateful_set_auto_resize_pvc_gate

    def healthy(self, pod: PodFacts) -> bool:
        """Return whether a pod runs, is ready, and neither ends nor is in a lifecycle step."""
        return pod.deleting is None and pod.at_rest and pod.in_service

    def available(self, pod: PodFacts) -> bool:
        """Return whether a pod is healthy for minReadySeconds and in no update in place."""
        ready = pod.available(self.now, min_ready_s=self.owner.min_ready_s)
        return ready and pod.deleting is None and not _updating(pod, self.gates)

    def delete(self, pod: PodFacts, out: RoundResult) -> bool:
        """Delete a pod that its budget lets go, or prepare it while its hook blocks.

        Return whether that is a write, or waits for the budget.
        """
        lifecycle = self.owner.lifecycle
        hook = lifecycle.pre_delete if lifecycle else None
        blockers = hooked(hook, pod)
        if not blockers:
            holder = self.ledger.holder(pod, PodOperation.DELETE)
            if holder:
                out.hold(pod, Hold.UNAVAILABLE_BUDGET, holder)
            else:
                out.act(pod, delete_pod(self.owner.raw, pod))
            return True
        if pod.state == LifecycleState.PREPARING_DELETE:
            out.hold(pod, Hold.HOOK, f"{', '.join(blockers)} to be removed")
            return False
        change = PodChange()
        try:
            change.enter(pod, enter(LifecycleState.PREPARING_DELETE, hook, self.now), self.now)
        except ValueError as error:  # of this pod alone: its conditions
            out.problems.append(f"pod {pod.name}: {error}")
            out.hold(pod, Hold.HOOK, str(error))
            return False
        out.act(pod, patch_of(pod, change, self.now, spends=True))
        return True


def _updating(pod: PodFacts, gates: Gates) -> bool:
    """Return whether containers of a pod are still to be replaced by an update in place."""
    if pod.in_grace:
        return True
    if wire.INPLACE_STATE not in pod.annotations:
        return False
    try:
        state = read_state(pod)
        vertical = gates.in_place_workload_vertical_scaling
        return state is not None and (state.more or bool(batch_done(pod, state, vertical=vertical)))
    except ValueError:
        return True  # refresh says what is wrong with it
