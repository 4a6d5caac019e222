"""The pages in Chromium: what they show, live, by keyboard, and to everybody."""

from __future__ import annotations

import re
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, Route, expect

from gitkruise.errors import Unavailable
from tests.dashboard.browser import Dashboard, enter, served
from tests.dashboard.scenes import COMMIT, event, fleet, pod, pods, row

pytestmark = [pytest.mark.browser, pytest.mark.slow]
CART = "/cloneset/shop/cart"
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script>"


def test_the_fleet_shows_who_needs_you_first(page: Page, dashboard: Dashboard) -> None:
    stuck = row("search", "Stuck", "image search:v7.1 cannot be pulled")
    dashboard.write(fleet=fleet(row("cart"), stuck, row("checkout", "Held")))
    enter(page, dashboard)
    objects = page.locator("tbody [data-row]")
    expect(objects).to_have_count(3)
    expect(objects.nth(0)).to_contain_text("cloneset/search")
    expect(objects.nth(0)).to_contain_text("image search:v7.1 cannot be pulled")
    expect(objects.nth(1)).to_contain_text("Held")
    page.get_by_role("button", name="Stuck 1").click()
    expect(objects).to_have_count(1)
    assert page.url.endswith("/?state=Stuck")
    page.reload()
    expect(objects).to_have_count(1)
    expect(page.get_by_role("button", name="Stuck 1")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="Stuck 1").click()
    page.get_by_role("searchbox").fill("check")
    expect(objects).to_have_count(1)
    expect(page.get_by_text("1 object of 3")).to_be_visible()


@pytest.mark.parametrize("path", ["/", "/commits", "/nodes", "/events"])
def test_a_filter_is_kept_in_the_address(page: Page, dashboard: Dashboard, path: str) -> None:
    dashboard.write(fleet=fleet(row("cart")))
    enter(page, dashboard, path)
    page.get_by_role("searchbox").fill("a b&c")
    page.get_by_role("link", name="Drift").click()
    expect(page.get_by_role("heading", name="Drift")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("searchbox")).to_have_value("a b&c")
    page.reload()
    expect(page.get_by_role("searchbox")).to_have_value("a b&c")


def test_events_that_a_filter_hides_are_counted(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(), events={"a": event("a")})
    enter(page, dashboard, "/events")
    expect(page.get_by_text("1 event", exact=True)).to_be_visible()
    page.get_by_role("searchbox").fill("nothing has this")
    expect(page.get_by_text("0 events of 1")).to_be_visible()
    expect(page.get_by_text("may list")).not_to_be_visible()


def test_a_time_of_another_day_has_its_date(page: Page, dashboard: Dashboard) -> None:
    today = page.evaluate("new Date().toISOString()")
    rows = {"a": event("a", last="2020-11-20T10:00:00Z"), "b": event("b", last=today)}
    dashboard.write(fleet=fleet(), events=rows)
    enter(page, dashboard, "/events")
    times = page.locator("main tbody td:first-child")
    expect(times).to_have_text([re.compile(r"^\d\d:\d\d:\d\d$"), re.compile("^Nov 20, 2020, ")])


def test_an_address_that_is_no_text_is_of_nothing(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet())
    enter(page, dashboard, "/cloneset/shop/100%zz")
    expect(page.get_by_text("The cluster has no such object")).to_be_visible()


def test_rows_change_while_one_looks(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(row("cart", "Rolling")))
    enter(page, dashboard)
    line = page.locator("[data-row]").filter(has_text="cart")
    expect(line).to_contain_text("Rolling")
    dashboard.write(fleet=fleet(row("cart", "Done"), row("search")))
    expect(line).to_contain_text("Done")
    expect(page.locator("[data-row]")).to_have_count(2)
    dashboard.write(fleet=fleet(row("search")))
    expect(line).to_have_count(0)


def test_the_focus_stays_while_rows_before_it_come_and_go(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(row("a"), row("b"), row("c")))
    enter(page, dashboard)
    link = page.get_by_role("link", name="cloneset/b")
    link.focus()
    for other in ("c", "a"):
        dashboard.write(fleet=fleet(row("b"), row(other)))
        expect(page.get_by_role("link", name=f"cloneset/{other}")).to_be_visible()
        expect(page.locator("[data-row]")).to_have_count(2)
        expect(link).to_be_focused()


