"""Programs without a network: a launcher that enters an empty network namespace, then runs them.

Run as a file with the words of a program, it leaves the network and becomes that program; without
words it only tries. As a file it finds the standard library alone (`-I -S`). Linux alone has
network namespaces, and a container's seccomp profile may forbid them (docs/real-cluster.md): then
a renderer is held by what it is given to read alone.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import Final

_NEW_USER: Final = 0x10000000  # CLONE_NEWUSER, from linux/sched.h
_NEW_NET: Final = 0x40000000  # CLONE_NEWNET
_TRY_S: Final = 10.0


def leave_network() -> None:
    """Move this process to a network namespace with nothing in it. Raises OSError.

    A new user namespace gives the right to create one; root needs none where it has that right.
    """
    import ctypes  # noqa: PLC0415  only the launcher needs it

    libc = ctypes.CDLL(None, use_errno=True)
    unshare = getattr(libc, "unshare", None)
    if unshare is None:
        raise OSError("this platform has no network namespaces")
    if unshare(_NEW_USER | _NEW_NET) != 0 and unshare(_NEW_NET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


@functools.cache
def without_network() -> tuple[str, ...]:
    """Words to put before a command so that it has no network; none where that is impossible.

    Tried once a process; the log says when a program keeps the network.
    """
    import subprocess  # noqa: PLC0415

    launcher = os.path.abspath(__file__)  # noqa: PTH100  the launcher loads no pathlib
    words = (sys.executable, "-I", "-S", launcher)
    try:
        tried = subprocess.run(  # noqa: S603  this file
            words, env={}, stdin=subprocess.DEVNULL, capture_output=True, timeout=_TRY_S,
            check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    else:
        if tried.returncode == 0:
            return words
        why = tried.stderr.decode("utf-8", "replace").strip()
    import logging  # noqa: PLC0415  slow to import, and seldom needed

    from gitkruise.wire.primitives.log_line import log_line  # noqa: PLC0415  not for the launcher

    log = logging.getLogger(__name__)
    log.warning(log_line("network-not-isolated", effect="renderers keep the network", error=why))
    return ()


def _main(words: list[str]) -> int:
    try:
        leave_network()
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if words:
        os.execv(words[0], words)  # noqa: S606  the caller's words
    return 0


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
