"""Programs in the background: started with a log each, ended by their ids."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

STARTS_WITHIN = 1200  # looks, a twentieth of a second apart: a guard, not a measurement
ENDS_WITHIN_S = 10.0


@dataclass
class Processes:
    """The running programs by name; logs lie in `folder`."""

    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def spawn(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            # A session of its own: an interrupt at the terminal reaches the tests, which end it.
            self.running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.folder, start_new_session=True
            )

    def until(self, what: str, happened: Callable[[], bool]) -> None:
        """Wait for an answer; fails with the log of a program that ended meanwhile."""
        for _ in range(STARTS_WITHIN):
            if happened():
                return
            for name, process in self.running.items():
                assert process.poll() is None, f"{name} ended: {self.log(name)}"
            time.sleep(0.05)
        logs = "".join(f"\n{name}: {self.log(name)}" for name in self.running)
        raise AssertionError(f"still waiting: {what}{logs}")

    def log(self, name: str) -> str:
        """The end of a program's log."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def kill(self, name: str) -> None:
        """End a program as a crash does."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def end(self, *names: str) -> None:
        """Ask the programs to end, then make them."""
        found = [self.running.pop(name) for name in names if name in self.running]
        for process in found:
            process.send_signal(signal.SIGTERM)
        for process in found:
            try:
                process.wait(ENDS_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