def test_a_workload_shows_every_pod_as_a_cell_and_as_a_row(
    page: Page, dashboard: Dashboard
) -> None:
    dashboard.write(fleet=fleet(row("cart", "Held")), pods=pods(), events={"a": event("a")})
    enter(page, dashboard, CART)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Held")
    expect(page.get_by_text("10 pods, 4 of the newest revision: 10 Ready")).to_be_visible()
    expect(page.get_by_text("4 new, 4 asked for (partition 60%)")).to_be_visible()
    expect(page.get_by_text("updated pod cart-00001 in place")).to_be_visible()
    expect(page.get_by_role("list").filter(has_text="cloneset shop cart")).to_be_visible()
    expect(page.get_by_text("gitkruise promote cart", exact=True)).to_be_visible()
    assert colours(page) == 2
    broken = {**pods(), "cart-00001": pod(state="Failing", why="image cannot be pulled")}
    dashboard.write(pods=broken)
    expect(page.get_by_text("4 of the newest revision: 1 Failing, 9 Ready")).to_be_visible()
    page.keyboard.press("n")
    expect(page.get_by_text("cart-00001: Failing")).to_contain_text("image cannot be pulled")
    page.keyboard.press("p")
    rows = page.get_by_role("region", name="Pods", exact=True).locator("tbody tr")
    expect(rows).to_have_count(10)
    expect(rows.nth(1)).to_contain_text("image cannot be pulled")
    fewer = {key: value for key, value in pods().items() if key != "cart-00003"}
    dashboard.write(pods=fewer)
    expect(rows).to_have_count(9)


def test_what_is_shown_of_a_chosen_pod_stays_true(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(), pods=pods())
    enter(page, dashboard, CART)
    page.get_by_role("img", name="10 pods").focus()
    page.keyboard.press("Home")
    card = page.get_by_role("status").filter(has_text="cart-00000")
    expect(card).to_contain_text("cart-00000: Ready")
    broken = pod(state="Failing", why="image cannot be pulled")
    dashboard.write(pods={**pods(), "cart-00000": broken})
    expect(card).to_contain_text("Failing")
    expect(card).to_contain_text("image cannot be pulled")
    dashboard.write(pods={name: row for name, row in pods().items() if name != "cart-00000"})
    expect(card).to_have_text("cart-00000: not there")
    dashboard.write(pods=pods())
    expect(card).to_contain_text("cart-00000: Ready")
    page.keyboard.press("ArrowRight")
    expect(page.get_by_text("cart-00001: Ready")).to_be_visible()


def test_headings_are_printed_without_their_buttons(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(), pods=pods())
    enter(page, dashboard, CART)
    expect(page.get_by_role("button", name="Table")).to_be_visible()
    page.emulate_media(media="print")
    expect(page.get_by_role("heading", name="10 pods")).to_be_visible()
    expect(page.get_by_role("button", name="Table")).not_to_be_visible()


def colours(page: Page) -> int:
    """How many colours of revisions the grid draws."""
    script = """() => {
      const canvas = document.querySelector(".grid canvas");
      const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
      const found = new Map();
      for (let at = 0; at < data.length; at += 4)
        if (data[at + 3] === 255) {
          const colour = data.slice(at, at + 3).join();
          found.set(colour, (found.get(colour) ?? 0) + 1);
        }
      return [...found.values()].filter((pixels) => pixels > 200).length;
    }"""
    return int(page.evaluate(script))


def test_an_object_that_is_gone_is_shown_as_gone(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet())
    enter(page, dashboard, CART)
    expect(page.get_by_text("The cluster has no such object")).to_be_visible()


def test_an_object_that_goes_takes_its_rollout_and_may_come_back(
    page: Page, dashboard: Dashboard
) -> None:
    dashboard.write(fleet=fleet(), pods=pods())
    enter(page, dashboard, CART)
    title = page.get_by_role("heading", level=1)
    for _ in range(2):
        expect(title).to_contain_text("Held")
        expect(page.get_by_role("heading", name="10 pods")).to_be_visible()
        expect(page.get_by_text("cloneset shop cart")).to_be_visible()
        dashboard.write(pods={})
        expect(title).to_contain_text("not there")
        for locator in (page.get_by_text("4/10"), page.get_by_role("heading", name="10 pods"),
                        page.get_by_role("heading", name="Partition")):  # fmt: skip
            expect(locator).not_to_be_visible()
        expect(page.get_by_role("region", name="Revisions").locator("tbody tr")).to_have_count(0)
        dashboard.write(pods=pods())


def test_an_explanation_is_asked_for_until_there_is_one(page: Page, dashboard: Dashboard) -> None:
    page.clock.install()
    dashboard.write(fleet=fleet(), pods=pods())
    dashboard.table.failure = Unavailable("connection refused")
    enter(page, dashboard, CART)
    expect(page.get_by_text("No explanation: ")).to_contain_text("connection refused")
    dashboard.table.failure = None
    page.clock.run_for(11_000)
    expect(page.get_by_text("cloneset shop cart")).to_be_visible()
    expect(page.get_by_text("No explanation: ")).not_to_be_visible()


