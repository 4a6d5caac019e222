"""Access in Chromium: signing in with a token of the cluster, what is denied, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from gitkruise.kube.system.clock import SystemClock
from tests.dashboard.browser import Dashboard, guarded, served
from tests.dashboard.cluster import JANE, ROOT, STRANGER, Reviewing
from tests.dashboard.record_scenes import compared, in_git, plan
from tests.dashboard.scenes import COMMIT, fleet, row
from tests.dashboard.test_record_rights import FOREIGN, records

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PATIENT_MS = 20_000


@pytest.fixture
def cluster() -> Reviewing:
    return Reviewing()


@pytest.fixture
def shop(cluster: Reviewing) -> Iterator[Dashboard]:
    with guarded(cluster, SystemClock(speed=60)) as found:
        yield found


@pytest.fixture
def tab(browser: Browser, shop: Dashboard) -> Iterator[Page]:
    """A tab that takes any certificate, closed before the server is."""
    del shop
    context = browser.new_context(ignore_https_errors=True)
    yield context.new_page()
    context.close()


def sign_in(tab: Page, token: str) -> None:
    tab.get_by_label("Bearer token").fill(token)
    tab.get_by_role("button", name="Sign in").click()


def test_a_token_of_the_cluster_shows_what_its_user_may_list(tab: Page, shop: Dashboard) -> None:
    tab.goto(shop.url)
    expect(tab.get_by_role("heading", name="Sign in")).to_be_visible()
    found = Axe().run(tab)
    assert found.violations_count == 0, found.generate_report()
    sign_in(tab, "wrong")
    expect(tab.get_by_role("alert")).to_contain_text("does not know this token")
    sign_in(tab, JANE)
    expect(tab.locator("[data-row]")).to_have_count(1)
    expect(tab.locator("[data-row]")).to_contain_text("cart")
    expect(tab.get_by_text("jane sees what the cluster lets them list")).to_be_visible()
    assert "ledger" not in tab.content()
    assert JANE not in tab.content()
    tab.goto(f"{shop.url}cloneset/bank/ledger")
    expect(tab.get_by_role("heading", name="No access")).to_be_visible()
    expect(tab.get_by_text("jane may not list clonesets.apps.kruise.io in")).to_be_visible()
    tab.get_by_role("link", name="Fleet").click()
    expect(tab.locator("[data-row]")).to_have_count(1)
    tab.get_by_role("button", name="Sign out").click()
    expect(tab.get_by_role("heading", name="Sign in")).to_be_visible()
    assert "cart" not in tab.content()
    sign_in(tab, STRANGER)
    expect(tab.get_by_text("You may list no object that gitkruise manages")).to_be_visible()
    tab.get_by_role("button", name="Sign out").click()
    sign_in(tab, ROOT)
    expect(tab.locator("[data-row]")).to_have_count(3)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_records_say_how_much_of_them_is_not_shown(tab: Page, shop: Dashboard, scheme: Any) -> None:
    shop.write(**records().topics)
    hidden = "2 objects are not shown: Secrets, and what you may not list in this cluster"
    shop.table.answers = {
        f"commit/{COMMIT}": {**in_git(), "message": "", "approvals": [], "hidden": hidden},
        f"plan/{COMMIT}": {**plan(), "hidden": hidden},
        "drift": {**compared(), "hidden": hidden},
    }
    tab.emulate_media(color_scheme=scheme)
    tab.goto(f"{shop.url}commits")
    sign_in(tab, JANE)
    expect(tab.locator("[data-row]")).to_have_count(3)  # one of two pull requests, two commits
    expect(tab.get_by_text("1 commit and 2 units are not shown")).to_be_visible()
    contents = [tab.content()]
    assert Axe().run(tab).response["violations"] == []
    tab.goto(f"{shop.url}commit/{COMMIT}")
    expect(tab.get_by_text("3 objects and 1 unit are not shown")).to_be_visible()
    expect(tab.locator(".plan").get_by_text(hidden)).to_be_visible()
    expect(tab.get_by_text("its message is shown to those who may list")).to_be_visible()
    contents.append(tab.content())
    assert Axe().run(tab).response["violations"] == []
    tab.goto(f"{shop.url}drift")
    expect(tab.get_by_text("3 objects are not shown")).to_be_visible()
    tab.get_by_role("button", name="Compare now").click()
    expect(tab.get_by_text(hidden)).to_be_visible()
    contents.append(tab.content())
    assert Axe().run(tab).response["violations"] == []
    assert [word for word in FOREIGN if word.decode() in "".join(contents)] == []


def test_an_explanation_that_is_denied_names_the_right(
    tab: Page, shop: Dashboard, cluster: Reviewing
) -> None:
    cluster.rights.discard(("jane", "events", "shop"))
    tab.goto(f"{shop.url}cloneset/shop/cart")
    sign_in(tab, JANE)
    expect(tab.get_by_text("10 pods, 4 of the newest revision")).to_be_visible()
    expect(
        tab.get_by_text("No explanation: jane may not list events in namespace shop")
    ).to_be_visible()


def test_a_token_that_expires_ends_the_session(
    tab: Page, shop: Dashboard, cluster: Reviewing
) -> None:
    tab.goto(shop.url)
    sign_in(tab, JANE)
    expect(tab.locator("[data-row]")).to_have_count(1)
    tab.evaluate("window.kept = true")
    del cluster.users[JANE]
    expect(tab.get_by_role("heading", name="Sign in")).to_be_visible(timeout=PATIENT_MS)
    assert "cart" not in tab.content()
    cluster.users["fresh"] = "jane"
    sign_in(tab, "fresh")
    expect(tab.locator("[data-row]")).to_have_count(1)
    assert tab.evaluate("window.kept") is True


def test_a_cluster_that_does_not_answer_is_asked_again(
    tab: Page, shop: Dashboard, cluster: Reviewing
) -> None:
    tab.goto(shop.url)
    sign_in(tab, JANE)
    expect(tab.locator("[data-row]")).to_have_count(1)
    cluster.away = True
    expect(tab.get_by_text("reconnecting (as of")).to_be_visible(timeout=PATIENT_MS)
    expect(tab.locator("[data-row]")).to_have_count(1)
    tab.reload()
    expect(tab.get_by_text("reconnecting (as of")).to_be_visible(timeout=PATIENT_MS)
    cluster.away = False
    expect(tab.locator("[data-row]")).to_have_count(1, timeout=PATIENT_MS)


class Ahead(SystemClock):
    """A clock that is a year ahead of the browser's."""

    def now(self) -> datetime:
        return super().now() + timedelta(days=365)


def test_clocks_that_differ_change_nothing(page: Page) -> None:
    with served(clock=Ahead()) as dashboard:
        dashboard.write(fleet=fleet(row("cart", "Rolling")))
        page.goto(dashboard.url)
        expect(page.locator("[data-row]")).to_contain_text("Rolling")
        dashboard.write(fleet=fleet(row("cart", "Done")))
        expect(page.locator("[data-row]")).to_contain_text("Done")
        expect(page.get_by_role("status").filter(has_text="live")).to_have_text("live")
