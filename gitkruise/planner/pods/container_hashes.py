"""Hashes by which a node agent says what a container was started with.

The plain hash covers image and name; the environment hash the variables whose values come from the
pod's labels and annotations. Controllers compare both with what the pod asks for now.

Source: the annotation apps.kruise.io/runtime-containers-meta of OpenKruise (IP-50 to IP-55).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.pod import Container, PodFacts
from gitkruise.planner.pods.inplace import METADATA_FIELD, NOT_OURS
from gitkruise.wire.kruise.hashes import dump_hash
from gitkruise.wire.primitives.gojson import ordered
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj

PLAIN: Final = "plainHash"
ENVIRONMENT: Final = "extractedEnvFromMetadataHash"


def plain_hash(name: str, image: str) -> int:
    """The hash that kubelet 1.31 and later give a container (KUB-40)."""
    return dump_hash(ordered({"image": image, "name": name}))


def metadata_variables(container: Container) -> dict[str, tuple[str, str]]:
    """Variables that read a label or an annotation: name → ("labels" or "annotations", key)."""
    found = {}
    for env in container.env or ():
        field = env.value_from and env.value_from.field_ref
        match_ = METADATA_FIELD.fullmatch(field.field_path) if field else None
        if match_ and not env.value and env.name not in NOT_OURS:
            found[env.name] = (match_[1], match_[2])
    return found


def expected_environment(pod: PodFacts, container: Container) -> dict[str, str]:
    """Values that a container started now would get for its metadata variables."""
    sources = {"labels": pod.labels, "annotations": pod.annotations}
    variables = metadata_variables(container)
    return {name: sources[kind].get(key, "") for name, (kind, key) in variables.items()}


def environment_hash(values: Mapping[str, str]) -> int:
    """The hash of metadata variables; without any it is that of Go's null."""
    listed: list[dict[str, Any]] = [
        {"name": name, **({"value": values[name]} if values[name] else {})}
        for name in sorted(values)
    ]
    return dump_hash(ordered(listed or None))


def reported_containers(pod: PodFacts) -> dict[str, Obj]:
    """Return the node agent's entries by container name; {} without a report.

    Raises ValueError when the annotation does not parse.
    """
    text = pod.annotations.get(wire.CONTAINERS_META)
    if not text:
        return {}
    try:
        return {c["name"]: c for c in read_json(text)["containers"]}
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"annotation {wire.CONTAINERS_META}: {error!r}") from error
