"""Injection of a subset into a new pod, as OpenKruise's pod webhook does it.

Source: WS-20 to WS-36.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gitkruise.admission.pods.defaults import fill_spec
from gitkruise.admission.pods.pods import prioritise
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import BadRequest, InternalError
from gitkruise.model.planning.workload_spread import (
    MATCHED,
    Subset,
    SubsetChoice,
    choose_subset,
    replicas_of,
    spread_of_new_pod,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import SPREAD
from gitkruise.wire.kruise.go_round_trip import settle
from gitkruise.wire.patch.strategic_merge import strategic_patch
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.schema.nodes import Node

_DENIED: Final = 'admission webhook "mpod.kb.io" denied the request'
_AFFINITY: Final = ("spec", "affinity", "nodeAffinity")
_REQUIRED: Final = (
    *_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms",
)  # fmt: skip
_PREFERRED: Final = (*_AFFINITY, "preferredDuringSchedulingIgnoredDuringExecution")


def inject_subset(request: AdmissionRequest, gates: Gates) -> Obj:
    """`with_subset`, with the defaults that a server gives to what a webhook leaves."""
    pod = with_subset(request, gates)
    if pod is request.new:
        return pod
    spec = settle("PodSpec", pod["spec"])
    if "priority" not in spec:
        prioritise(request, spec)
    fill_spec(spec, is_pod=True)
    return {**pod, "spec": spec}


def with_subset(request: AdmissionRequest, gates: Gates) -> Obj:
    """The new pod as one of its subset. Raises InternalError for a patch that does not fit."""
    choice = choice_of(request, gates)
    if choice is None:
        return request.new
    try:
        return injected(request.new, choice, request.kind.schema)
    except BadRequest as error:
        named = f"patch of subset {choice.subset.name} of WorkloadSpread {choice.match.spread}"
        raise InternalError(f"{_DENIED}: {named}: {error}") from error


def choice_of(request: AdmissionRequest, gates: Gates) -> SubsetChoice | None:
    """The subset of the pod of a request, from what its view shows of the WorkloadSpread."""
    namespace = request.key.namespace
    if not gates.workload_spread or not request.view.objects(SPREAD, namespace):
        return None
    spread = spread_of_new_pod(request.view, request.new, namespace)
    if spread is None or request.now is None:
        return None
    replicas = replicas_of(request.view, spread)
    return choose_subset(spread, request.new, uid=request.uid, replicas=replicas, now=request.now)


def injected(pod: Obj, choice: SubsetChoice, schema: Node) -> Obj:
    """The pod with everything of its subset. Raises BadRequest for a patch that does not fit."""
    made = _scheduled(pod, choice.subset)
    if choice.subset.patch is not None:
        made = _patched(made, choice.subset.patch, schema)
    noted: Obj = put(made, ("metadata", "annotations", MATCHED), choice.match.text)
    return noted


def _scheduled(pod: Obj, subset: Subset) -> Obj:
    for path, more in (
        (("spec", "tolerations"), subset.tolerations),
        (_PREFERRED, subset.preferred),
    ):
        if more:
            pod = put(pod, path, [*get(pod, *path, default=()), *more])
    if subset.required is None:
        return pod
    terms = get(pod, *_REQUIRED, default=())
    narrowed: Obj = put(pod, _REQUIRED, _narrowed(terms, subset.required))
    return narrowed


def _narrowed(terms: Sequence[Obj], term: Obj) -> list[Obj]:
    """Each of the alternatives `terms`, with what `term` asks for as well."""
    if not terms:
        return [term]
    lists = ("matchExpressions", "matchFields")
    return [
        {
            **one,
            **{f: [*(one.get(f) or ()), *(term[f] or ())] for f in lists if term.get(f)},
        }
        for one in terms
    ]


def _patched(pod: Obj, patch: Obj, schema: Node) -> Obj:
    made: Any = strategic_patch(pod, patch, schema)
    for part in ("metadata", "spec"):
        if not isinstance(made.get(part), Mapping):
            raise BadRequest(f"it leaves no {part}")
    name = ("spec", "priorityClassName")
    if get(made, *name) != get(pod, *name) and "priority" in made["spec"]:
        rest = {k: v for k, v in made["spec"].items() if k != "priority"}
        made = {**made, "spec": rest}
    return {**made}
