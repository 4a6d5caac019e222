"""Debian's Chromium, and a dashboard of rows that a test writes, in a thread of its own."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Final

from playwright.sync_api import Browser, Page, expect, sync_playwright

from gitkruise.dashboard.gate import MachineGate
from gitkruise.dashboard.server import serve_dashboard, serve_viewers
from gitkruise.dashboard.viewers import ClusterGate
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.serve.certificates import new_authority, new_server, server_context
from gitkruise.kube.system.clock import Clock, SystemClock
from tests.conftest import need
from tests.dashboard.cluster import RULES, Reviewing, guarded_shop
from tests.dashboard.table import Table

TOKEN: Final = "t" * 43
# Without these Chromium looks for its maker's servers, which nothing here reaches.
QUIET: Final = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser without a window. Skips where there is none."""
    program = shutil.which("chromium")
    need("browser", present=bool(program), how="apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(QUIET))
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class Dashboard:
    """A dashboard that is served; `url` opens a session."""

    url: str
    table: Table
    loop: asyncio.AbstractEventLoop

    @property
    def base(self) -> str:
        return self.url.partition("/#")[0]

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    def write(self, **topics: Mapping[str, Any]) -> None:
        """Replace the rows of topics; `pods` are those of cloneset/shop/cart.

        The head of a fleet is the cluster's, too.
        """
        if "fleet" in topics:
            topics["cluster"] = {"": topics["fleet"][""]}

        def change() -> None:
            for name, rows in topics.items():
                topic = "pods/cloneset/shop/cart" if name == "pods" else name
                self.table.topics[topic] = dict(rows)
            self.table.changed.set()

        self.loop.call_soon_threadsafe(change)


def served(port: int = 0, clock: Clock | None = None) -> AbstractContextManager[Dashboard]:
    """Serve a dashboard without rows."""
    clock = clock or SystemClock()
    gate = MachineGate(TOKEN, clock)
    return _running(Table(), lambda t: serve_dashboard(t, Listen(port=port), gate, clock))


def guarded(cluster: Reviewing, clock: Clock) -> AbstractContextManager[Dashboard]:
    """Serve the shop of two namespaces to users of a cluster."""
    now, gate = clock.now(), ClusterGate(cluster, RULES, clock)
    context = server_context(new_server(new_authority(now), now))
    return _running(
        guarded_shop(), lambda t: serve_viewers(t, Listen(port=0), gate, context, clock)
    )


@contextmanager
def _running(
    table: Table, serve: Callable[[Table], AbstractAsyncContextManager[str]]
) -> Iterator[Dashboard]:
    ready: Future[tuple[str, Table, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        table.changed, stop = asyncio.Event(), asyncio.Event()
        async with serve(table) as url:
            ready.set_result((url, table, asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    url, table, loop, stop = ready.result(30)
    try:
        yield Dashboard(url, table, loop)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def enter(page: Page, dashboard: Dashboard, path: str = "/") -> None:
    """Open the address that the command prints, then a page."""
    page.goto(dashboard.url)
    expect(page).to_have_url(dashboard.base + "/")  # a page that was open loads once more
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
    if path != "/":
        page.goto(dashboard.base + path)
