"""Signals end a command once, and a second one ends it at once."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from gitkruise.cli.console import signals


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT], ids=str)
def test_two_signals_together_are_one(monkeypatch: pytest.MonkeyPatch, second: int) -> None:
    """As when `timeout` signals its child and its group."""
    monkeypatch.setattr(signals, "TOGETHER_S", 0.1)
    calls: list[str] = []

    async def main() -> None:
        stop = signals.stop_event(lambda: calls.append("stop"))
        os.kill(os.getpid(), signal.SIGTERM)
        await stop.wait()
        os.kill(os.getpid(), second)
        over = asyncio.Event()
        asyncio.get_running_loop().call_later(2 * signals.TOGETHER_S, over.set)
        await over.wait()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler

    asyncio.run(main())
    assert calls == ["stop"]


@pytest.mark.parametrize("ignored", [False, True], ids=["terminal closed", "nohup"])
def test_a_closed_terminal_ends_a_command_in_order(*, ignored: bool) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    async def main() -> bool:
        stop = signals.stop_event()
        if ignored:
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        else:
            os.kill(os.getpid(), signal.SIGHUP)
            await stop.wait()
        return stop.is_set()

    try:
        assert asyncio.run(main()) is not ignored
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_large_result_is_not_written_out_for_the_signal_handler() -> None:
    class Large:
        written = 0

        def __repr__(self) -> str:
            Large.written += 1
            return "large"

    async def main() -> Large:
        return Large()

    assert isinstance(signals.result_of(main()), Large)
    assert Large.written == 0
