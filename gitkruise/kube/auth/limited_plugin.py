"""Program that runs a credential plugin, and ends it with all that it started when it takes long.

Its arguments are the limit in seconds and the command; its exit code is that of the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import NoReturn


def main() -> NoReturn:
    limit_s, command = float(sys.argv[1]), sys.argv[2:]
    try:
        process = subprocess.Popen(  # noqa: S603  the kubeconfig of this user names it
            command, stdin=subprocess.DEVNULL, start_new_session=True
        )
    except OSError as error:
        sys.exit(f"it cannot be started: {error}")
    try:
        sys.exit(process.wait(limit_s))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # what it started may hold its output open
        sys.exit(f"it did not end within {limit_s:g} s")
