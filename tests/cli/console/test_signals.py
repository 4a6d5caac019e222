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
