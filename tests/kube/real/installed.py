"""The gitkruise command in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def command(*words: str, root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gitkruise", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={"PATH": "/usr/bin:/bin", "GITKRUISE_STATE": str(root / "state"), "HOME": str(root)},
        cwd=Path(__file__).parents[3],
    )
