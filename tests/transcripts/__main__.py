"""`python -m tests.transcripts [CHAPTER ...]`: record from a real kube-apiserver."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.kube.real.apiserver import apiserver
from tests.transcripts.player import play
from tests.transcripts.real import client_of
from tests.transcripts.recording import write
from tests.transcripts.script import chapters


def main(wanted: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, apiserver(Path(folder)) as server:
        for chapter in chapters():
            if not wanted or chapter.name in wanted:
                write(chapter.name, play(chapter, client_of(server), f"t-{chapter.name}"))


if __name__ == "__main__":
    main(sys.argv[1:])
