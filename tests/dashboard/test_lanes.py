"""Revisions of a workload over time in Chromium, and the page as it was at a moment."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from gitkruise.kube.system.clock import SystemClock
from tests.dashboard.browser import Dashboard, enter, served
from tests.dashboard.scenes import event, fleet, pod, pods, row

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CART = "/cloneset/shop/cart"
EARLY = {"last": "2020-01-01T00:00:00Z", "message": "the first event"}
LATE = {"last": "2099-01-01T00:00:00Z", "message": "the last event"}


@pytest.fixture
def dashboard() -> Iterator[Dashboard]:
    """A dashboard whose seconds pass quickly, so that each change is a moment of its own."""
    with served(clock=SystemClock(speed=60)) as found:
        yield found


def state(fresh: int) -> dict[str, Any]:
    """Ten pods, of which some have the newest revision."""
    old = {f"cart-{n:05}": pod("current", revision="7f9c4d8b6") for n in range(fresh, 10)}
    return {**pods(10, fresh), **old}


def rolled_out(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(
        fleet=fleet(row("cart", "Held")), pods=state(0),
        events={"a": event("a", **EARLY), "b": event("b", **LATE)},
    )  # fmt: skip
    enter(page, dashboard, CART)
    expect(page.get_by_text("Now: 10 pods of 7f9c4d8b6")).to_be_visible()
    for fresh in (2, 4):
        text = f"Now: {fresh} pods of 6b5d4f7c9, {10 - fresh} pods of 7f9c4d8b6"
        dashboard.write(pods=state(fresh))
        expect(page.get_by_text(f"10 pods, {fresh} of the newest revision")).to_be_visible()
        expect(page.get_by_text("Now:")).to_have_text(text)


def test_a_moment_is_chosen_by_keyboard_and_kept_in_the_address(
    page: Page, dashboard: Dashboard
) -> None:
    rolled_out(page, dashboard)
    expect(page.get_by_text("The server remembers")).to_be_visible()
    moment = page.get_by_role("slider", name="Moment")
    moment.focus()
    page.keyboard.press("Home")
    expect(page.get_by_text("shown as they were at")).to_be_visible()
    expect(page.get_by_text("10 pods, 0 of the newest revision")).to_be_visible()
    expect(page.get_by_text("the first event")).to_be_visible()
    expect(page.get_by_text("the last event")).not_to_be_visible()
    expect(moment).to_have_attribute("aria-valuetext", re.compile(": 10 pods of 7f9c4d8b6"))
    assert "?at=20" in page.url
    dashboard.write(pods=state(6))
    expect(page.get_by_text("10 pods, 0 of the newest revision")).to_be_visible()
    page.reload()
    expect(page.get_by_text("10 pods, 0 of the newest revision")).to_be_visible()
    expect(page.get_by_text("shown as they were at")).to_be_visible()
    page.get_by_role("button", name="Back to now").press("Enter")
    expect(page.get_by_text("10 pods, 6 of the newest revision")).to_be_visible()
    expect(page.get_by_text("the last event")).to_be_visible()
    assert "at=" not in page.url


def test_a_click_on_a_lane_goes_to_its_moment(page: Page, dashboard: Dashboard) -> None:
    rolled_out(page, dashboard)
    page.locator(".revision-lane canvas").first.click(position={"x": 1, "y": 10})
    expect(page.get_by_text("10 pods, 0 of the newest revision")).to_be_visible()


def test_commits_that_changed_the_workload_are_marked(page: Page, dashboard: Dashboard) -> None:
    rolled_out(page, dashboard)
    marks = page.get_by_role("list", name="Commits").get_by_role("listitem")
    expect(marks).to_have_text([re.compile(r"^4f2c9e1 before .*\d\d:")])
    dashboard.write(pods=pods(10, 4, commit="8ab13d0" + "0" * 33))
    expect(marks).to_have_text([re.compile("^4f2c9e1"), re.compile(r"^8ab13d0 at .*\d\d:")])
    page.get_by_role("link", name="8ab13d0").click()
    assert page.url.endswith("/commit/8ab13d0" + "0" * 33)


def test_a_moment_that_is_not_remembered_is_reported(page: Page, dashboard: Dashboard) -> None:
    rolled_out(page, dashboard)
    page.goto(f"{dashboard.base}{CART}?at=2020-01-01T00:00:00Z")
    expect(page.get_by_text("nothing is remembered from before")).to_be_visible()
    dashboard.write(pods=state(7))
    expect(page.get_by_text("10 pods, 7 of the newest revision")).to_be_visible()
    expect(page.get_by_text("What is shown is of now")).to_be_visible()
    expect(page.get_by_text("Now: 7 pods of")).to_be_visible()


def test_time_without_a_browser_is_a_gap(browser: Browser, dashboard: Dashboard) -> None:
    for text in ("The server remembers", "with 1 gap in which no browser watched"):
        context = browser.new_context()
        page = context.new_page()
        dashboard.write(fleet=fleet(row("cart")), pods=state(2))
        enter(page, dashboard)
        dashboard.write(fleet=fleet(row("cart", "Rolling")))
        page.goto(f"{dashboard.base}{CART}")
        expect(page.get_by_text("The server remembers")).to_contain_text(text)
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_lanes(page: Page, dashboard: Dashboard, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme)
    rolled_out(page, dashboard)
    page.get_by_role("slider", name="Moment").press("ArrowLeft")
    expect(page.get_by_text("shown as they were at")).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [360, 2560])
def test_lanes_fit_every_width(page: Page, dashboard: Dashboard, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    rolled_out(page, dashboard)
    for size in ("100%", "200%"):
        page.evaluate("size => { document.documentElement.style.fontSize = size }", size)
        page.wait_for_function(
            "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
