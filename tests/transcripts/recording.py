"""Where the answers of the real server are kept: one JSON file for each chapter."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.transcripts.player import Exchange
from tests.transcripts.script import FOLDER


def write(chapter: str, exchanges: Sequence[Exchange], folder: Path = FOLDER) -> None:
    """Keep a chapter, one exchange a line, so that a change of one shows as one."""
    lines = [
        json.dumps({"step": e.step, **e.reply}, sort_keys=True, ensure_ascii=False)
        for e in exchanges
    ]
    _file(chapter, folder).write_text("[\n" + ",\n".join(lines) + "\n]\n")


def read(chapter: str, folder: Path = FOLDER) -> list[dict[str, Any]]:
    """The exchanges of a chapter as recorded."""
    found: list[dict[str, Any]] = json.loads(_file(chapter, folder).read_text())
    return found


def recorded(folder: Path = FOLDER) -> set[str]:
    """The names of the chapters that are kept."""
    return {file.stem for file in (folder / "recorded").glob("*.json")}


def _file(chapter: str, folder: Path) -> Path:
    return folder / "recorded" / f"{chapter}.json"
