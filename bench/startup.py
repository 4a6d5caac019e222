"""Cost of a start before any work is done: CPU of imports, memory of a process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Final

from bench.timing import Row

REPEATS: Final = 3
_REPORT: Final = """
import resource
used = resource.getrusage(resource.RUSAGE_SELF)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM:"))
print(used.ru_utime + used.ru_stime, peak.split()[1])
"""
STARTS: Final = {
    "the interpreter": "",
    "gitkruise version": "import gitkruise.cli.root",
    "gitkruise.app": "import gitkruise.app",
    "gitkruise.sandbox.handlers.app": "import gitkruise.sandbox.handlers.app",
    "gitkruise.app with the catalog": (
        "import gitkruise.app; from gitkruise.kube.system.package_data import load_catalog; "
        "load_catalog()"
    ),
}


def rows() -> Iterator[Row]:
    for name, code in STARTS.items():
        seconds, kib = min(_start(code) for _ in range(REPEATS))
        yield Row(name=f"start {name}: CPU", value=seconds * 1000, unit="ms")
        yield Row(name=f"start {name}: memory", value=kib / 1024, unit="MiB", limit=120)


def _start(code: str) -> tuple[float, float]:
    """(CPU seconds, peak KiB) of a fresh interpreter that runs `code`."""
    argv = [sys.executable, "-c", code + _REPORT]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    seconds, kib = map(float, done.stdout.split())
    return seconds, kib
