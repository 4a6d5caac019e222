"""A plan shows what changes where, which pods move and how, and what holds them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.calls import Caller
from tests.cli.shop import CONFIG_MAP, Checkout, cloneset
from tests.git.repos import run_git

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
Golden = Callable[[str, str], None]
CONFIGURED = CONFIG_MAP.replace("old-flags", "flags")

# before → after, by what the change teaches
CHANGES = {
    "canary": (cloneset("v1"), cloneset("v2", partition="60%")),
    "in-place": (cloneset("v1"), cloneset("v2")),
    "recreate-by-env": (cloneset("v1"), cloneset("v1", level="debug")),
    "recreate-by-policy": (cloneset("v1", policy="ReCreate"), cloneset("v2", policy="ReCreate")),
    "scale": (cloneset("v1"), cloneset("v1", replicas=13)),
    "raised-partition": (cloneset("v1"), cloneset("v1", partition="40%")),
    "lowered-partition": (cloneset("v1", partition="60%"), cloneset("v1", partition=0)),
    "creation": (None, cloneset("v1", partition=5)),
    "deletion": (cloneset("v1"), None),
    "many-steps": (cloneset("v1", replicas=28), cloneset("v2", replicas=28)),
}


WIDE = {"canary", "recreate-by-env"}  # the others are no wider than 80


@pytest.mark.parametrize("name", CHANGES)
def test_text_at_80_and_120_columns(
    gk: Caller, checkout: Checkout, golden: Golden, name: str
) -> None:
    before, after = CHANGES[name]
    checkout.commit("before", {"flags.yaml": CONFIGURED, **({"c.yaml": before} if before else {})})
    checkout.commit(name, {"c.yaml": after, "flags.yaml": CONFIGURED.replace('"on"', '"off"')})
    texts = []
    for columns in ("80", "120") if name in WIDE else ("80",):
        ended = gk("plan", cwd=checkout.folder, COLUMNS=columns)
        assert (ended.code, ended.err) == (0, "")
        assert max(map(len, ended.out.splitlines())) <= int(columns)
        texts.append(f"## {columns} columns\n{ended.out}")
    golden(f"cli-plan/{name}.txt", "\n".join(texts))


def test_json_has_changes_and_steps(gk: Caller, checkout: Checkout) -> None:
    first = checkout.commit("before", {"c.yaml": CHANGES["canary"][0]})
    second = checkout.commit("after", {"c.yaml": CHANGES["canary"][1]})
    plan = gk("plan", "-o", "json", cwd=checkout.folder).obj
    assert (plan["from"], plan["to"], plan["live"]) == (first, second, False)
    assert [c["change"] for c in plan["changes"]] == ["configure"]
    (rollout,) = plan["rollouts"]
    assert (rollout["hold"], rollout["updatedAfter"], len(rollout["steps"])) == (
        "PartitionReached", 4, 2,
    )  # fmt: skip


def test_comments_and_pages_show_the_same(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("before", {"c.yaml": CHANGES["canary"][0]})
    checkout.commit("after", {"c.yaml": CHANGES["canary"][1]})
    for form, start in (("markdown", "### gitkruise plan `"), ("html", "<!doctype html>")):
        ended = gk("plan", "-o", form, "--exit-code", cwd=checkout.folder, LC_ALL="C")
        assert (ended.code, ended.err) == (1, "")
        assert ended.out.startswith(start)
        assert "4 pods restarted in place" in ended.out
        assert "0 → 60%" in ended.out


def test_a_secret_shows_that_it_changed_and_not_what(gk: Caller, checkout: Checkout) -> None:
    secret = (
        "apiVersion: v1\nkind: Secret\nmetadata: {name: s, namespace: shop}\nstringData: {p: %s}\n"
    )
    checkout.commit("a", {"s.yaml": secret % "hunter2"})
    checkout.commit("b", {"s.yaml": secret % "hunter3"})
    for form in ("text", "json", "markdown", "html"):
        ended = gk("plan", "-o", form, cwd=checkout.folder)
        assert "hunter" not in ended.out
        assert "data" in ended.out


@pytest.fixture
def history(checkout: Checkout) -> list[str]:
    return [checkout.commit(v, {"c.yaml": cloneset(v)}) for v in ("v1", "v2", "v3")]


RANGES = [
    ([], (1, 2)), (["HEAD"], (1, 2)), (["HEAD~1"], (0, 1)), (["HEAD~2"], (None, 0)),
    (["HEAD~2..HEAD"], (0, 2)), (["--from", "HEAD~2", "--to", "main"], (0, 2)),
    (["--from", "HEAD~2"], (0, 2)), (["..HEAD~1"], (0, 1)),
]  # fmt: skip


@pytest.mark.parametrize(("words", "pair"), RANGES, ids=[" ".join(r[0]) for r in RANGES])
def test_ranges(
    gk: Caller,
    checkout: Checkout,
    history: list[str],
    words: list[str],
    pair: tuple[int | None, int],
) -> None:
    plan = gk("plan", *words, "-o", "json", cwd=checkout.folder).obj
    base = None if pair[0] is None else history[pair[0]]
    assert (plan["from"], plan["to"]) == (base, history[pair[1]])


def test_a_branch_is_planned_against_the_followed_one(
    gk: Caller, checkout: Checkout, history: list[str]
) -> None:
    run_git(checkout.folder, "checkout", "-q", "-b", "canary")
    checkout.commit("a", {"c.yaml": cloneset("v4")})
    tip = checkout.commit("b", {"c.yaml": cloneset("v5")})
    plan = gk("plan", "-o", "json", cwd=checkout.folder).obj
    assert (plan["from"], plan["to"]) == (history[2], tip)
    run_git(checkout.folder, "checkout", "-q", "--detach")  # as most CI systems check out
    plan = gk("plan", "-o", "json", cwd=checkout.folder).obj
    assert (plan["from"], plan["to"]) == (history[2], tip)


def test_the_followed_branch_is_that_of_the_configuration(gk: Caller, checkout: Checkout) -> None:
    text = (ROOT / "examples-repo/gitkruise.yaml").read_text().replace("main", "release")
    files: dict[str, str | None] = {
        "gitkruise.yaml": text,
        "apps/c.yaml": cloneset("v1"),
        "mesh/m.yaml": "",
        "batch/b.yaml": "",
    }
    base = checkout.commit("base", files)
    run_git(checkout.folder, "branch", "-q", "release")
    checkout.commit("a", {"apps/c.yaml": cloneset("v4")})
    tip = checkout.commit("b", {"apps/c.yaml": cloneset("v5")})
    plan = gk("plan", "-o", "json", cwd=checkout.folder).obj
    assert (plan["from"], plan["to"]) == (base, tip)


def test_the_working_tree_is_planned_and_left_alone(
    gk: Caller, checkout: Checkout, history: list[str]
) -> None:
    checkout.write({"c.yaml": cloneset("v9"), "new.yaml": CONFIG_MAP})
    status = run_git(checkout.folder, "status", "--porcelain")
    refs = run_git(checkout.folder, "for-each-ref")
    plan = gk("plan", "--include-dirty", "-o", "json", cwd=checkout.folder).obj
    assert plan["from"] == history[2]
    assert [(c["change"], c["name"]) for c in plan["changes"]] == [
        ("configure", "checkout"),
        ("create", "old-flags"),
    ]
    assert run_git(checkout.folder, "status", "--porcelain") == status
    assert run_git(checkout.folder, "for-each-ref") == refs


def test_a_named_commit_does_not_mind_a_dirty_tree(
    gk: Caller, checkout: Checkout, history: list[str]
) -> None:
    checkout.write({"c.yaml": cloneset("v9")})
    assert gk("plan", "HEAD", cwd=checkout.folder).code == 0


def test_what_the_working_tree_deletes_is_deleted_in_no_commit(
    gk: Caller, checkout: Checkout, history: list[str]
) -> None:
    checkout.commit("more", {"d.yaml": cloneset(name="other")})
    (checkout.folder / "d.yaml").unlink()
    ended = gk("plan", "--include-dirty", cwd=checkout.folder)
    assert "deleted in the working tree" in ended.out


def test_it_works_from_a_folder_below(gk: Caller, checkout: Checkout, history: list[str]) -> None:
    below = checkout.folder / "docs"
    below.mkdir()
    assert gk("plan", cwd=below).code == 0
    assert gk("plan", "HEAD", cwd=below).code == 0


@pytest.mark.slow
def test_pods_have_names_when_a_cluster_is_given(
    gk: Caller, checkout: Checkout, cluster: Path
) -> None:
    from tests.cli.live import applied  # noqa: PLC0415

    checkout.commit("before", {"c.yaml": cloneset("v1", name="named")})
    checkout.commit("after", {"c.yaml": cloneset("v2", name="named", partition=7)})
    with applied(cluster, cloneset("v1", name="named")):
        wait = ["named", "-n", "shop", "-w", "--exit-when-done", "--timeout", "60s"]
        assert gk("get", "rollout", *wait, KUBECONFIG=str(cluster)).code == 0
        ended = gk("plan", "--kubeconfig", str(cluster), cwd=checkout.folder)
        pods = gk("get", "pods", "named", "-n", "shop", "-o", "json", KUBECONFIG=str(cluster)).obj
    names = {f"-{pod['name'].removeprefix('named-')}" for pod in pods["items"]}
    named = {word for word in ended.out.split() if word in names}
    assert len(named) == 3
    assert "live objects of cluster sandbox" in ended.out


REFUSED = [
    ("GK2104", cloneset(policy="InPlaceOnly"), cloneset(policy="InPlaceOnly", level="debug"),
     "apps/c.yaml:21:22", "was info"),
    ("GK2201", cloneset(), cloneset().replace("app: checkout", "app: other"),
     "apps/c.yaml:8:3", "the live object has app=checkout"),
]  # fmt: skip


@pytest.mark.parametrize("row", REFUSED, ids=[row[0] for row in REFUSED])
def test_a_change_no_cluster_takes_is_refused_with_its_line(
    gk: Caller, checkout: Checkout, row: tuple[str, ...]
) -> None:
    code, before, after, place, label = row
    checkout.commit("one", {"apps/c.yaml": before})
    checkout.commit("two", {"apps/c.yaml": after})
    ended = gk("plan", "--offline", cwd=checkout.folder)
    assert ended.code == 3
    assert f"error[{code}]" in ended.err
    assert f"--> {place}" in ended.err
    assert label in ended.err


def test_a_broken_file_is_reported_with_what_stayed_and_what_to_do(
    gk: Caller, checkout: Checkout
) -> None:
    checkout.commit("one", {"apps/c.yaml": cloneset()})
    checkout.commit("two", {"apps/c.yaml": cloneset().replace("image: ", "image:")})
    ended = gk("plan", "--offline", cwd=checkout.folder)
    assert (ended.code, ended.out) == (3, "")
    assert ended.err.startswith("error[GK1101]: this is not valid YAML")
    assert ended.err.splitlines()[-2:] == [
        "   = unchanged: nothing was planned, and a plan applies nothing",
        "   = next: gitkruise validate apps/c.yaml",
    ]


LIMITS: list[tuple[str, int, int, str]] = [
    # the unit's prune block, objects, how many of them leave, what the plan says first
    ("", 10, 4, "4 of 10 objects of unit default/web WAIT FOR APPROVAL, limit 3"),
    ("", 10, 3, "3 objects DELETED (ConfigMap default/c0, ConfigMap default/c1, "),
    ("maxDeletePercent: 50", 10, 4, "4 objects DELETED"),
    ("enabled: false", 10, 1,
     "1 object of unit default/web left git and STAYS: prune.enabled is off"),
]  # fmt: skip


@pytest.mark.parametrize("row", LIMITS, ids=[f"{r[0] or 'default'} {r[2]}" for r in LIMITS])
def test_deletions_that_wait_for_a_person_are_listed_first(
    gk: Caller, checkout: Checkout, row: tuple[str, int, int, str]
) -> None:
    prune, many, gone, text = row
    head = "apiVersion: gitkruise.io/v1alpha1\n"
    config = (
        f"{head}kind: GitSource\nmetadata: {{name: src}}\nspec: {{url: .}}\n---\n"
        f"{head}kind: Unit\nmetadata: {{name: web}}\n"
        f"spec: {{sourceRef: {{name: src}}, path: app, prune: {{{prune}}}}}\n"
    )
    files: dict[str, str | None] = {
        f"app/c{n}.yaml": f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\n"
        for n in range(many)
    }
    checkout.commit("before", {"gitkruise.yaml": config, "app/README.md": "words", **files})
    checkout.commit("after", dict.fromkeys(list(files)[:gone]))
    blast = gk("plan", "-o", "json", cwd=checkout.folder).obj["blast"]
    assert blast[0].startswith(text)
    assert any("DELETED" in line for line in blast) == ("STAY" not in text)


UNIT = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src}
spec: {url: .}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web}
spec: {sourceRef: {name: src}, path: app}
"""


