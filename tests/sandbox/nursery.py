"""`python -m tests.sandbox.nursery STATE`: a server on STATE for each line read, by fork, so that
starting one again after a kill costs no imports."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.server import SandboxOptions, serve


@dataclass(frozen=True, slots=True)
class Born:
    """A server that answers."""

    pid: int
    url: str
    token: str
    ca: str


@dataclass(frozen=True, slots=True)
class Nursery:
    """Factory of servers, one at a time."""

    process: subprocess.Popen[str]
    alive: set[int] = field(default_factory=set)

    def bear(self) -> Born:
        """Start one; it runs until it is killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        born = Born(**json.loads(self.process.stdout.readline()))
        self.alive.add(born.pid)
        return born

    def buried(self) -> int:
        """Wait until the last one is gone; the signal it was killed by."""
        assert self.process.stdout is not None
        ended = int(self.process.stdout.readline())
        self.alive.clear()
        return ended


@contextmanager
def nursery(state: Path) -> Iterator[Nursery]:
    """Servers on one state directory; none is left at the end."""
    words = [sys.executable, "-m", "tests.sandbox.nursery", str(state)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root
    ) as process:
        servers = Nursery(process)
        try:
            yield servers
        finally:
            for pid in servers.alive:
                os.kill(pid, signal.SIGKILL)
            assert process.stdin is not None
            process.stdin.close()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def _live(state: Path) -> None:
    options = SandboxOptions(state_dir=state, nodes=0, kubelet=False, controllers=False)
    async with serve(options) as sandbox:
        born = {"url": sandbox.url, "token": sandbox.token, "ca": sandbox.ca, "pid": os.getpid()}
        _say(json.dumps(born))
        await asyncio.Event().wait()


def main(state: Path) -> None:
    load_catalog()
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(_live(state))
        _, status = os.waitpid(child, 0)
        _say(str(os.WTERMSIG(status)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
