"""Parser of records on the status branch: steps after a restart, histories for users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.status.codecs import INTERVENTION, as_mapping, key_of_id, read_step
from gitkruise.model.gitops.record import Intervention, RolloutStep
from gitkruise.wire.primitives.names import ObjectKey


def read_yaml(data: bytes, file: str = "record") -> Mapping[str, Any]:
    """Parse one of our files, which anyone may have written. Raises ValueError on anything else."""
    parsed = parse_file(data, file)
    if not parsed.ok or len(parsed.documents) != 1:
        raise ValueError(f"{file} is not one YAML document")
    return as_mapping(parsed.documents[0].obj)


def read_rollout(data: bytes) -> tuple[ObjectKey, tuple[RolloutStep, ...]]:
    """Return (object, its steps) of a rollouts/*.yaml file. Raises ValueError on a foreign file."""
    raw = read_yaml(data)
    try:
        key = key_of_id(str(raw["object"]))
        return key, tuple(read_step(as_mapping(step)) for step in raw.get("steps") or ())
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a rollout record: {error}") from error


def read_interventions(data: bytes) -> tuple[Intervention, ...]:
    """Parse an interventions.yaml file. Raises ValueError on a foreign file."""
    try:
        return tuple(map(INTERVENTION.read, read_yaml(data).get("interventions") or ()))
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a record of interventions: {error}") from error