def test_only_commands_can_be_copied(page: Page, dashboard: Dashboard) -> None:
    sentences = [
        "nothing: it goes on by itself when pods become available",
        "for the newest commit: gitkruise plan 4f2c9e1",
        "kubectl delete pod cart-0 -n shop: it is not replaced before",
        "gitkruise drift shows what differs; drift.mode: correct puts it back",
    ]
    found = "gitkruise why deployment/web -n shop"
    dashboard.table.explained = {"next": [*sentences, found]}
    dashboard.write(fleet=fleet(), pods=pods())
    enter(page, dashboard, CART)
    for line in (*sentences, found):
        expect(page.get_by_text(line, exact=True)).to_be_visible()
    expect(page.get_by_role("button", name="Copy")).to_have_count(1)
    expect(page.get_by_role("button", name=f"Copy {found}")).to_be_visible()


def test_reasons_that_change_without_the_state_are_shown(page: Page, dashboard: Dashboard) -> None:
    """A commit that was rejected, and mended: the objects that it left alone did not change."""
    page.clock.install()
    dashboard.write(fleet=fleet(), pods=pods(state="Done"))
    dashboard.table.explained = {"reasons": ["commit b6d3a1d was rejected"]}
    enter(page, dashboard, CART)
    expect(page.get_by_text("commit b6d3a1d was rejected")).to_be_visible()
    dashboard.table.explained = {"reasons": [], "next": []}
    page.clock.run_for(11_000)
    expect(page.get_by_role("heading", name="Why")).not_to_be_visible()


def test_everything_works_without_a_mouse(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(row("cart"), row("search")), pods=pods())
    enter(page, dashboard)
    expect(page.locator("[data-row]")).to_have_count(2)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("cloneset/cart")
    page.get_by_role("img", name="10 pods").focus()
    page.keyboard.press("End")
    expect(page.get_by_text("cart-00009: Ready")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_text("cart-00008: Ready")).to_be_visible()
    page.keyboard.press("u")
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    expect(page.locator("[data-row]")).to_have_count(2)
    page.keyboard.press("g")
    page.keyboard.press("e")
    expect(page.get_by_role("heading", name="Events")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).not_to_be_visible()


def test_to_skip_to_the_content_keeps_the_page(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(), events={"a": event("a")})
    enter(page, dashboard, "/events")
    page.get_by_role("searchbox").fill("cart")
    page.locator("a.skip").press("Enter")
    expect(page.get_by_role("main")).to_be_focused()
    expect(page.get_by_role("searchbox")).to_have_value("cart")
    assert page.url == f"{dashboard.base}/events?q=cart"


def test_text_of_others_stays_text(page: Page, dashboard: Dashboard) -> None:
    hostile = row("cart", "Stuck", HOSTILE, unit=HOSTILE, commit=HOSTILE)
    unit = {"unit": HOSTILE, "state": "Rejected", "message": HOSTILE, "problems": [], "waits": ""}
    dashboard.write(
        fleet=fleet(hostile, cluster=HOSTILE, units=[unit]),
        pods={**pods(message=HOSTILE), "x": pod(state="Failing", why=HOSTILE, node=HOSTILE)},
        events={"a": event("a", message=HOSTILE, reason=HOSTILE)},
    )
    for path in ("/", CART, "/events"):
        enter(page, dashboard, path)
        expect(page.get_by_text("onerror").first).to_be_visible()
        assert page.locator("main img, main script").count() == 0
        assert "owned" not in page.title()


def test_without_the_token_there_is_nothing_to_see(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(row("cart")))
    for url in (dashboard.base, f"{dashboard.base}/#token=wrong"):
        page.goto(url)
        expect(page.get_by_role("heading", name="No access")).to_be_visible()
        expect(page.locator("body")).not_to_contain_text("cart")  # the address loads it again
    enter(page, dashboard)
    expect(page.locator("[data-row]")).to_have_count(1)
    assert "token" not in page.url


@pytest.mark.parametrize("path", ["/", CART, "/commits", "/nodes", "/events"])
def test_a_cluster_that_is_away_is_reported_and_what_is_known_stays(
    page: Page, dashboard: Dashboard, path: str
) -> None:
    away = {"problem": "connection refused", "problemSince": "2026-11-25T10:02:11Z"}
    dashboard.write(fleet=fleet(row("cart")), pods=pods(), events={"a": event("a")})
    enter(page, dashboard, path)
    notice = page.get_by_role("status").filter(has_text="The cluster cannot be read since")
    for _ in range(2):
        expect(notice).not_to_be_visible()
        dashboard.write(fleet=fleet(row("cart"), **away))
        expect(notice).to_contain_text("connection refused")
        if path == "/":
            expect(page.locator("[data-row]")).to_have_count(1)
        page.get_by_role("link", name="Drift").click()
        expect(notice).to_contain_text("connection refused")
        page.go_back()
        dashboard.write(fleet=fleet(row("cart")))


