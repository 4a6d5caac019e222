"""Commits, the record and plan of one, drift and nodes in Chromium."""

from __future__ import annotations

from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from tests.dashboard.browser import Dashboard, enter
from tests.dashboard.record_scenes import (
    OLDER,
    commits,
    compared,
    diff,
    drift,
    finding,
    in_git,
    machines,
    nodes,
    plan,
    proposal,
    proposed,
    record,
    sidecars,
)
from tests.dashboard.scenes import COMMIT, event, fleet, pods, rollout, row

pytestmark = [pytest.mark.browser, pytest.mark.slow]
ONE = f"/commit/{COMMIT}"
MESH = "/sidecarset/mesh"
PULL = "/pr/shop/forge/42"
PAGES = ["/commits", ONE, PULL, "/drift", "/nodes", MESH]
HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>alert(1)</script>"


def write(dashboard: Dashboard, text: str | None = None) -> None:
    """Rows and answers of every page; `text` stands wherever others write."""
    words = [text] if text is not None else []
    lanes = {"subject": text, "author": text} if text is not None else {}
    dashboard.write(**{
        "fleet": fleet(row("cart", "Held")), "commits": commits(**lanes),
        f"commit/{COMMIT}": record(*words), "drift": drift(*words), "nodes": nodes(*words),
        f"pods{MESH}": sidecars(*words), "proposed": proposed(*words),
    })  # fmt: skip
    dashboard.table.answers = {
        f"commit/{COMMIT}": in_git(*words), f"plan/{COMMIT}": plan(*words),
        f"diff/{COMMIT}": diff(*words), "drift": compared(*words), "machines": machines(*words),
        f"commit{PULL}": proposal(*words), f"plan{PULL}": {**plan(*words), "live": True},
        f"diff{PULL}": diff(*words),
    }  # fmt: skip


def test_the_history_has_a_lane_for_each_unit_and_leads_to_a_commit(
    page: Page, dashboard: Dashboard
) -> None:
    write(dashboard)
    dashboard.write(proposed={})
    enter(page, dashboard, "/commits")
    lines = page.locator("tbody [data-row]")
    expect(lines).to_have_count(2)
    expect(lines.nth(0)).to_contain_text("cart v2")
    heads = page.locator(".commits thead th")
    assert heads.all_inner_texts()[3:] == ["prod shop/shop", "sandbox shop/shop"]
    expect(lines.nth(0).locator("td").nth(2)).to_contain_text("Rolling")
    expect(lines.nth(0).locator("td").nth(3)).to_contain_text("Held4/4applied")
    page.keyboard.press("/")
    page.keyboard.type("cart v1")
    expect(lines).to_have_count(1)
    expect(heads).to_have_count(4)  # lanes without a commit that is shown are left out
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Commit 8ab13d0")


def test_an_open_pull_request_leads_to_the_plan_of_its_merge(
    page: Page, dashboard: Dashboard
) -> None:
    write(dashboard)
    enter(page, dashboard, "/commits")
    pulls = page.get_by_role("region", name="Open pull requests into followed branches")
    expect(pulls.locator("tbody tr")).to_have_count(2)
    expect(pulls.locator("tbody tr").first).to_contain_text("#42cart: newer imagemaintopic-42")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page).to_have_url(dashboard.base + PULL)
    expect(page.get_by_role("heading", level=1)).to_contain_text("Pull request 42cart: newer image")
    expect(page.get_by_text("4f2c9e1 to be merged into main at 8ab13d0")).to_be_visible()
    expect(page.get_by_text("from git alone")).to_have_count(0)
    expect(page.get_by_role("link", name="on its forge")).to_have_attribute(
        "href", "https://forge.example/shop/pull/42"
    )
    expect(page.locator("article.entry").first).to_contain_text("~ CloneSet shop/cart")
    page.keyboard.press("d")
    expect(page.locator(".diff .added")).to_have_text("+image: v2\n")
    newer = proposed()
    newer[PULL[1:]]["head"] = OLDER
    dashboard.write(proposed=newer)
    expect(page.get_by_text("8ab13d0 was pushed meanwhile: plan again")).to_be_visible()
    dashboard.table.answers[f"commit{PULL}"] = proposal(id=OLDER)
    page.get_by_role("button", name="Plan again").click()
    expect(page.get_by_text("8ab13d0 to be merged into main")).to_be_visible()
    expect(page.get_by_text("was pushed meanwhile")).to_be_hidden()
    dashboard.write(proposed={})
    expect(page.get_by_text("not among the open pull requests: it was closed")).to_be_visible()


