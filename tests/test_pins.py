"""Every dependency is pinned with hashes, and the pins name no place of their own."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
RUNTIME = PROJECT["project"]["dependencies"]
KEYLESS = PROJECT["project"]["optional-dependencies"]["keyless"]
BUILD = PROJECT["build-system"]["requires"]
DEV = PROJECT["project"]["optional-dependencies"]["dev"]


def name_and_floor(requirement: str) -> tuple[str, tuple[int, ...]]:
    """`GitPython>=3.1.50` as ("gitpython", (3, 1, 50))."""
    name, _, floor = requirement.partition(">=")
    return normal(name), numbers(floor.partition(",")[0])


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version))


def pins(file: str) -> dict[str, str]:
    """Pinned version by name; every pin must carry a hash."""
    text = (ROOT / file).read_text()
    found = re.findall(
        r"^([A-Za-z0-9_.\-]+)==(\S+)( ;[^\\]*)? \\\n +--hash=sha256:", text, re.MULTILINE
    )
    assert len(found) == len(re.findall(r"^[A-Za-z0-9]", text, re.MULTILINE)), "a pin has no hash"
    return {normal(name): version for name, version, _ in found}


@pytest.mark.parametrize(
    ("file", "wanted"),
    [
        ("requirements.txt", [*RUNTIME, *KEYLESS, *BUILD]),
        ("requirements-dev.txt", [*RUNTIME, *DEV]),
    ],
)
def test_everything_asked_for_is_pinned(file: str, wanted: list[str]) -> None:
    pinned = pins(file)
    for requirement in wanted:
        name, floor = name_and_floor(requirement)
        assert name in pinned, f"{name} is not in {file}: make lock"
        assert numbers(pinned[name]) >= floor, f"{name} is older than {requirement}: make lock"
        below = numbers(requirement.partition("<")[2])
        assert not below or numbers(pinned[name]) < below, f"{name} is not in {requirement}"


def test_both_files_agree() -> None:
    runtime, dev = pins("requirements.txt"), pins("requirements-dev.txt")
    assert {n: v for n, v in dev.items() if n in runtime and runtime[n] != v} == {}


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt", "Makefile"])
def test_no_registry_and_no_machine_is_named(file: str) -> None:
    text = (ROOT / file).read_text()
    assert not re.search(
        r"--(extra-)?index-url [^-]|--find-links \S|https?://|file://|/home/|/root/", text
    )
