"""Plays one history against the gitkruise of the current directory, for planted lies.

python -m tests.observer.play FOLDER SEED STEPS prints what the observer caught, and exits with 3.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import Final

import gitkruise
from tests.observer.histories import Player

CAUGHT: Final = 3


def main(folder: str, seed: str, steps: str) -> int:
    """Play; return the exit code."""
    assert gitkruise.__file__ is not None
    assert Path(gitkruise.__file__).is_relative_to(Path.cwd()), gitkruise.__file__
    logging.disable(logging.CRITICAL)
    player = Player(Path(folder), int(seed))
    lies = player.play(int(steps))
    for lie in lies:
        sys.stdout.write(f"{lie}\n")
    return CAUGHT if lies else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
