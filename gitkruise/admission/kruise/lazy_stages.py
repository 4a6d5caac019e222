"""Stages of SidecarSets, StatefulSets and requests to node agents: imported on the first object."""

from __future__ import annotations

from collections.abc import Iterable

from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj


def inject_sidecars(request: AdmissionRequest, gates: Gates) -> Obj:
    """A pod being created, as a server stores it once OpenKruise's webhook is done."""
    from gitkruise.admission.kruise import pod_webhook  # noqa: PLC0415  most commands have no pod

    return pod_webhook.inject_sidecars(request, gates)


def injected(request: AdmissionRequest, gates: Gates) -> Obj:
    """The same as the webhook itself answers, before the server gives its defaults."""
    from gitkruise.admission.kruise import pod_webhook  # noqa: PLC0415  most commands have no pod

    return pod_webhook.injected(request, gates)


def default_sidecarset(request: AdmissionRequest, gates: Gates) -> Obj:
    """The SidecarSet with its defaults and hashes."""
    from gitkruise.admission.kruise import sidecarset  # noqa: PLC0415  most commands have no SidecarSet

    return sidecarset.default_sidecarset(request, gates)


def sidecarset_problems(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Validate a SidecarSet without reading other objects."""
    from gitkruise.admission.kruise import sidecarset  # noqa: PLC0415  most commands have no SidecarSet

    return sidecarset.sidecarset_problems(request, gates)


def neighbour_problems(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Return the conflicts between a SidecarSet and the others of the cluster."""
    from gitkruise.admission.kruise import sidecarset_conflicts as near  # noqa: PLC0415  as above

    return near.neighbour_problems(request, gates)


def name_budget(request: AdmissionRequest, gates: Gates) -> Obj:
    """A pod being created, with the name of its PodUnavailableBudget."""
    from gitkruise.admission.kruise import unavailable_budget  # noqa: PLC0415  few clusters have one

    return unavailable_budget.name_budget(request, gates)


def budget_problems(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Validate a PodUnavailableBudget without reading other objects."""
    from gitkruise.admission.kruise import unavailable_budget  # noqa: PLC0415  as above

    return unavailable_budget.budget_problems(request, gates)


def budget_conflicts(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Return the conflicts between a PodUnavailableBudget and the others of its namespace."""
    from gitkruise.admission.kruise import unavailable_budget  # noqa: PLC0415  as above

    return unavailable_budget.neighbour_problems(request, gates)


def default_stateful_set(request: AdmissionRequest, gates: Gates) -> Obj:
    """An Advanced StatefulSet with its defaults."""
    from gitkruise.admission.kruise import statefulset  # noqa: PLC0415  most commands have none

    return statefulset.default_stateful_set(request, gates)


def stateful_set_problems(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Validate an Advanced StatefulSet."""
    from gitkruise.admission.kruise import statefulset  # noqa: PLC0415  most commands have none

    return statefulset.stateful_set_problems(request, gates)


def inject_subset(request: AdmissionRequest, gates: Gates) -> Obj:
    """A pod being created as one of its subset, as a server stores it."""
    from gitkruise.admission.spread import injection  # noqa: PLC0415  few clusters have one

    return injection.inject_subset(request, gates)


def with_subset(request: AdmissionRequest, gates: Gates) -> Obj:
    """The same as the webhook itself answers, before the server gives its defaults."""
    from gitkruise.admission.spread import injection  # noqa: PLC0415  as above

    return injection.with_subset(request, gates)


def spread_problems(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Validate a WorkloadSpread without reading other objects."""
    from gitkruise.admission.spread import fields  # noqa: PLC0415  as above

    return fields.spread_problems(request, gates)


def spread_conflicts(request: AdmissionRequest, gates: Gates) -> Iterable[Problem]:
    """Return the conflicts between a WorkloadSpread and the others of its namespace."""
    from gitkruise.admission.spread import fields  # noqa: PLC0415  as above

    return fields.neighbour_problems(request, gates)


def fill_in_recreate_request(request: AdmissionRequest, gates: Gates) -> Obj:
    """A request to recreate containers, filled in from its pod."""
    from gitkruise.admission.kruise import recreate_request  # noqa: PLC0415  few clusters have one

    return recreate_request.filled_in(request, gates)


def fill_in_pull_job(request: AdmissionRequest, gates: Gates) -> Obj:
    """An ImagePullJob or ImageListPullJob with its defaults."""
    from gitkruise.admission.kruise import pull_jobs  # noqa: PLC0415  few clusters have one

    return pull_jobs.filled_in(request, gates)


def fill_in_node_image(request: AdmissionRequest, gates: Gates) -> Obj:
    """A NodeImage with the defaults of its tags."""
    from gitkruise.admission.kruise import node_images  # noqa: PLC0415  few clusters have one

    return node_images.filled_in(request, gates)
