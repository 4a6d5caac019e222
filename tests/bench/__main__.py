"""All benchmarks, one line a number: python -m tests.bench [NAME…]."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tests.bench.canary import first_held_canary
from tests.bench.idle import idle_controller
from tests.bench.pushes import push_to_patch

BENCHES: Final[dict[str, Callable[[Path], Iterator[str]]]] = {
    "canary": first_held_canary,
    "pushes": push_to_patch,
    "idle": idle_controller,
}


def main(names: list[str]) -> None:
    """Run the named ones, all by default."""
    for name in names or BENCHES:
        with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder:
            for line in BENCHES[name](Path(folder)):
                sys.stdout.write(f"{name:<8}{line}\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
