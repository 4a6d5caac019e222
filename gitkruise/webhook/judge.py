"""What becomes of one review: the embedded cluster's own admission, asked by a real cluster."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitkruise.admission.chain import WEBHOOK_STAGES, examine, mutate
from gitkruise.admission.conversion import convert, convertible
from gitkruise.admission.request import CREATE, DELETE, UPDATE, AdmissionRequest
from gitkruise.errors import ApiError, InternalError
from gitkruise.model.settings import Gates
from gitkruise.model.view import View
from gitkruise.webhook.review import Conversion, Review, allow, converted, deny, unconverted
from gitkruise.wire.catalog import Catalog
from gitkruise.wire.names import GroupKind, split_api_version
from gitkruise.wire.patches import json_diff

log: Final = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class Judge:
    """Answers reviews. A fault of ours refuses the one write that met it; the log says more."""

    catalog: Catalog
    gates: Gates
    faults: int = 0

    def mutation(self, review: Review, view: View, now: datetime) -> bytes:
        """Defaults, injection and order of launch, as a JSON patch."""

        def decide(request: AdmissionRequest) -> bytes:
            after = mutate(request, self.gates, WEBHOOK_STAGES)
            return allow(review.uid, json_diff(request.obj, after))

        return self._decided(review, view, now, decide)

    def validation(self, review: Review, view: View, now: datetime) -> bytes:
        """Whether every rule holds; nothing is changed."""

        def decide(request: AdmissionRequest) -> bytes:
            examine(request, self.gates, WEBHOOK_STAGES)
            return allow(review.uid)

        return self._decided(review, view, now, decide)

    def _decided(
        self,
        review: Review,
        view: View,
        now: datetime,
        decide: Callable[[AdmissionRequest], bytes],
    ) -> bytes:
        request = self._request(review, view, now)
        if request is None:
            return allow(review.uid)  # nothing we know: as if we were not asked
        try:
            return decide(request)
        except ApiError as error:
            return deny(review.uid, error)
        except Exception:
            self.faults += 1
            # With growing pauses: whoever reaches us must not be able to fill the log.
            if self.faults & (self.faults - 1) == 0:
                log.exception("fault %d: a review of %s", self.faults, review.key)
            return deny(review.uid, InternalError("gitkruise failed on this object; see its log"))

    def _request(self, review: Review, view: View, now: datetime) -> AdmissionRequest | None:
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


def conversion(asked: Conversion) -> bytes:
    """Every object in the version that is wanted, or one reason why not."""
    _, to_version = split_api_version(asked.to)
    objects = []
    for obj in asked.objects:
        group, version = split_api_version(obj["apiVersion"])
        kind = GroupKind(group, obj["kind"])
        if version != to_version and not convertible(kind, version, to_version):
            return unconverted(asked.uid, f"{kind} in {version} is not known in {asked.to}")
        try:
            objects.append(convert(obj, to_version))
        except Exception as error:
            log.exception("converting %s failed", kind)
            name = str(obj["metadata"].get("name"))
            return unconverted(asked.uid, f"{kind} {name}: {type(error).__name__}: {error}")
    return converted(asked.uid, objects)