def test_the_only_object_of_a_unit_may_be_renamed(gk: Caller, checkout: Checkout) -> None:
    """The controller deletes it: the unit is not empty."""
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\n"
    checkout.commit("before", {"gitkruise.yaml": UNIT, "app/c.yaml": manifest})
    checkout.commit("after", {"app/c.yaml": manifest.replace("old", "new")})
    blast = gk("plan", "-o", "json", cwd=checkout.folder).obj["blast"]
    assert blast == ["1 object DELETED (ConfigMap default/old)"]


def test_volumes_that_go_with_an_object_are_named_first(gk: Caller, checkout: Checkout) -> None:
    claims = "  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {}\n"
    files: dict[str, str | None] = {
        "app/c.yaml": cloneset("v1") + claims,
        "app/a.yaml": cloneset("v1", name="a"),
        "app/b.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n",
    }
    checkout.commit("before", {"gitkruise.yaml": UNIT, **files})
    checkout.commit("after", {"app/c.yaml": None, "app/a.yaml": None})
    report = gk("plan", "-o", "json", cwd=checkout.folder).obj
    loss = "deleting it would delete the volumes of its pods"
    assert report["blast"][0] == f"1 object of unit default/web WAITS FOR APPROVAL: {loss}"
    notes = [note for change in report["changes"] for note in change.get("notes", [])]
    assert f"waits for approval: {loss}" in notes


GOOD = cloneset("v1")
INVALID: dict[str, dict[str, str | None]] = {
    "selector": {"c.yaml": GOOD.replace("      app: checkout\n  temp", "      app: x\n  temp")},
    "unknown field": {"c.yaml": GOOD.replace("replicas", "replicsa")},
    "no YAML": {"c.yaml": "a: ["},
    "twice": {"c.yaml": GOOD, "d.yaml": GOOD},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", INVALID)
def test_a_commit_after_an_invalid_one_starts_from_the_last_valid_one(
    gk: Caller, checkout: Checkout, name: str
) -> None:
    checkout.commit("good", {"c.yaml": GOOD})
    bad = checkout.commit("bad", INVALID[name])
    fixed: dict[str, str | None] = {"c.yaml": cloneset("v2", partition="60%")}
    checkout.commit("fix", {**fixed, **({"d.yaml": None} if "d.yaml" in INVALID[name] else {})})
    ended = gk("plan", "-o", "json", cwd=checkout.folder)
    assert (ended.code, ended.err) == (0, "")
    (change,) = ended.obj["changes"]
    assert change["change"] == "configure"
    assert ended.obj["rollouts"][0]["updatedAfter"] == 4
    assert [f["code"] for f in ended.obj["findings"]] == ["GK2108"]
    assert bad[:7] in ended.obj["findings"][0]["message"]
    acted = gk("promote", "checkout", "--print", cwd=checkout.folder)
    assert (acted.code, "API server" in acted.err) == (0, False)


def test_a_commit_after_none_that_is_valid_starts_from_nothing(
    gk: Caller, checkout: Checkout
) -> None:
    checkout.commit("bad", INVALID["selector"])
    checkout.commit("fix", {"c.yaml": GOOD})
    ended = gk("plan", "-o", "json", cwd=checkout.folder)
    assert [c["change"] for c in ended.obj["changes"]] == ["create"]
    assert "starts from nothing" in ended.obj["findings"][0]["message"]


def test_a_broken_configuration_of_the_parent_ends_no_plan(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("bad", {"c.yaml": GOOD, "gitkruise.yaml": "kind: ["})
    checkout.commit("fix", {"c.yaml": cloneset("v2"), "gitkruise.yaml": None})
    ended = gk("plan", "-o", "json", cwd=checkout.folder)
    assert ended.code == 0
    assert "configuration" in ended.obj["findings"][0]["message"]


def test_a_version_that_nothing_knows_is_not_simulated(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("one", {"c.yaml": GOOD})
    checkout.commit("two", {"c.yaml": cloneset("v2").replace("/v1alpha1", "/v2alpha1")})
    ended = gk("plan", "-o", "json", cwd=checkout.folder)
    assert (ended.code, [f["code"] for f in ended.obj["findings"]]) == (0, ["GK2109"])


def test_a_rollout_from_a_version_that_nothing_knows_is_not_simulated(
    gk: Caller, checkout: Checkout
) -> None:
    checkout.commit("one", {"c.yaml": GOOD.replace("/v1alpha1", "/v2alpha1")})
    checkout.commit("two", {"c.yaml": cloneset("v2")})
    ended = gk("plan", "-o", "json", cwd=checkout.folder)
    plan = ended.obj
    assert (ended.code, [f["code"] for f in plan["findings"]]) == (0, ["GK2109"])
    assert "v2alpha1" in plan["findings"][0]["message"]
    assert plan["totals"]["pods"]["added"] == 0
    assert plan["rollouts"] == []
    assert [c["unknown"] for c in plan["changes"]] == ["version v2alpha1 is unknown here"]
    text = gk("plan", cwd=checkout.folder).out
    assert "unknown: version v2alpha1 is unknown here" in text
    assert "effect of 1 object on pods unknown (CloneSet shop/checkout)" in text
    assert "no pod restarts" not in text


FOREIGN = """apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: r, namespace: shop}
spec: {replicas: %d}
"""


def test_what_only_a_foreign_controller_knows_is_named_as_unknown(
    gk: Caller, checkout: Checkout
) -> None:
    checkout.commit("one", {"r.yaml": FOREIGN % 3})
    checkout.commit("two", {"r.yaml": FOREIGN % 5, "flags.yaml": CONFIG_MAP})
    plan = gk("plan", "-o", "json", cwd=checkout.folder).obj
    unknown = {c["kind"]: c["unknown"] for c in plan["changes"]}
    assert unknown == {"Rollout": "the controller of Rollout decides", "ConfigMap": ""}
    for form in ("text", "markdown", "html"):
        text = gk("plan", "-o", form, cwd=checkout.folder).out
        assert "effect of 1 object on pods unknown" in text
        assert "no pod restarts" not in text


@pytest.fixture
def diverged(checkout: Checkout) -> Checkout:
    """`canary` changes the image; `main` went on with a ConfigMap and other files since."""
    checkout.commit("base", {"c.yaml": GOOD})
    run_git(checkout.folder, "checkout", "-q", "-b", "canary")
    checkout.commit("canary", {"c.yaml": cloneset("v2", partition="60%")})
    run_git(checkout.folder, "checkout", "-q", "main")
    checkout.commit("flags", {"flags.yaml": CONFIG_MAP})
    return checkout


@pytest.mark.slow
@pytest.mark.parametrize("words", [["main..canary"], ["main...canary"], []], ids=str)
def test_a_branch_that_is_behind_is_planned_as_merged(
    gk: Caller, diverged: Checkout, words: list[str]
) -> None:
    if not words:
        run_git(diverged.folder, "checkout", "-q", "canary")
    refs = run_git(diverged.folder, "for-each-ref")
    ended = gk("plan", *words, "-o", "json", cwd=diverged.folder)
    assert (ended.code, ended.err) == (0, "")
    changed = [(c["change"], c["name"]) for c in ended.obj["changes"]]
    assert changed == [("configure", "checkout")]
    assert ended.obj == gk("plan", *words, "-o", "json", cwd=diverged.folder).obj
    assert run_git(diverged.folder, "for-each-ref") == refs
    assert run_git(diverged.folder, "status", "--porcelain") == ""


def test_two_commits_are_compared_as_they_are_on_request(gk: Caller, diverged: Checkout) -> None:
    plan = gk("plan", "--from", "main", "--to", "canary", "-o", "json", cwd=diverged.folder).obj
    assert {c["change"] for c in plan["changes"]} == {"configure", "prune"}


def test_a_branch_with_nothing_of_its_own_has_nothing_to_merge(
    gk: Caller, checkout: Checkout, history: list[str]
) -> None:
    run_git(checkout.folder, "checkout", "-q", "-b", "old", "HEAD~1")
    for words in (["main..old"], ["main...old"]):
        plan = gk("plan", *words, "-o", "json", cwd=checkout.folder).obj
        assert [f["code"] for f in plan["findings"]] == ["GK3213"]
        assert not [c for c in plan["changes"] if c["change"] != "unchanged"]
    plan = gk("plan", "-o", "json", cwd=checkout.folder).obj
    assert (plan["from"], plan["to"]) == (history[0], history[1])


def test_a_branch_that_conflicts_has_no_plan(gk: Caller, diverged: Checkout) -> None:
    diverged.commit("other", {"c.yaml": cloneset("v3")})
    ended = gk("plan", "main..canary", cwd=diverged.folder)
    assert (ended.code, ended.out) == (4, "")
    assert "error[GK3212]" in ended.err
    assert "c.yaml" in ended.err
    assert "unchanged" in ended.err


def test_a_merge_runs_no_driver_of_the_repository(
    gk: Caller, diverged: Checkout, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    diverged.commit("attributes", {".gitattributes": "*.yaml merge=x\n"})
    diverged.commit("other", {"c.yaml": cloneset("v1", replicas=11)})
    run_git(diverged.folder, "config", "merge.x.driver", f"touch {ran}")
    assert gk("plan", "main..canary", cwd=diverged.folder).code in {0, 4}
    assert not ran.exists()
