"""`python -m tests.transcripts [CHAPTER ...]`: record from a real kube-apiserver."""

from __future__ import annotations

import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from tests.kube.real.apiserver import apiserver
from tests.kube.real.controllers import endpoints
from tests.transcripts.player import play
from tests.transcripts.real import client_of
from tests.transcripts.recording import write
from tests.transcripts.script import Chapter, chapters


def main(wanted: list[str]) -> None:
    for controlled in (False, True):
        found = chapters(controlled=controlled)
        played = [chapter for chapter in found if not wanted or chapter.name in wanted]
        if played:
            _record(played, controlled=controlled)


def _record(played: list[Chapter], *, controlled: bool) -> None:
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        server = stack.enter_context(apiserver(Path(folder)))
        if controlled:
            stack.enter_context(endpoints(server))
        for chapter in played:
            write(chapter.name, play(chapter, client_of(server), f"t-{chapter.name}"))


if __name__ == "__main__":
    main(sys.argv[1:])