def test_a_unit_is_named_where_no_row_says_what_is_wrong(page: Page, dashboard: Dashboard) -> None:
    """Of a hundred units with a bad image each, the table says it all."""
    details = {"waits": "", "message": "m", "problems": []}
    units: list[dict[str, Any]] = [
        {"unit": "shop/shop", "state": "Stuck", **details},
        {"unit": "shop/config", "state": "Stuck", **details, "problems": ["GK3503 late"]},
        {"unit": "shop/old", "state": "Done", **details, "problems": ["its record is out of date"]},
        {"unit": "shop/bad", "state": "Rejected", **details, "problems": ["GK1204 no number"]},
    ]
    dashboard.write(fleet=fleet(row("cart", "Stuck", "no image"), units=units))
    enter(page, dashboard)
    names = ["Unit shop/bad is Rejected", "Unit shop/config is Stuck", "Unit shop/old is Done"]
    expect(page.locator(".note strong")).to_have_text(names)
    reasons = ["m\nGK1204 no number", "m\nGK3503 late", "its record is out of date"]
    expect(page.locator(".note p")).to_have_text(reasons)


def test_kinds_that_the_dashboard_may_not_list_are_named(page: Page, dashboard: Dashboard) -> None:
    dashboard.write(fleet=fleet(row("cart"), unread=["deployments.apps", "jobs.batch"]))
    enter(page, dashboard)
    expect(page.get_by_text("Not shown: deployments.apps, jobs.batch")).to_be_visible()
    expect(page.locator("[data-row]")).to_have_count(1)


def test_a_lost_connection_comes_back_without_loading_the_page(browser: Browser) -> None:
    context = browser.new_context()
    page = context.new_page()
    with served() as first:
        first.write(fleet=fleet(row("cart", "Rolling")))
        enter(page, first)
        expect(page.locator("[data-row]")).to_contain_text("Rolling")
        page.evaluate("window.kept = true")
    expect(page.get_by_text("reconnecting (as of")).to_be_visible()
    expect(page.locator("[data-row]")).to_contain_text("Rolling")
    with served(first.port) as second:
        second.write(fleet=fleet(row("cart", "Done")))
        expect(page.locator("[data-row]")).to_contain_text("Done", timeout=20_000)
        assert page.evaluate("window.kept") is True
        context.close()


def _held(page: Page, dashboard: Dashboard, url: str) -> list[Route]:
    """Enter with the clock of the test; the requests of `url` from then on, which get no answer."""
    page.add_init_script("delete window.SharedWorker")  # its clock is another one
    page.clock.install()
    dashboard.write(fleet=fleet(row("cart")))
    with page.expect_response(lambda r: r.url.endswith("/session") and r.request.method == "GET"):
        enter(page, dashboard)
    held = list[Route]()

    def hold(route: Route) -> None:
        held.append(route)

    page.route(url, hold)
    return held


def test_a_server_that_hangs_is_no_live_one(page: Page, dashboard: Dashboard) -> None:
    """It takes connections and answers nothing, as after a laptop slept."""
    held = _held(page, dashboard, "**/api/v1/session")
    with page.expect_request("**/api/v1/session"):
        page.clock.fast_forward(40_000)
    page.clock.run_for(6_000)  # no stream is opened before it is known whether the session is good
    expect(page.get_by_text("reconnecting (as of")).to_be_visible()
    held[0].abort("timedout")
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()


def test_a_server_that_answers_slowly_is_waited_for(page: Page, dashboard: Dashboard) -> None:
    """For as long as for a ping, however old the last news are."""
    held = _held(page, dashboard, "**/api/v1/stream?*")
    with page.expect_request("**/api/v1/stream?*"):
        page.clock.fast_forward(40_000)
    for _ in range(3):
        page.clock.run_for(6_000)
        page.evaluate("fetch('/api/v1/session').then(() => null)")  # what a lost page does
    expect(page.get_by_text("reconnecting (as of")).to_be_visible()
    assert len(held) == 1
    held[0].continue_()
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()


