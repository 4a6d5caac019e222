"""From a fresh clone to the first held canary: `make demo` with packages cached."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bench.timing import Row
from tests.e2e.program import ROOT, environment, output, started

SETUP_WITHIN_S: Final = 300.0


def rows() -> Iterator[Row]:
    """Seconds from typing `make demo` in a fresh clone."""
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder:
        yield from _play(Path(folder))


def _play(folder: Path) -> Iterator[Row]:
    env = environment(folder / "state", CI="true")
    del env["PYTHONPATH"]
    clone = folder / "clone"
    output(["git", "clone", "-q", str(ROOT), str(clone)], env)
    begin = time.monotonic()
    with started(["make", "demo", "ARGS=--exit"], env, clone) as demo:
        demo.until("gitkruise demo ·", SETUP_WITHIN_S)
        yield Row(name="make demo: to the first line", value=time.monotonic() - begin, unit="s")
        demo.until(r"Held .* in [0-9.]+ s$")
        took = time.monotonic() - begin
        yield Row(name="make demo: to the first held canary", value=took, unit="s", limit=60)
        demo.ends()
