"""Work of node agents for the pods of one workload, from the requests that name them.

Requests for earlier pods of the same names are left out, and so are pulls of other images.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gitkruise.model.node.node_image import NodeImage, PullPhase
from gitkruise.model.node.pull_job import PullJob
from gitkruise.model.node.recreate_request import RecreateRequest
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.printable import listing
from gitkruise.wire.values.images import familiar_parts, is_image
from gitkruise.wire.values.selectors import label_selector


class PullResult(NamedTuple):
    """State of an image on one node; `message` says why a pull failed."""

    node: str
    image: str
    phase: str
    message: str = ""


def requests_for(
    requests: Iterable[RecreateRequest], pods: Sequence[PodFacts]
) -> Iterator[RecreateRequest]:
    """Requests that restart containers of `pods`, the oldest first."""
    uids = {pod.uid for pod in pods}
    found = [request for request in requests if request.pod_uid in uids]
    yield from sorted(found, key=lambda r: (str(r.metadata.created), r.metadata.name))


def jobs_for(
    jobs: Iterable[PullJob], pods: Sequence[PodFacts], images: Iterable[str]
) -> Iterator[PullJob]:
    """Jobs that pull one of `images`, or on nodes of `pods` by their labels, in name order."""
    wanted = {familiar_parts(image) for image in images if is_image(image)}
    for job in sorted(jobs, key=lambda j: j.metadata.name):
        chosen = job.spec.pod_selector
        by_pods = chosen is not None and any(
            label_selector(chosen).matches(pod.labels) for pod in pods
        )
        if by_pods or familiar_parts(job.spec.image) in wanted:
            yield job


def unfinished_pulls(jobs: Sequence[PullJob], images: Iterable[NodeImage]) -> Iterator[PullResult]:
    """Results of `jobs` on each node that does not have the image, in node order."""
    for image in sorted(images, key=lambda one: one.metadata.name):
        for job in jobs:
            name, tag = familiar_parts(job.spec.image)
            entry = image.spec.images.get(name)
            wanted = entry.tag(tag) if entry is not None else None
            if wanted is None or not wanted.owned_by(job.metadata.uid):
                continue
            status = image.current_status(name, wanted)
            phase = status.phase if status is not None else PullPhase.WAITING.value
            if phase != PullPhase.SUCCEEDED:
                message = status.message if status is not None else ""
                yield PullResult(image.metadata.name, job.spec.image, phase, message)


def pull_sentences(results: Iterable[PullResult]) -> Iterator[str]:
    """One sentence for all nodes with the same image, phase and message."""
    groups: dict[tuple[str, str, str], list[str]] = {}
    for found in results:
        groups.setdefault((found.image, found.phase, found.message), []).append(found.node)
    for (image, phase, message), nodes in groups.items():
        yield f"{image} on {listing(nodes, 4)}: {_WORDS.get(phase, phase)}" + (
            f": {message}" if message else ""
        )


_WORDS: Final[Mapping[str, str]] = {
    PullPhase.WAITING: "waits to be pulled",
    PullPhase.PULLING: "is being pulled",
    PullPhase.FAILED: "could not be pulled",
}