def test_nothing_moves_for_who_wants_it_still(page: Page, dashboard: Dashboard) -> None:
    """Frames change what they show, and nothing runs between them."""
    page.emulate_media(reduced_motion="reduce")
    dashboard.write(fleet=fleet(row("cart", "Rolling")), pods=pods(300, 40, "Rolling"))
    for path in ("/", CART):
        enter(page, dashboard, path)
        dashboard.write(pods=pods(300, 60, "Rolling"))
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.evaluate("document.getAnimations().length") == 0


def test_a_session_that_ends_is_named_and_one_that_returns_shows_its_rows(browser: Browser) -> None:
    context = browser.new_context()
    page, failures = context.new_page(), list[str]()
    page.on("pageerror", lambda error: failures.append(str(error)))
    with served() as first:
        first.write(fleet=fleet(row("cart")))
        enter(page, first)
    (session,) = context.cookies()
    context.clear_cookies()
    with served(first.port) as second:
        second.write(fleet=fleet(row("cart", "Stuck")))
        expect(page.get_by_role("heading", name="No access")).to_be_visible(timeout=20_000)
        context.add_cookies(
            [{"name": session["name"], "value": session["value"], "url": second.base}]
        )
        expect(page.locator("[data-row]")).to_contain_text("Stuck", timeout=20_000)
    context.close()
    assert failures == []


def test_seven_tabs_are_live_over_one_stream(browser: Browser, dashboard: Dashboard) -> None:
    """A browser opens six connections to a server: the seventh tab would wait for ever."""
    dashboard.write(fleet=fleet(row("cart", "Rolling")))
    context = browser.new_context()
    tabs = [context.new_page() for _ in range(7)]
    for tab in tabs:
        enter(tab, dashboard)
    dashboard.write(fleet=fleet(row("cart", "Done")))
    for tab in tabs:
        expect(tab.locator("[data-row]")).to_contain_text("Done")
    context.close()


def test_a_unit_of_another_replica_is_named_with_it(page: Page, dashboard: Dashboard) -> None:
    unit = {"unit": "shop/x", "state": "Held", "message": "", "problems": [], "waits": "approval"}
    there = {**unit, "unit": "shop/y", "holder": "replica b_1, shard 2 of 4"}
    stale = "1 unit of shards of other replicas: as recorded on the status branch"
    dashboard.write(fleet=fleet(row("cart"), units=[unit, there], stale=[stale]))
    enter(page, dashboard)
    expect(page.get_by_text("Unit shop/x waits for approval")).to_be_visible()
    expect(
        page.get_by_text("Unit shop/y (replica b_1, shard 2 of 4) waits for approval")
    ).to_be_visible()
    expect(page.get_by_text(stale)).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", CART, "/events"])
def test_axe_finds_nothing(page: Page, dashboard: Dashboard, path: str, scheme: Any) -> None:
    unit = {"unit": "shop/x", "state": "Rejected", "message": "m", "problems": ["p"], "waits": ""}
    rows = [row(f"o{n}", state) for n, state in enumerate(("Stuck", "Held", "Rolling", "Drifted"))]
    dashboard.write(
        fleet=fleet(*rows, units=[unit]), pods=pods(),
        events={"a": event("a"), "b": event("b", type="Warning")},
    )  # fmt: skip
    page.emulate_media(color_scheme=scheme)
    enter(page, dashboard, path)
    expect(page.locator("tbody tr").first).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
@pytest.mark.parametrize("path", ["/", CART, "/events"])
def test_pages_fit_every_width(page: Page, dashboard: Dashboard, path: str, width: int) -> None:
    """Also with text at twice its size; tables scroll within themselves."""
    dashboard.write(fleet=fleet(row("cart", "Stuck", "m " * 80)), pods=pods(300, 40),
                    events={"a": event("a", message="m " * 80)})  # fmt: skip
    page.set_viewport_size({"width": width, "height": 800})
    enter(page, dashboard, path)
    expect(page.locator("tbody tr").first).to_be_visible()
    for size in ("100%", "200%"):
        page.evaluate("size => { document.documentElement.style.fontSize = size }", size)
        page.wait_for_function(
            "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )


def test_an_explanation_of_long_words_fits_a_narrow_page(page: Page, dashboard: Dashboard) -> None:
    """A subject of a commit, or the image that cannot be pulled."""
    long = "L" * 300
    dashboard.table.explained = {"commit": COMMIT, "subject": long, "reasons": [long]}
    dashboard.write(fleet=fleet(row("cart", "Stuck")), pods=pods())
    page.set_viewport_size({"width": 360, "height": 800})
    enter(page, dashboard, CART)
    expect(page.get_by_text(f'"{long}"')).to_be_visible()
    page.wait_for_function(
        "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )
