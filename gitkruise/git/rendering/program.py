"""A renderer's process: bounded in time, memory and output, with nothing of this process."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding, InvalidManifests, SourcePlace
from gitkruise.git.plumbing import process
from gitkruise.git.rendering.network_isolation import without_network
from gitkruise.printable import shown

RENDER_S: Final = 60.0
MEMORY_MIB: Final = 1_024
FILES_MAX: Final = 10_000
BYTES_MAX: Final = 64 << 20
_DEAD_PROXY: Final = "http://127.0.0.1:9"  # nothing listens there


def refused(
    code: str, message: str, file: str, place: SourcePlace | None = None, *, following: str = ""
) -> InvalidManifests:
    """Return the error for one finding about what is rendered; `following` is the next step."""
    at = place or SourcePlace(file=file or ".")
    notes = (("next", following),) if following else ()
    return InvalidManifests(Finding(code=code, message=message, places=(at,), notes=notes))


def run(
    words: Sequence[str],
    home: Path,
    subject: str,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float,
    memory_mib: int,
    output_max: int,
) -> process.Result:
    """Run a renderer in `home`, its only folder. Raises InvalidManifests GK3406 at a limit.

    `subject` is the path of the repository that is rendered.
    """
    result = isolated(
        words, home, environment=environment, timeout_s=timeout_s, memory_mib=memory_mib,
        output_max=output_max,
    )  # fmt: skip
    if result.stopped:
        limit = f"{timeout_s:g} s" if result.stopped == "time" else f"{output_max >> 20} MiB"
        raise refused("GK3406", f"rendering {shown(subject)} is beyond a limit: {limit}", subject)
    return result


def isolated(
    words: Sequence[str],
    home: Path,
    *,
    environment: Mapping[str, str] | None = None,
    timeout_s: float,
    memory_mib: int,
    output_max: int,
) -> process.Result:
    """Run a program that reads content of strangers in `home`, without network. Blocking."""
    env = {
        "PATH": "/nonexistent", "HOME": str(home), "KUBECONFIG": "/dev/null", "LC_ALL": "C",
        "GOMEMLIMIT": "512MiB", "HTTP_PROXY": _DEAD_PROXY, "HTTPS_PROXY": _DEAD_PROXY,
        "TMPDIR": str(home), **(environment or {}),
    }  # fmt: skip
    child = subprocess.Popen(  # noqa: S603  a full path and our own words
        [*process.limited(memory_mib=memory_mib), *without_network(), *words],
        env=env, cwd=home,
        start_new_session=True, preexec_fn=process.Tether.hook,  # noqa: PLW1509  as in launch
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    return process.collect(child, timeout_s=timeout_s, output_max=output_max)
