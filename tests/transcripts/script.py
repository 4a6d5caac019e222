"""The requests of the transcripts: chapters from script/*.yaml, and one chapter for each kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

FOLDER: Final = Path(__file__).parent
TYPES: Final = {
    "json": "application/json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "ops": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One exchange. `${name}` in the path or the body stands for something kept before.

    `keep`: names for values of the reply, by path. `known`: why the two servers may differ here;
    such a step is played and not compared. `until`: asked again until this status comes, `seen`:
    until the reply has these values at these paths, "" where there is to be nothing.
    """

    method: str
    path: str
    body: Any = None
    content_type: str = ""
    accept: str = "application/json"
    keep: Mapping[str, str] = field(default_factory=dict)
    known: str = ""
    until: int = 0
    seen: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Chapter:
    """Steps that are played in order in a namespace of their own.

    `controlled`: beside the API server run the controllers of Services' endpoints.
    """

    name: str
    steps: tuple[Step, ...]
    controlled: bool = False


def chapters(folder: Path = FOLDER, *, controlled: bool = False) -> list[Chapter]:
    """Every chapter of a folder, in the order of the names: those of a lone API server, or of one
    with controllers."""
    loaded = YAML(typ="safe", pure=True)
    found = []
    for file in sorted((folder / "script" / ("controlled" if controlled else "")).glob("*.yaml")):
        text = loaded.load(file.read_text())
        if file.stem == "kinds":
            found += [_of_kind(name, row, text["steps"]) for name, row in text["kinds"].items()]
        else:
            found.append(Chapter(file.stem, tuple(_step(raw) for raw in text), controlled))
    return sorted(found, key=lambda chapter: chapter.name)


def _step(raw: Mapping[str, Any]) -> Step:
    """`do: METHOD PATH`, and what goes with it."""
    method, path = raw["do"].split(" ", 1)
    body = raw.get("body")
    content = TYPES[raw.get("type", "json")] if body is not None else ""
    return Step(
        method,
        path,
        body,
        content,
        raw.get("accept", "application/json"),
        raw.get("keep", {}),
        raw.get("known", ""),
        raw.get("until", 0),
        raw.get("seen", {}),
    )


def _of_kind(name: str, row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Chapter:
    """The common script of objects, filled in with what makes up one kind."""
    known = row.get("known", {})
    filled = [{**_filled(raw, row), "known": known.get(raw.get("as"), "")} for raw in steps]
    return Chapter(f"kind-{name}", tuple(_step(raw) for raw in filled))


def _filled(value: Any, row: Mapping[str, Any]) -> Any:
    """`$(field)` alone is replaced by the row's value, inside a text by its text."""
    if isinstance(value, Mapping):
        return {key: _filled(item, row) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, row) for item in value]
    if not isinstance(value, str):
        return value
    for name, item in row.items():
        mark = f"$({name})"
        if value == mark:
            return item
        value = value.replace(mark, str(item)) if mark in value else value
    return value
