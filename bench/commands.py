"""Start-up cost of commands: CPU against a program that does nothing but import click.

The budgets are those of a machine on which that program takes 32 ms, so they are ratios here.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.timing import Row

REPEATS: Final = 15
_ROOT: Final = Path(__file__).parents[1]
YARDSTICK_MS: Final = 32.0
YARDSTICK: Final = ("-c", "import click")
_COMPLETE: Final = {
    "_GITKRUISE_COMPLETE": "bash_complete", "COMP_WORDS": "gitkruise st", "COMP_CWORD": "1",
}  # fmt: skip
DOCUMENTS: Final = 990
MISTAKEN: Final = """\
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web-{number}}}
spec:
  replicas: "three"
  selector: {{matchLabels: {{app: web-{number}}}}}
  template:
    metadata: {{labels: {{app: web-{number}}}}}
    spec:
      containers:
      - {{name: app, image: "app:v1"}}
"""
MISTAKEN_MS: Final = 1000
# name → (words, environment, budget in ms on the machine of the yardstick)
BUDGETS: Final[dict[str, tuple[Sequence[str], dict[str, str], float]]] = {
    "--version": (["--version"], {}, 60),
    "completion of a word": ([], _COMPLETE, 60),
    "--help": (["--help"], {}, 60),
    "validate of one file": (["validate", "examples-repo/apps/cart/service.yaml"], {}, 165),
    "plan --offline, nothing to play": (["plan", "--offline", "no-such-commit"], {}, 120),
    "status, no cluster": (["status", "--kubeconfig", "/nonexistent"], {}, 250),
}


def rows() -> Iterator[Row]:
    yard = _cpu_ms(YARDSTICK, {})
    yield Row(name="yardstick: import click", value=yard, unit="ms")
    for name, (words, env, budget) in BUDGETS.items():
        took = _cpu_ms(["-m", "gitkruise", *words], env) * YARDSTICK_MS / yard
        yield Row(name=f"gitkruise {name}", value=took, unit="ms (scaled)", limit=budget)
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder:
        file = Path(folder) / "web.yaml"
        file.write_text("".join(MISTAKEN.format(number=n) for n in range(DOCUMENTS)))
        took = _cpu_ms(("-m", "gitkruise", "validate", str(file)), {}) * YARDSTICK_MS / yard
        name = f"gitkruise validate, {DOCUMENTS} documents with a mistake"
        yield Row(name=name, value=took, unit="ms (scaled)", limit=MISTAKEN_MS)


def _cpu_ms(words: Sequence[str], env: dict[str, str]) -> float:
    """User and system time of the program at its best."""
    return min(once_ms(words, env) for _ in range(REPEATS))


def once_ms(words: Sequence[str], env: dict[str, str]) -> float:
    """User and system time of the program and what it runs, in milliseconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, *words], env={"PATH": os.defpath, "LANG": "C.UTF-8", **env},
        capture_output=True, check=False, cwd=_ROOT,
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1000
