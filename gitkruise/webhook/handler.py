"""Handler of one review: the embedded cluster's admission, called by a real cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitkruise.admission.chain import WEBHOOK_STAGES, examine, mutate
from gitkruise.admission.conversion.registry import convert, convertible
from gitkruise.admission.rules.request import CREATE, DELETE, UPDATE, AdmissionRequest
from gitkruise.errors import ApiError, BadRequest, InternalError
from gitkruise.kube.client.codec import encode, readable
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.webhook.review import (
    Conversion,
    Review,
    allow,
    converted,
    deny,
    read_object,
    unconverted,
)
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.patch.json_patch import json_diff
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, split_api_version
from gitkruise.wire.schema.go_decoding import misfit

log: Final = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class AdmissionHandler:
    """Answers reviews. A fault of ours refuses the one write that met it; the log says more."""

    catalog: Catalog
    gates: Gates
    faults: int = 0

    def mutation(self, review: Review, view: ClusterView, now: datetime) -> bytes:
        """Defaults, injection and order of launch, as a JSON patch."""

        def decide(request: AdmissionRequest) -> bytes:
            after = mutate(request, self.gates, WEBHOOK_STAGES)
            return allow(review.uid, json_diff(request.obj, after))

        return self._decided(review, view, now, decide)

    def validation(self, review: Review, view: ClusterView, now: datetime) -> bytes:
        """Return the response of a validating webhook; nothing is changed."""

        def decide(request: AdmissionRequest) -> bytes:
            examine(request, self.gates, WEBHOOK_STAGES)
            return allow(review.uid)

        return self._decided(review, view, now, decide)

    def _decided(
        self,
        review: Review,
        view: ClusterView,
        now: datetime,
        decide: Callable[[AdmissionRequest], bytes],
    ) -> bytes:
        request = self._request(review, view, now)
        if request is None:
            return allow(review.uid)  # nothing we know: as if we were not asked
        try:
            for obj in (request.obj, request.old):
                if obj is not None:
                    _check(request.kind, obj)
            return decide(request)
        except ApiError as error:
            return deny(review.uid, error)
        except Exception:
            self.faults += 1
            # Logged with growing pauses: clients must not be able to fill the log.
            if self.faults & (self.faults - 1) == 0:
                log.exception(log_line("review-crashed", count=self.faults, object=review.key))
            return deny(review.uid, InternalError("gitkruise failed on this object; see its log"))

    def _request(self, review: Review, view: ClusterView, now: datetime) -> AdmissionRequest | None:
        kind = self.catalog.by_kind(review.key.group, review.version, review.key.kind)
        if kind is None or review.operation not in {CREATE, UPDATE, DELETE} or review.subresource:
            return None
        obj = review.obj
        if obj is not None and kind.namespaced and not obj["metadata"].get("namespace"):
            # A server fills it in only after admission.
            obj = {**obj, "metadata": {**obj["metadata"], "namespace": review.key.namespace}}
        return AdmissionRequest(
            operation=review.operation,
            kind=kind,
            key=review.key,
            obj=obj,
            old=review.old,
            user=review.user,
            dry_run=review.dry_run,
            now=now,
            uid=review.uid,
            view=view,
        )


def _check(kind: Kind, obj: Obj) -> None:
    """Raise BadRequest for an object that is no such kind: what admission reads is of its type."""
    given = (obj.get("apiVersion"), obj.get("kind"))
    if given != (kind.api_version, kind.kind):
        raise BadRequest(f"the object is no {kind.kind} of {kind.api_version}")
    if why := misfit(kind.strict, kind.kind, obj):
        version = kind.version
        raise BadRequest(
            f'{kind.kind} in version "{version}" cannot be handled as a {kind.kind}: {why}'
        )


def _misfit(catalog: Catalog, obj: Obj) -> str:
    group, version = split_api_version(obj["apiVersion"])
    kind = catalog.by_kind(group, version, obj["kind"])
    return misfit(kind.strict, kind.kind, obj) if kind is not None else ""


def conversion(asked: Conversion, catalog: Catalog) -> list[bytes]:
    """Every object in the version that is wanted, or one reason why not; in pieces.

    Raises BadRequest for what is no object.
    """
    _, to_version = split_api_version(asked.to)
    objects: list[bytes] = []
    for raw in asked.objects:
        obj = read_object(raw)
        group, version = split_api_version(obj["apiVersion"])
        kind = GroupKind(group, obj["kind"])
        if version != to_version and not convertible(kind, version, to_version):
            why = f"{kind} in {version} is not known in {asked.to}"
            return [unconverted(asked.uid, readable(why))]
        try:
            objects.append(encode(convert(obj, to_version)))
        except Exception as error:
            why = _misfit(catalog, obj)
            if not why:
                log.exception(log_line("conversion-crashed", kind=kind))
                why = f"{type(error).__name__}: {error}"
            why = f"{kind} {obj['metadata'].get('name')}: {why}"
            return [unconverted(asked.uid, readable(why))]
    return converted(asked.uid, objects)
