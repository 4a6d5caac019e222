"""Jobs as measurements: created with the unit's account, found again after a restart."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from gitkruise.errors import AlreadyExists, NotFound, Unavailable
from gitkruise.gitops.cluster.impersonation import proven
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.analysis import AnalysisPhase, AnalysisRun, JobProvider, Metric
from gitkruise.model.gitops.config import Unit
from gitkruise.planner.analysis.verdict import MeasurementResult
from gitkruise.planner.sync.hooks import over
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef

JOBS: Final = ResourceRef("batch", "v1", "jobs")
MARK: Final = "gitkruise.io/analysis"  # annotation: the unit and the metric that it measures
_NO_REASON: Final = "no reason is given"
TTL_S: Final = 3600  # after the end of a Job that does not set its own
_TTL_MIN_S: Final = 600  # a Job that is gone before it was read would run again


def job_name(metric: Metric, run: AnalysisRun, number: int) -> str:
    """Return the name of the Job of one measurement: the same after a restart."""
    text = f"{run.mark}/{run.started.isoformat()}/{number}"
    return f"{metric.name}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"


def job_for(unit: Unit, metric: Metric, name: str) -> Obj:
    """Return the Job of a measurement: in the namespace of the unit, with its account."""
    assert metric.provider.job is not None, "a Job"
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "namespace": unit.namespace,
            "labels": {"app.kubernetes.io/managed-by": "gitkruise"},
            "annotations": {MARK: _mark(unit, metric)},
        },
        "spec": _spec(metric.provider.job, unit.spec.service_account_name),
    }


def _spec(job: JobProvider, account: str) -> Mapping[str, Any]:
    template = dict(job.spec["template"])
    pod = {"restartPolicy": "Never", **template["spec"]}
    template["spec"] = {**pod, "serviceAccountName": account} if account else pod
    ttl = job.spec.get("ttlSecondsAfterFinished", TTL_S)
    ttl = max(ttl, _TTL_MIN_S) if isinstance(ttl, int) else ttl
    return {**job.spec, "ttlSecondsAfterFinished": ttl, "template": template}


def _mark(unit: Unit, metric: Metric) -> str:
    return f"{unit.id} {metric.name}"


async def verdict_of_job(
    transport: Transport, unit: Unit, metric: Metric, run: AnalysisRun, number: int
) -> MeasurementResult | None:
    """Return the verdict of the Job of a measurement, which is created if it is missing; None
    while it runs. Raises ApiError, and Unavailable for a Job of someone else."""
    name = job_name(metric, run, number)
    try:
        job = (await transport.send(_request("get", unit, name))).body
    except NotFound:
        await proven(transport)
        body = job_for(unit, metric, name)
        request = ApiRequest(
            verb="create", resource=JOBS, namespace=unit.namespace, body=body,
            params={"fieldManager": "gitkruise"},
        )  # fmt: skip
        with suppress(AlreadyExists):  # by a request whose reply got lost; it is read next
            await transport.send(request)
        return None
    if get(job, "metadata", "annotations", MARK) != _mark(unit, metric):
        raise Unavailable(f"a Job {name} exists that is not this measurement")
    ended = over(job)
    if not ended:
        return None
    if "Complete" in ended:
        return MeasurementResult(AnalysisPhase.SUCCESSFUL, f"Job {name} is complete")
    return MeasurementResult(AnalysisPhase.FAILED, f"Job {name} failed: {_why(job)}")


async def end_job(
    transport: Transport, unit: Unit, metric: Metric, run: AnalysisRun, number: int
) -> None:
    """Delete the Job of a measurement that is not needed any more. Raises ApiError."""
    request = _request("delete", unit, job_name(metric, run, number))
    with suppress(NotFound):
        await transport.send(request)


def _request(verb: str, unit: Unit, name: str) -> ApiRequest:
    params = {"propagationPolicy": "Background"} if verb == "delete" else {}
    return ApiRequest(verb=verb, resource=JOBS, namespace=unit.namespace, name=name, params=params)


def _why(job: Obj) -> str:
    for condition in get(job, "status", "conditions", default=()):
        if condition.get("type") == "Failed":
            return str(condition.get("message") or condition.get("reason") or _NO_REASON)
    return _NO_REASON
