"""`python -m tests.hooks [SCENE ...]`: record from a real kube-apiserver."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.hooks.listener import listening
from tests.hooks.scenes import FOLDER, Stage
from tests.kube.real.apiserver import apiserver
from tests.transcripts.real import client_of
from tests.transcripts.recording import write
from tests.transcripts.script import chapters


def main(wanted: list[str]) -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        apiserver(Path(folder)) as server,
        listening() as listener,
    ):
        for chapter in chapters(FOLDER):
            if not wanted or chapter.name in wanted:
                stage = Stage(client_of(server), listener, f"h-{chapter.name}")
                write(chapter.name, stage.play(chapter), FOLDER)


if __name__ == "__main__":
    main(sys.argv[1:])
