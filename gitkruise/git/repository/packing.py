"""Packs of a mirror: every fetch adds one, and every status commit adds loose objects."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.process import Launch, git_command
from gitkruise.printable import shown
from gitkruise.wire.primitives.log_line import log_line

PACKS_MAX: Final = 100
_LOOSE_MAX: Final = 6_700  # as git has it
_SAMPLE: Final = "17"  # one of 256 folders of loose objects, which says how many there are
_REPACK_S: Final = 120.0
# All packs become one, or two where files stay at the server. Objects that no ref leads to are
# kept: status commits are such, and a commit that a forced push took off its branch may be live.
_WORDS: Final = ("repack", "-a", "-d", "--keep-unreachable", "--no-write-bitmap-index", "--quiet")


class Packing:
    """Brings the objects of a mirror into few files, before they slow down every git."""

    def __init__(self, git_dir: Path, launch: Launch) -> None:
        self._git_dir, self._launch = git_dir, launch
        self._patience = 1  # grows when it fails: a large mirror is not tried at every fetch

    def pack(self, settings: tuple[str, ...]) -> None:
        """Pack a mirror that has become many files; one that git cannot pack stays as it is.

        `settings` tell git that the remote has what is not here.
        """
        if not self._crowded():
            return
        options = [word for line in settings for word in ("-c", line)]
        command = git_command(self._git_dir, [*options, *_WORDS], limited=True)
        result = process.collect(
            self._launch(command), timeout_s=_REPACK_S, output_max=process.OUTPUT_MAX
        )
        if result.status == 0 and not result.stopped:
            self._patience = 1
            return
        self._patience *= 2
        import logging  # noqa: PLC0415  slow to import, and seldom needed

        why = result.stopped or shown(result.errors.strip())
        log = logging.getLogger(__name__)
        log.warning(log_line("mirror-not-packed", mirror=self._git_dir, error=why))

    def _crowded(self) -> bool:
        objects = self._git_dir / "objects"
        packs = sum(name.endswith(".pack") for name in os.listdir(objects / "pack"))  # noqa: PTH208  of many
        sample = objects / _SAMPLE
        loose = 256 * len(os.listdir(sample)) if sample.exists() else 0  # noqa: PTH208  of many
        return packs > PACKS_MAX * self._patience or loose > _LOOSE_MAX * self._patience
