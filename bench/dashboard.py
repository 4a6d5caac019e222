"""The dashboard with 10,000 pods of one CloneSet and 2,000 changes a second, and when idle.

Frames and the main thread's share are the browser's own figures. They fall on a busy machine, where
server, browser and this program share the cores.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, Final

from playwright.sync_api import Browser, CDPSession, Page

from bench.timing import Row
from tests.dashboard.browser import Dashboard, chromium, served
from tests.dashboard.scenes import fleet, pod, pods, row

PODS, ROLLOUTS = 10_000, 1_000
CHANGES, FRAMES = 400, 25  # five frames a second for five seconds
IDLE_S: Final = 10.0
CART: Final = "/cloneset/shop/cart"
_COUNT_FRAMES: Final = """() => {
  window.frames_ = 0;
  const next = () => { window.frames_ += 1; requestAnimationFrame(next); };
  requestAnimationFrame(next);
}"""


def rows() -> Iterator[Row]:
    with chromium() as browser, served() as dashboard:
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        every = [row(f"web-{n}") for n in range(ROLLOUTS - 1)]
        dashboard.write(fleet=fleet(row("cart", "Rolling"), *every), pods=pods(PODS, 0, "Rolling"))
        yield from _opened(page, dashboard)
        yield from _busy(page, dashboard)
        yield from _idle(browser, dashboard)


def _opened(page: Page, dashboard: Dashboard) -> Iterator[Row]:
    page.goto(dashboard.url)
    page.wait_for_selector("[data-row]")
    began = time.monotonic()
    page.goto(dashboard.base + CART)
    page.wait_for_function("() => document.querySelector('.grid canvas')?.height > 100")
    drawn = 1000 * (time.monotonic() - began)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    yield Row(name="10,000 pods: address to first content", value=paint, unit="ms", limit=250)
    yield Row(name="10,000 pods: address to pods drawn", value=drawn, unit="ms")


def _busy(page: Page, dashboard: Dashboard) -> Iterator[Row]:
    """Every frame makes other pods new; the page draws what it gets."""
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable")
    page.evaluate(_COUNT_FRAMES)
    names = [name for name in pods(PODS, 0) if name]
    state: dict[str, Any] = pods(PODS, 0, "Rolling")
    began, spent, frames = time.monotonic(), _spent(tools), page.evaluate("window.frames_")
    for n in range(FRAMES):
        for name in names[n * CHANGES : (n + 1) * CHANGES]:
            state[name] = pod("update", "Ready" if n % 2 else "Updating in place")
        dashboard.write(pods=state)
        _pause(max(0.0, began + (n + 1) / 5 - time.monotonic()))
    took = time.monotonic() - began
    drawn = page.evaluate("window.frames_") - frames
    yield Row(name="2,000 changes/s: frames", value=drawn / took, unit="1/s", limit=45, least=True)
    share = 100 * (_spent(tools) - spent) / took
    yield Row(name="2,000 changes/s: main thread", value=share, unit="%", limit=25)


def _idle(browser: Browser, dashboard: Dashboard) -> Iterator[Row]:
    """CPU of the server's thread while one page stays open and nothing changes."""
    page = browser.new_context().new_page()
    page.goto(dashboard.url)
    page.wait_for_selector("[data-row]")
    _pause(2)
    used = _thread_s(dashboard)
    _pause(IDLE_S)
    each = 1000 * (_thread_s(dashboard) - used) / IDLE_S / 2  # the page of the pods is open, too
    yield Row(name="idle viewer: CPU of the server", value=each, unit="ms/s", limit=5)


def _spent(tools: CDPSession) -> float:
    """Seconds that the page's main thread has worked."""
    metrics = tools.send("Performance.getMetrics")["metrics"]
    return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))


def _thread_s(dashboard: Dashboard) -> float:
    """CPU seconds of the thread that serves."""
    measured: Future[float] = Future()
    dashboard.loop.call_soon_threadsafe(lambda: measured.set_result(time.thread_time()))
    return measured.result(30)


def _pause(seconds: float) -> None:
    threading.Event().wait(seconds)


if __name__ == "__main__":
    sys.stdout.writelines(f"{row}\n" for row in rows())
