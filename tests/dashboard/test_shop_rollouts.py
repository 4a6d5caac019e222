"""The example shop in a browser: a canary, a promotion and a bad image, as commits make them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.cluster import sandbox
from tests.e2e.program import gitkruise, output, started
from tests.e2e.shop import CHECKOUT, create

pytestmark = [pytest.mark.browser, pytest.mark.slow]
PICTURES = Path(__file__).parents[2] / "docs"
PATIENT_MS = 60_000


@pytest.fixture
def picture(page: Page, request: pytest.FixtureRequest) -> Callable[[str], None]:
    """Take a picture for the documentation, under --update-golden."""

    def take(name: str) -> None:
        if request.config.getoption("--update-golden"):
            page.mouse.move(0, 0)
            page.screenshot(path=PICTURES / name)

    return take


def test_a_canary_in_a_browser(page: Page, tmp_path: Path, picture: Callable[[str], None]) -> None:
    with sandbox(tmp_path, "--speed", "20") as cluster:
        shop = create(tmp_path, cluster.env)

        sync = gitkruise("sync", "--wait", "--sandbox")
        output(sync, cluster.env, shop.clone)
        words = gitkruise("dashboard", "--sandbox", "--listen", "127.0.0.1:0")
        with started(words, cluster.env, shop.clone) as command:
            page.goto(command.until("^http://"))
            line = page.locator("[data-row]").filter(has_text="cloneset/checkout")
            expect(line).to_contain_text("Done", timeout=PATIENT_MS)
            shop.edit(CHECKOUT, "partition: 0", "partition: 60%")
            shop.edit(CHECKOUT, "checkout:v2.4.0", "checkout:v2.4.1")
            shop.push("checkout v2.4.1, partition 60%")
            output(sync, cluster.env, shop.clone)
            expect(line).to_contain_text("Held", timeout=PATIENT_MS)
            expect(line).to_contain_text("4/10")
            shop.edit("apps/search/cloneset.yaml", "search:v7", "search:v8-broken")
            commit = shop.push("search v8")
            with started(gitkruise("run", "--sandbox"), cluster.env, shop.clone):
                look_at_stuck(page, commit[:7])
                picture("dashboard.png")
            line.get_by_role("rowheader").get_by_role("link").click()
            assert urlsplit(page.url).path == "/cloneset/shop/checkout"
            expect(page.get_by_text("10 pods, 4 of the newest revision: 10 Ready")).to_be_visible()
            expect(page.get_by_text("gitkruise promote cloneset/checkout")).to_be_visible()
            expect(page.get_by_text('"checkout v2.4.1, partition 60%"')).to_be_visible()
            picture("dashboard-cloneset.png")
            look_at_the_commit(page, picture)


def look_at_stuck(page: Page, commit: str) -> None:
    """A bad image is Stuck, with the reason and the commit that brought it."""
    stuck = page.locator("[data-row]").filter(has_text="cloneset/search")
    expect(stuck).to_contain_text("Stuck", timeout=PATIENT_MS)
    expect(stuck).to_contain_text("cannot be pulled")
    expect(stuck).to_contain_text(commit)


def look_at_the_commit(page: Page, picture: Callable[[str], None]) -> None:
    """The canary's commit has its record and its plan; nothing drifted."""
    page.get_by_role("link", name="Commits").click()
    canary = page.locator("[data-row]").filter(has_text="partition 60%")
    expect(canary).to_contain_text("Held")
    expect(page.locator("[data-row]").filter(has_text="search v8")).to_be_visible()
    canary.get_by_role("rowheader").get_by_role("link").click()
    steps = page.get_by_role("region", name="Rollouts of this commit")
    expect(steps).to_contain_text("4/4")
    expect(page.get_by_text("2/10 · 2 in-place")).to_be_visible(timeout=PATIENT_MS)
    picture("dashboard-commit.png")
    page.get_by_role("link", name="Drift").click()
    page.get_by_role("button", name="Compare now").click()
    expect(page.get_by_text("objects compared")).to_be_visible(timeout=PATIENT_MS)
    page.get_by_role("link", name="Nodes").click()
    nodes = page.get_by_role("region", name="Nodes")
    expect(nodes.get_by_role("link", name="cloneset/shop/checkout").first).to_be_visible()
