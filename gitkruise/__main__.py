"""Entry point of the `gitkruise` command, and of `python -m gitkruise`."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line.

    Ctrl-C ends the process without a traceback while modules are imported and while the
    interpreter shuts down, where nothing could catch KeyboardInterrupt.
    """
    handler = signal.getsignal(signal.SIGINT)
    raises = handler is signal.default_int_handler  # not in the background of a shell
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gitkruise.cli import root  # noqa: PLC0415  takes long enough to be interrupted

    if raises:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        root.main()
    finally:
        if raises:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
