"""Image pre-download: pull jobs for the new images before pods are updated in place to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.model.planning.plan import Action, Create, Delete, Event
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import Policy, UpdateStrategy
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.pods.inplace import Impossible, in_place_spec
from gitkruise.planner.revisions.registration import RevisionHistory, patch_revision
from gitkruise.planner.revisions.revisions import template_of
from gitkruise.wire.primitives.names import Obj, ObjectKey, controller_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import UnreadableAmount, resolve

_VERSION: Final = "v1beta1"
_FEW: Final = 3  # replicas for which a job is not worth it
_TIMEOUT_S: Final = 300  # what OpenKruise writes; its API comment promises 600
_TTL_S: Final = 600


@dataclass(frozen=True, slots=True, kw_only=True)
class PredownloadRules:
    """The workload `key` whose images are pulled ahead, and its rollout.

    `reference` is the controller reference to it, `selector` is that of its pods as written.
    `kept` of `replicas` pods stay on the current revision, and `unavailable` may be down.
    """

    key: ObjectKey
    reference: Obj
    selector: Obj
    replicas: int
    kept: int
    unavailable: int
    update: UpdateStrategy
    status: Obj
    history: RevisionHistory
    gates: Gates


def enabled(gates: Gates) -> bool:
    """Jobs need the gate, and the node agent to carry them out."""
    return gates.pre_download_image_for_in_place_update and gates.kruise_daemon


def plan_predownload(rules: PredownloadRules, jobs: Sequence[Obj]) -> list[Action]:
    """Jobs for a rollout that begins, none for one that is over; `jobs` refer to the workload.

    Whether a revision had its jobs is marked on the revision, once and for all: a template that
    comes back gets none. The mark is set even when creating them failed, because downloading
    ahead must never hold a rollout up. Source: image pre-download of CloneSets and Advanced
    StatefulSets.
    """
    if not enabled(rules.gates):
        return []
    history = rules.history
    ours = [j for j in jobs if (controller_of(j) or {}).get("uid") == rules.reference["uid"]]
    if history.current.name == history.update.name:
        return [Delete.of(job) for job in ours if not job["metadata"].get("deletionTimestamp")]
    marks = {wire.PREDOWNLOAD_CREATED, wire.PREDOWNLOAD_IGNORED}
    if history.creating or marks.intersection(history.update.labels) or not _due(rules):
        return []
    if not _worth_it(rules):
        return _mark(rules, wire.PREDOWNLOAD_IGNORED)
    there = {job["metadata"]["name"] for job in ours}
    made = [_job(rules, name, image) for name, image in _new_images(rules).items()]
    wanted: list[Action] = [
        create for create in made if create.obj["metadata"]["name"] not in there
    ]
    return [*wanted, *_mark(rules, wire.PREDOWNLOAD_CREATED)]


def _due(rules: PredownloadRules) -> bool:
    """As many pods as asked for are ready on the new revision."""
    known = rules.status.get("updateRevision") == rules.history.update.name
    ready = int(rules.status.get("updatedReadyReplicas") or 0) if known else 0
    try:
        least = resolve(rules.update.predownload_min_ready, rules.replicas, round_up=True)
    except UnreadableAmount:
        least = 0  # as upstream: it must not hold the pulls up
    return ready >= least


def _worth_it(rules: PredownloadRules) -> bool:
    update = rules.update
    if not update.rolling or update.policy is Policy.RECREATE or rules.replicas <= _FEW:
        return False
    if rules.kept == 0 and rules.unavailable >= rules.replicas:
        return False
    spec = in_place_spec(
        rules.history.current, rules.history.update, policy=update.policy, gates=rules.gates
    )
    return not isinstance(spec, Impossible)


def _new_images(rules: PredownloadRules) -> dict[str, str]:
    """Images by container that the current revision does not run there."""
    before, after = (
        {c["name"]: c.get("image", "") for c in template_of(revision.data)["spec"]["containers"]}
        for revision in (rules.history.current, rules.history.update)
    )
    return {name: image for name, image in after.items() if before.get(name) != image}


def _job(rules: PredownloadRules, container: str, image: str) -> Create:
    update, settings = rules.history.update, rules.update
    name = f"{update.name}-{container}"
    template = template_of(update.data)
    labels = {
        **(get(template, "metadata", "labels") or {}),
        wire.HISTORY_HASH: update.hash_label,
    }
    sandbox: dict[str, Any] = {"labels": labels}
    if notes := get(template, "metadata", "annotations"):
        sandbox["annotations"] = notes
    spec: dict[str, Any] = {
        "image": image,
        "podSelector": _pods_to_come(rules),
        "parallelism": _or(settings.predownload_parallelism, 1),
        "pullPolicy": {
            "timeoutSeconds": _or(settings.predownload_timeout_s, _TIMEOUT_S),
            "backoffLimit": 1,
        },
        "completionPolicy": {"type": "Always", "ttlSecondsAfterFinished": _TTL_S},
        "sandboxConfig": sandbox,
    }
    if secrets := get(template, "spec", "imagePullSecrets"):
        spec["pullSecrets"] = [secret.get("name", "") for secret in secrets]
    return Create(
        obj={
            "apiVersion": f"{wire.PULL_JOB.group}/{_VERSION}",
            "kind": wire.PULL_JOB.kind,
            "metadata": {
                "name": name,
                "namespace": rules.key.namespace,
                "labels": labels,
                "ownerReferences": [rules.reference],
            },
            "spec": spec,
        },
        done=Event("Normal", "CreatedImagePullJob", f"created pull job {name} of image {image}"),
        failed=Event(
            "Normal",
            "FailedCreateImagePullJob",
            f"could not create pull job {name} of image {image}: ",
        ),
    )


def _or(value: int | str | None, default: int) -> int | str:
    return default if value is None else value


def _pods_to_come(rules: PredownloadRules) -> Obj:
    """The nodes of pods that do not run the new revision yet."""
    update, selector = rules.history.update, rules.selector
    not_new = {
        "key": wire.REVISION_HASH,
        "operator": "NotIn",
        "values": [update.name, update.hash_label],
    }
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), not_new]}


def _mark(rules: PredownloadRules, label: str) -> list[Action]:
    """The mark on the update revision; not while the round writes that revision already."""
    update = rules.history.update
    if rules.history.action is not None:
        return []
    body = {"metadata": {"labels": {label: "true"}}}
    return [patch_revision(update, body, rules.key.namespace)]
