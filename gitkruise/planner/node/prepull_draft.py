"""Drafts of ImagePullJobs for a workload: its images on the nodes of its pods.

One job per image, in the namespace of the workload. Source: IMG-1 to IMG-25.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.model.node.node_image import BACKOFF_LIMIT, TIMEOUT_S, NodeImage, PullPhase
from gitkruise.model.node.pull_job import PARALLELISM
from gitkruise.model.node.wire_shapes import API_VERSION
from gitkruise.model.workloads.labels import PULL_JOB
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.printable import listing
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.images import familiar_parts, is_image
from gitkruise.wire.values.selectors import label_selector

TTL_S: Final = 600  # of a job after its end, as those of a pre-download
_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
    "SidecarSet": (),  # its spec is that of a template
}
_NAME_MAX: Final = 200
_LISTED: Final = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepullOptions:
    """Options of the jobs, times in seconds; None: the default of the API.

    No `images`: those of the template. No `secrets`: its imagePullSecrets. `every_node`: not only
    nodes of the workload's pods.
    """

    images: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()
    every_node: bool = False
    parallelism: int = PARALLELISM
    timeout_s: int | None = None
    backoff_limit: int | None = None
    deadline_s: int | None = None
    ttl_s: int = TTL_S
    always: bool = False


def template_of_workload(workload: Obj) -> Obj:
    """The pod template of a workload of any kind; {} without one."""
    path = _TEMPLATES.get(workload["kind"], ("spec", "template"))
    if not path:
        return {"spec": workload["spec"]}
    found: Obj = get(workload, *path, default={})
    return found


def images_of(workload: Obj, options: PrepullOptions) -> tuple[str, ...]:
    """The images to pull, each once."""
    if options.images:
        return tuple(dict.fromkeys(options.images))
    spec = template_of_workload(workload).get("spec") or {}
    found = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return tuple(dict.fromkeys(c["image"] for c in found if c.get("image")))


def secrets_of(workload: Obj, options: PrepullOptions) -> tuple[str, ...]:
    """Names of the pull secrets."""
    listed = template_of_workload(workload).get("spec") or {}
    own = [s.get("name", "") for s in listed.get("imagePullSecrets") or ()]
    return options.secrets or tuple(filter(None, own))


def pull_problem(workload: Obj, options: PrepullOptions) -> str:
    """Return why no job can be drafted; "" without a reason."""
    images = images_of(workload, options)
    if bad := [image for image in images if not is_image(image)]:
        return f'"{bad[0]}" is not the name of an image'
    if not images:
        return "its template names no image"
    if not options.every_node and not _selects_pods(workload):
        return f"a {workload['kind']} does not select the pods of one namespace"
    return ""


def _selects_pods(workload: Obj) -> bool:
    return workload["kind"] != "SidecarSet" and bool(get(workload, "spec", "selector"))


def selected_nodes(
    workload: Obj, options: PrepullOptions, pods: Sequence[PodFacts], images: Sequence[NodeImage]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (nodes that the jobs select, nodes of pods without a NodeImage)."""
    known = {image.metadata.name for image in images}
    if options.every_node:
        return tuple(sorted(known)), ()
    chosen = label_selector(get(workload, "spec", "selector"))
    used = {p.node for p in pods if p.active and p.node and chosen.matches(p.labels)}
    return tuple(sorted(used & known)), tuple(sorted(used - known))


def draft_jobs(workload: Obj, namespace: str, options: PrepullOptions) -> list[Obj]:
    """The jobs to create; the server completes their names."""
    return [_job(workload, namespace, options, image) for image in images_of(workload, options)]


def _job(workload: Obj, namespace: str, options: PrepullOptions, image: str) -> Obj:
    policy = {"timeoutSeconds": options.timeout_s, "backoffLimit": options.backoff_limit}
    ends: dict[str, Any] = {"type": "Always", "ttlSecondsAfterFinished": options.ttl_s}
    if options.deadline_s is not None:
        ends["activeDeadlineSeconds"] = options.deadline_s
    spec: dict[str, Any] = {
        "image": image,
        "parallelism": options.parallelism,
        "completionPolicy": ends,
        "imagePullPolicy": "Always" if options.always else "IfNotPresent",
    }
    if limits := {field: value for field, value in policy.items() if value is not None}:
        spec["pullPolicy"] = limits
    if not options.every_node:
        spec["podSelector"] = get(workload, "spec", "selector")
    if secrets := secrets_of(workload, options):
        spec["pullSecrets"] = list(secrets)
    return {
        "apiVersion": API_VERSION,
        "kind": PULL_JOB.kind,
        "metadata": {
            "generateName": f"{workload['metadata']['name'][:_NAME_MAX]}-",
            "namespace": namespace,
        },
        "spec": spec,
    }


def pulled_on(image: str, nodes: Sequence[str], images: Sequence[NodeImage]) -> int:
    """Count those of `nodes` that report the image as pulled by an earlier job."""
    name, tag = familiar_parts(image)
    wanted = set(nodes)
    found = (one.status_of(name, tag) for one in images if one.metadata.name in wanted)
    return sum(status is not None and status.phase == PullPhase.SUCCEEDED for status in found)


def pull_conduct(workload: Obj, options: PrepullOptions, nodes: Sequence[str]) -> list[str]:
    """Sentences about the jobs as a whole."""
    seconds = TIMEOUT_S if options.timeout_s is None else options.timeout_s
    retries = BACKOFF_LIMIT if options.backoff_limit is None else options.backoff_limit
    secrets = secrets_of(workload, options)
    found = [
        f"nodes    {listed_names(nodes)}",
        f"pace     {_pace(options, nodes)}",
        f"attempts {retries + 1} per node, {seconds} s each; a node that fails is reported",
        "policy   " + ("pulled again where it is present (Always)" if options.always
                       else "skipped where it is present (IfNotPresent)"),
    ]  # fmt: skip
    if secrets:
        found.append(f"secrets  {', '.join(secrets)}, copied to namespace kruise-daemon-config")
    end = f"deleted {options.ttl_s} s after the end"
    if options.deadline_s is not None:
        end = f"given up after {options.deadline_s} s, {end}"
    return [*found, f"end      {end}"]


def _pace(options: PrepullOptions, nodes: Sequence[str]) -> str:
    if options.parallelism == 0:
        return "paused: parallelism 0 pulls nothing until it is raised"
    count = min(options.parallelism, len(nodes))
    return f"{count} of {len(nodes)} nodes at the same time, for each image"


def listed_names(names: Sequence[str]) -> str:
    """`3: n1, n2, n3`, with the first few names."""
    return f"{len(names)}: {listing(names, _LISTED)}"
