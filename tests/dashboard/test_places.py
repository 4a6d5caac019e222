"""The place of a reader on a page: after back, forward and reload, and on a narrow screen."""

from __future__ import annotations

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.dashboard.browser import Dashboard, enter
from tests.dashboard.scenes import fleet, row

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def far(page: Page, dashboard: Dashboard) -> Locator:
    """A row far down in a long fleet."""
    dashboard.write(fleet=fleet(*[row(f"app-{n:04}") for n in range(400)]))
    enter(page, dashboard)
    return page.get_by_role("link", name="cloneset/app-0300")


def test_back_and_reload_return_to_the_place_in_a_long_fleet(page: Page, far: Locator) -> None:
    far.scroll_into_view_if_needed()
    top = page.evaluate("window.scrollY")
    assert top > 1000
    far.click()
    expect(page.get_by_role("heading", name="app-0300")).to_be_visible()
    assert page.evaluate("window.scrollY") == 0
    page.go_back()
    expect(far).to_be_in_viewport()
    assert page.evaluate("window.scrollY") == top
    assert page.evaluate("document.activeElement.tagName") != "A", "rows go on to move"
    page.reload()
    expect(far).to_be_in_viewport()
    page.get_by_role("link", name="Drift").click()
    page.get_by_role("link", name="Fleet").click()
    expect(page.get_by_role("link", name="cloneset/app-0000")).to_be_in_viewport()


def test_back_returns_the_keyboard_to_the_row_it_came_from(page: Page, far: Locator) -> None:
    far.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="app-0300")).to_be_visible()
    page.go_back()
    expect(far).to_be_focused()
    expect(far).to_be_in_viewport()
    page.keyboard.press("j")
    expect(page.get_by_role("link", name="cloneset/app-0301")).to_be_focused()


@pytest.mark.parametrize("width", [360, 1280])
def test_a_long_name_leaves_room_for_the_states_of_all(
    page: Page, dashboard: Dashboard, width: int
) -> None:
    """A long one would push the state of each row out of sight."""
    dashboard.write(fleet=fleet(row("cart"), row("a" * 100, "Stuck", "the image cannot be pulled")))
    page.set_viewport_size({"width": width, "height": 740})
    enter(page, dashboard)
    expect(page.get_by_role("cell", name="Stuck", exact=True)).to_be_in_viewport()
    expect(page.get_by_role("cell", name="Done", exact=True)).to_be_in_viewport()
