"""From a fresh clone to the first held canary: `make demo` with packages cached."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.program import ROOT, environment, output, started


def first_held_canary(folder: Path) -> Iterator[str]:
    """Seconds from typing `make demo` in a clone to a canary that is held (goal: 60)."""
    env = environment(folder / "state", CI="true")
    del env["PYTHONPATH"]
    clone = folder / "clone"
    output(["git", "clone", "-q", str(ROOT), str(clone)], env)
    begin = time.monotonic()
    with started(["make", "demo", "ARGS=--exit"], env, clone) as demo:
        demo.until("gitkruise demo ·", 300)
        yield f"set-up {time.monotonic() - begin:.1f} s"
        demo.until(r"Held .* in [0-9.]+ s$")
        yield f"first held canary {time.monotonic() - begin:.1f} s"
        demo.ends()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield f"CPU of all of it {used.ru_utime + used.ru_stime:.1f} s"
