"""Digests of the files, the statement of their origin, and a signature."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from release.oci import digest
from release.source import Source

SUMS: Final = "SHA256SUMS"
BUILDER: Final = "urn:gitkruise:builder:make-release"
_BUILD_TYPE: Final = "urn:gitkruise:make-release:v1"


def statement(
    source: Source,
    digests: Mapping[str, str],
    parameters: Mapping[str, Any],
    *,
    builder: str = BUILDER,
) -> str:
    """An in-toto statement with SLSA provenance: the commit that each file was built from.

    `digests` are by name of a file or image. No time is in it, so that builds can be compared.
    """
    subjects = [
        {"name": name, "digest": {"sha256": value.removeprefix("sha256:")}}
        for name, value in sorted(digests.items())
    ]
    definition = {
        "buildType": _BUILD_TYPE,
        "externalParameters": dict(parameters),
        "resolvedDependencies": [{"name": "source", "digest": {"gitCommit": source.commit}}],
    }
    return (
        json.dumps(
            {
                "_type": "https://in-toto.io/Statement/v1",
                "subject": subjects,
                "predicateType": "https://slsa.dev/provenance/v1",
                "predicate": {
                    "buildDefinition": definition,
                    "runDetails": {"builder": {"id": builder}},
                },
            },
            indent=2,
        )
        + "\n"
    )


def digests_of(files: Iterable[Path]) -> dict[str, str]:
    """File name → digest."""
    return {path.name: digest(path.read_bytes()) for path in files}


def write_sums(folder: Path) -> Path:
    """Write SHA256SUMS over every file of a folder, for `sha256sum --check`."""
    found = digests_of(sorted(folder.iterdir()))
    lines = (f"{value.removeprefix('sha256:')}  {name}\n" for name, value in found.items())
    sums = folder / SUMS
    sums.write_text("".join(lines))
    return sums


def sign(path: Path, key: str) -> None:
    """Write PATH.asc, a detached signature by a key of the user's gpg."""
    words = ("gpg", "--batch", "--yes", "--local-user", key, "--armor", "--detach-sign", str(path))
    subprocess.run(words, check=True)