def test_a_list_of_pull_requests_says_what_it_is_of(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    place = {"owner": "shop/forge", "into": "", "units": ["shop/shop"]}

    def forge(problem: str) -> dict[str, Any]:
        return {"forge/shop/forge": {**place, "problem": problem}}

    dashboard.write(proposed=forge("not read yet"))
    enter(page, dashboard, "/commits")
    expect(page.get_by_role("heading", name="To be merged")).to_be_visible()
    expect(
        page.get_by_text("The open pull requests of shop/forge are not read yet")
    ).to_be_visible()
    dashboard.write(proposed={**proposed(), **forge("not read: connection refused")})
    expect(page.get_by_text("are not read: connection refused")).to_be_visible()
    dashboard.write(proposed=forge(""))
    expect(page.get_by_text("No pull request into a followed branch is open")).to_be_visible()
    dashboard.write(proposed={**proposed(), **forge("")})
    expect(page.get_by_text("No pull request into a followed branch")).to_be_hidden()


def test_a_branch_is_planned_by_its_name(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    branch = "branch/shop/src/team/new%20image"
    dashboard.table.answers[f"plan/{branch.replace('%20', ' ')}"] = plan()
    enter(page, dashboard, "/commits")
    page.get_by_label("Branch", exact=True).fill("team/new image")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{dashboard.base}/branch/shop/src/team%2Fnew%20image")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Branch team/new image")
    expect(page.locator("article.entry").first).to_contain_text("~ CloneSet shop/cart")
    dashboard.write(proposed={kind: {"owner": "", "into": "", "units": []}
                              for kind in ("pr", "branch")})  # fmt: skip
    page.goto(dashboard.base + "/commits")
    page.get_by_label("Branch, or number of a pull request").fill("#42")
    page.keyboard.press("Enter")
    expect(page).to_have_url(dashboard.base + "/pr/42")


def test_a_commit_has_its_record_and_its_plan(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    enter(page, dashboard, ONE)
    expect(page.get_by_role("heading", level=1)).to_contain_text("cart v2")
    expect(page.get_by_text("Approves 0123456789ab")).to_be_visible()
    expect(page.get_by_text("Looks right.")).to_be_visible()
    units = page.get_by_role("region", name="Units that name this commit")
    expect(units).to_contain_text("waits for approval")
    expect(units).to_contain_text("promotion: step 1 of 3")
    steps = page.get_by_role("region", name="Rollouts of this commit")
    expect(steps.get_by_role("link", name="cloneset/cart -n shop")).to_be_visible()
    expect(steps).to_contain_text("4/4 in 12s")
    expect(page.get_by_text("DriftCorrected")).to_be_visible()
    expect(page.get_by_text("planned")).to_contain_text("from git alone")
    expect(page.get_by_text("template.containers[app].image")).to_be_visible()
    expect(page.get_by_text("4/10 · 2 pods in place · ≈ 6s")).to_be_visible()
    expect(page.get_by_text("gitkruise plan 4f2c9e1", exact=True)).to_be_visible()
    dashboard.write(**{f"commit/{COMMIT}": {"": {**record()[""], "recorded": False}}})
    expect(page.get_by_text("No status branch names this commit")).to_be_visible()
    expect(steps).not_to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_diff_of_a_commit_is_a_tab_of_its_plan(
    page: Page, dashboard: Dashboard, scheme: Any
) -> None:
    write(dashboard)
    page.emulate_media(color_scheme=scheme)
    enter(page, dashboard, ONE)
    effects = page.get_by_role("tab", name="Effects")
    expect(effects).to_have_attribute("aria-selected", "true")
    effects.press("ArrowRight")
    expect(page.get_by_text("apps/cart.yaml:1 · 1 line added, 1 removed")).to_be_visible()
    expect(page.get_by_label("Diff of ~ CloneSet shop/cart")).to_contain_text("+image: v2")
    expect(page.get_by_role("tab", name="Diff")).to_be_focused()
    expect(page.get_by_text("4/10 · 2 pods in place")).not_to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.keyboard.press("d")
    expect(page.get_by_text("4/10 · 2 pods in place")).to_be_visible()


def test_a_commit_that_cannot_be_planned_says_why(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    del dashboard.table.answers[f"plan/{COMMIT}"]
    enter(page, dashboard, ONE)
    expect(page.get_by_text("No plan: the dashboard reads no repository")).to_be_visible()
    expect(page.get_by_text("gitkruise plan 4f2c9e1", exact=True)).to_be_visible()


def test_a_command_shows_what_it_would_do_and_does_not_do_it(
    page: Page, dashboard: Dashboard
) -> None:
    dashboard.write(fleet=fleet(row("cart", "Held")), pods=pods())
    diff = ["-  partition: 60%", "+  partition: 0"]
    foreseen = {"diff": diff, "plan": plan(), "at": "2026-11-25T10:06:00Z"}
    dashboard.table.answers["forecast/promote/cloneset/shop/cart"] = foreseen
    enter(page, dashboard, "/cloneset/shop/cart")
    preview = page.get_by_role("button", name="Preview promote")
    preview.click()
    expect(page.get_by_text("nothing is done")).to_be_visible()
    expect(page.get_by_label("Edit in git")).to_have_text("\n".join(diff))
    expect(page.get_by_text("4/10 · 2 pods in place · ≈ 6s")).to_be_visible()
    assert Axe().run(page).response["violations"] == []
    preview.focus()
    dashboard.table.explained = {"reasons": ["5 of 10 pods"]}
    dashboard.write(pods=pods(fresh=5))  # other reasons: the preview and the focus stay
    expect(page.get_by_text("5 of 10 pods")).to_be_visible()
    expect(page.get_by_text("nothing is done")).to_be_visible()
    expect(preview).to_be_focused()
    dashboard.table.answers.clear()
    preview.press("Enter")
    expect(page.get_by_text("No preview: the dashboard reads no repository")).to_be_visible()
    expect(preview).to_be_focused()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_slider_shows_what_another_partition_would_do(
    page: Page, dashboard: Dashboard, scheme: Any
) -> None:
    dashboard.write(fleet=fleet(row("cart", "Held")), pods=pods())
    foreseen = {"diff": ["+  partition: 50%"], "plan": plan(), "at": "2026-11-25T10:06:00Z"}
    lower = "gitkruise promote cloneset/cart -n shop --partition 50%"
    higher = "gitkruise hold cloneset/cart -n shop --partition 65%"
    about = "cloneset/shop/cart?partition="
    dashboard.table.answers = {
        f"forecast/promote/{about}50%": {**foreseen, "command": lower},
        f"forecast/hold/{about}65%": {**foreseen, "command": higher, "diff": ["+  partition: 65%"]},
    }
    page.emulate_media(color_scheme=scheme)
    enter(page, dashboard, "/cloneset/shop/cart")
    slider = page.get_by_role("slider", name="Pods that stay on the old revision")
    expect(slider).to_have_attribute("aria-valuetext", "60%, as it is now")
    slider.focus()
    for _ in range(2):
        page.keyboard.press("ArrowLeft")
    expect(slider).to_have_attribute("aria-valuetext", "50%, now 60%")
    expect(page.get_by_label("Edit in git")).to_have_text("+  partition: 50%")
    expect(page.get_by_text(lower, exact=True)).to_be_visible()
    expect(page.get_by_text("4/10 · 2 pods in place · ≈ 6s")).to_be_visible()
    dashboard.write(pods=pods(fresh=5))
    expect(page.get_by_text("5 of the newest revision")).to_be_visible()
    expect(slider).to_have_value("50")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    for _ in range(3):
        page.get_by_role("button", name="Higher partition").click()
    expect(page.get_by_text(higher, exact=True)).to_be_visible()
    page.get_by_role("button", name="Lower partition").click()
    expect(slider).to_have_attribute("aria-valuetext", "60%, as it is now")
    expect(page.get_by_label("Edit in git")).not_to_be_visible()
    dashboard.table.answers.clear()
    page.get_by_role("button", name="Lower partition").click()
    expect(page.get_by_text("No preview: the dashboard reads no repository")).to_be_visible()


@pytest.mark.parametrize(("noun", "gate", "text"), [
    ("statefulset", {"partition": "3"}, "3, as it is now"),
    ("deployment", {"partition": "0", "canary": "30%", "kept": 7}, "7, as it is now"),
])  # fmt: skip
def test_every_rollout_has_the_slider(
    page: Page, dashboard: Dashboard, noun: str, gate: dict[str, Any], text: str
) -> None:
    held = rollout(**gate)
    one = row("cart", "Held", noun=noun, rollout=held)
    place = f"{noun}/shop/cart"
    dashboard.write(**{"fleet": fleet(one), f"pods/{place}": pods(noun=noun, rollout=held)})
    enter(page, dashboard, f"/{place}")
    slider = page.get_by_role("slider", name="Pods that stay on the old revision")
    expect(slider).to_have_attribute("aria-valuetext", text)


def test_a_partition_that_cannot_be_read_has_no_slider(page: Page, dashboard: Dashboard) -> None:
    held = rollout(partition="many")
    dashboard.write(fleet=fleet(row("cart", "Held")), pods=pods(rollout=held))
    enter(page, dashboard, "/cloneset/shop/cart")
    expect(page.get_by_text("partition many")).to_be_visible()
    expect(page.get_by_role("slider", name="Pods that stay on the old revision")).to_be_hidden()


def test_a_plan_prints_dark_on_white_without_controls(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    page.emulate_media(color_scheme="dark")
    enter(page, dashboard, ONE)
    expect(page.get_by_role("button", name="Print")).to_be_visible()
    page.emulate_media(media="print")
    for name in ("Print", "Keys", "Copy gitkruise plan 4f2c9e1"):
        expect(page.get_by_role("button", name=name)).not_to_be_visible()
    ink = "getComputedStyle(document.body).color"
    assert page.evaluate(ink) == "rgb(0, 0, 0)"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    hidden = "[...document.querySelectorAll('.wide')].map(e => getComputedStyle(e).overflowX)"
    assert set(page.evaluate(hidden)) == {"visible"}
    assert page.pdf().startswith(b"%PDF")


def test_drift_is_compared_on_request(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    enter(page, dashboard, "/drift")
    recorded = page.get_by_role("region", name="Recorded drift that is not corrected")
    expect(recorded).to_contain_text("spec.replicas")
    expect(page.get_by_text("DriftCorrected")).to_be_visible()
    page.get_by_role("button", name="Compare now").press("Enter")
    expect(page.get_by_text("1 field differs from git: 7 objects compared")).to_be_visible()
    live = page.get_by_role("region", name="Fields that differ from git now")
    expect(live).to_contain_text("kubectl")
    dashboard.table.answers["drift"] = {**compared(), "items": []}
    page.get_by_role("button", name="Compare now").click()
    expect(page.get_by_text("nothing differs from git: 7 objects compared")).to_be_visible()
    expect(live).not_to_be_visible()


def test_a_unit_that_cannot_be_compared_hides_no_drift_of_others(
    page: Page, dashboard: Dashboard
) -> None:
    write(dashboard)
    broken = finding("broken/c.yaml: a sequence has no end")
    dashboard.table.answers["drift"] = {**compared(), "findings": [broken]}
    enter(page, dashboard, "/drift")
    page.get_by_role("button", name="Compare now").click()
    text = "1 field differs from git: 7 objects compared"
    expect(page.get_by_text(text)).to_be_visible()
    expect(page.get_by_text("error GK1001: broken/c.yaml")).to_contain_text("at apps/cart.yaml:3")
    assert Axe().run(page).response["violations"] == []


def test_nodes_with_failing_pods_come_first(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    enter(page, dashboard)
    page.keyboard.press("g")
    page.keyboard.press("n")
    lines = page.get_by_role("region", name="Nodes").locator("tbody tr")
    expect(lines).to_have_count(2)
    expect(lines.nth(0)).to_contain_text("shop/cart-1: image cannot be pulled")
    expect(lines.nth(0)).to_contain_text("1 newest")
    expect(lines.nth(1)).to_contain_text("5 Ready")
    texts = lines.nth(0).locator("td").all_inner_texts()[5:]
    assert texts == ["v1.35.1", "cordoned\nReady False: KubeletNotReady", "3 of 4 pulled, 1 failed"]
    expect(lines.nth(1)).to_contain_text("v1.35.1ready")
    page.get_by_role("searchbox").fill("failing")
    expect(lines).to_have_count(1)
    dashboard.table.answers["machines"] = {**machines(), "unread": ["jane may not list nodes"]}
    page.reload()
    expect(page.get_by_text("Not shown: jane may not list nodes")).to_be_visible()


def test_a_node_keeps_its_links_while_its_pods_change(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    enter(page, dashboard, "/nodes")
    link = page.get_by_role("link", name="cloneset/shop/cart").first
    link.focus()
    found = nodes()
    found["node-2"]["workloads"] = {"cloneset/shop/cart": 3, "cloneset/shop/web": 1}
    dashboard.write(nodes=found)
    expect(page.get_by_role("cell").filter(has_text="cloneset/shop/cart 3")).to_be_visible()
    expect(link).to_be_focused()
    found["node-2"]["workloads"] |= {f"cloneset/shop/w{n:02}": 1 for n in range(40)}
    dashboard.write(nodes=found)
    expect(page.get_by_text("… and 34 more workloads")).to_be_visible()
    page.get_by_role("searchbox").fill("w39")
    expect(page.get_by_role("rowheader")).to_have_text("node-2")


def test_the_slots_of_each_pod_of_a_sidecarset(page: Page, dashboard: Dashboard) -> None:
    write(dashboard)
    event_of = {"namespace": "shop", "object": "pod/b-both", "message": "empties slot A"}
    other = {"namespace": "batch", "object": "pod/b-both", "message": "another pod"}
    dashboard.write(events={"a": event("a", **event_of), "b": event("b", **other)})
    enter(page, dashboard, MESH)
    lines = page.get_by_role("region", name="Sidecars of sidecarset/mesh").locator("tbody tr")
    expect(lines).to_have_count(3)
    texts = lines.nth(0).locator("th, td").all_inner_texts()
    assert texts[0] == "shop/b-both"
    assert texts[3:6] == ["envoy:1.31 not working", "envoy:1.32 working", "both slots run"]
    expect(lines.nth(1)).to_contain_text("differs in more than images until replaced")
    expect(lines.nth(2)).to_contain_text("empty:1 placeholder")
    text = "3 pods · 1 on an older revision · 1 that cannot follow or are left out"
    expect(page.get_by_text(text)).to_be_visible()
    expect(page.get_by_text("A hot upgrade takes three steps")).to_be_visible()
    expect(page.get_by_text("empties slot A")).to_be_visible()
    expect(page.get_by_text("another pod")).not_to_be_visible()
    page.get_by_role("searchbox").fill("1.31 not")
    expect(lines).to_have_count(1)


def test_text_of_others_stays_text_here(page: Page, dashboard: Dashboard) -> None:
    write(dashboard, HOSTILE)
    for path in PAGES:
        enter(page, dashboard, path)
        if path == "/drift":
            page.get_by_role("button", name="Compare now").click()
            expect(page.get_by_text("7 objects compared")).to_be_visible()
        if path == ONE:
            page.get_by_role("tab", name="Diff").click()
            expect(page.get_by_label("Diff of")).to_contain_text("onerror")
        expect(page.get_by_text("onerror").locator("visible=true").first).to_be_visible()
        assert page.locator("main img, main script").count() == 0
        assert "owned" not in page.title()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_here(page: Page, dashboard: Dashboard, path: str, scheme: Any) -> None:
    write(dashboard)
    page.emulate_media(color_scheme=scheme)
    enter(page, dashboard, path)
    expect(page.locator("tbody tr").first).to_be_visible()
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
@pytest.mark.parametrize("path", PAGES)
def test_these_pages_fit_every_width(
    page: Page, dashboard: Dashboard, path: str, width: int
) -> None:
    write(dashboard, "m " * 80)
    page.set_viewport_size({"width": width, "height": 800})
    enter(page, dashboard, path)
    expect(page.locator("tbody tr").first).to_be_visible()
    for size in ("100%", "200%"):
        page.evaluate("size => { document.documentElement.style.fontSize = size }", size)
        page.wait_for_function(
            "() => document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )


@pytest.mark.parametrize("media", ["screen", "print"])
@pytest.mark.parametrize("path", ["/commits", ONE, "/drift"])
def test_a_long_word_pushes_no_column_out_of_the_page(
    page: Page, dashboard: Dashboard, path: str, media: Any
) -> None:
    """The digest of an image, or a value without blanks."""
    write(dashboard, "L" * 300)
    page.set_viewport_size({"width": 1280 if media == "screen" else 800, "height": 800})
    enter(page, dashboard, path)
    expect(page.locator("tbody tr").first).to_be_visible()
    page.emulate_media(media=media)
    page.wait_for_function(
        """() => [...document.querySelectorAll(".wide")].every(
          (wide) => wide.scrollWidth <= wide.clientWidth
        )"""
    )
