"""One browser for the run; each test has a context of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.dashboard.browser import Dashboard


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    from tests.dashboard.browser import chromium  # noqa: PLC0415  most tests need no browser

    with chromium() as found:
        yield found


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    from tests.dashboard.browser import served  # noqa: PLC0415

    with served() as found:
        yield found


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A tab; a script that fails fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    tab, failures = context.new_page(), list[str]()
    tab.on("pageerror", lambda error: failures.append(str(error)))
    yield tab
    context.close()
    assert failures == []
