"""promote, hold, pause, resume, rollback: what each shows, commits, and refuses."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

from gitkruise.model.gitops.unit_state import State
from tests.cli.calls import Caller, Ended, Terminal, environment
from tests.cli.live import applied, apply
from tests.cli.shop import CHECKOUT, Checkout, cloneset, nowhere, unit_record
from tests.git.keys import ssh_key
from tests.git.repos import ENV, Origin, make_origin, run_git

FILE = "apps/checkout.yaml"
CANARY = cloneset("v2", partition="60%  # a canary")
WHO = {name: value for name, value in ENV.items() if name.startswith("GIT_")}
ActionRequest = Callable[..., Ended]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    """A first release, and a canary of it held at 60 %."""
    origin = make_origin(tmp_path_factory.mktemp("origin"))
    origin.commit({FILE: cloneset("v1")}, "first release")
    origin.commit({FILE: CANARY}, "checkout v2, partition 60%")
    run_git(origin.work, "fetch", "-q")
    return origin


@pytest.fixture
def origin(made: Origin, tmp_path: Path) -> Origin:
    """One of its own for each test."""
    folder = tmp_path / "git"
    shutil.copytree(made.bare.parent, folder)
    config = folder / "work" / ".git" / "config"
    config.write_text(config.read_text().replace(str(made.bare), str(folder / "origin.git")))
    return Origin(folder / "origin.git", folder / "work")


@pytest.fixture
def act(gk: Caller, origin: Origin) -> ActionRequest:
    """A command line in the checkout, with a git identity."""

    def run(*words: str, cwd: Path = origin.work, **env: str) -> Ended:
        return gk(*words, cwd=cwd, COLUMNS="100", **WHO, **env)

    return run


def tip(where: Path, ref: str = "main") -> str:
    return run_git(where, "rev-parse", ref)


SHOWN = {
    "promote-to-30": ["promote", "checkout", "--partition", "30%"],
    "promote-to-a-number": ["promote", "cs/checkout", "-n", "shop", "--partition", "3"],
    "promote-all": ["promote", "cloneset/checkout"],
    "hold-at-80": ["hold", "checkout", "--partition", "80%"],
    "pause": ["pause", "checkout"],
    "rollback": ["rollback", "checkout"],
    "rollback-to": ["rollback", "checkout", "--to", "HEAD~1"],
}
QUICK = {"promote-to-30", "rollback"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in SHOWN]
)
def test_diff_and_plan_are_shown_and_nothing_is_done(
    act: ActionRequest, origin: Origin, name: str, golden: Callable[[str, str], None]
) -> None:
    before = run_git(origin.bare, "show-ref")
    ended = act(*SHOWN[name], "--print")
    assert (ended.code, ended.err) == (0, "")
    golden(f"cli-acts/{name}.txt", re.sub(r"\b[0-9a-f]{7}\b", "COMMIT", ended.out))
    assert run_git(origin.bare, "show-ref") == before
    assert run_git(origin.work, "status", "--porcelain") == ""


def test_a_commit_moves_branch_remote_and_checkout_by_one_line(
    act: ActionRequest, origin: Origin
) -> None:
    ended = act("promote", "checkout", "--partition", "30%", "--yes")
    assert ended.code == 0
    assert tip(origin.work) == tip(origin.bare) == tip(origin.work, "origin/main")
    assert run_git(origin.work, "status", "--porcelain") == ""
    assert (origin.work / FILE).read_text() == CANARY.replace("60%", "30%")
    message = run_git(origin.bare, "log", "-1", "--format=%an|%s|%(trailers)", "main")
    assert message.splitlines() == [
        "Dana K|checkout: promote to partition 30%|Gitkruise-Action: promote",
        "Gitkruise-Object: CloneSet shop/checkout",
    ]
    assert re.search(
        r"✓ \w{7} on main, pushed to origin: checkout: promote to partition 30%\n", ended.err
    )
    assert "next: gitkruise wait --commit" in ended.err  # no configuration names a unit


@pytest.mark.slow
def test_a_pull_request_gets_a_branch_of_its_own(act: ActionRequest, origin: Origin) -> None:
    old = tip(origin.bare)
    ended = act("rollback", "checkout", "--pr", "-m", "checkout: back to v1")
    assert ended.code == 0
    branch = f"gitkruise/rollback-checkout-{old[:7]}"
    assert f"open a pull request from {branch} into main" in ended.err
    assert (tip(origin.bare), tip(origin.bare, f"{branch}~1")) == (old, old)
    assert run_git(origin.bare, "log", "-1", "--format=%s", branch) == "checkout: back to v1"
    assert tip(origin.work) == old
    assert act("rollback", "checkout", "--branch", "undo").code == 0
    assert tip(origin.bare, "undo~1") == old


@pytest.mark.slow
def test_the_same_act_again_goes_on_with_its_branch(act: ActionRequest, origin: Origin) -> None:
    old = tip(origin.bare)
    branch = f"gitkruise/promote-checkout-{old[:7]}"
    assert act("promote", "checkout", "--partition", "30%", "--pr").code == 0
    first = tip(origin.bare, branch)
    assert act("promote", "checkout", "--partition", "30%", "--pr").code == 0
    assert tip(origin.bare, branch) == first
    assert act("promote", "checkout", "--partition", "20%", "--pr").code == 0
    assert tip(origin.bare, f"{branch}~1") == first
    text = run_git(origin.bare, "show", f"{branch}:{FILE}") + "\n"
    assert text == CANARY.replace("60% ", "20% ")
    run_git(origin.work, "fetch", "-q")
    run_git(origin.work, "checkout", "-q", "--detach", f"origin/{branch}")
    run_git(origin.work, "commit", "-q", "--allow-empty", "-m", "somebody else's")
    run_git(origin.work, "push", "-q", "origin", f"HEAD:refs/heads/{branch}")
    run_git(origin.work, "checkout", "-q", "main")
    again = act("promote", "checkout", "--partition", "10%", "--pr")
    assert (again.code, "GK3209" in again.err, "--branch" in again.err) == (4, True, True)
    assert run_git(origin.bare, "log", "-1", "--format=%s", branch) == "somebody else's"


@pytest.mark.slow
def test_a_rollback_names_what_it_undoes(act: ActionRequest, origin: Origin) -> None:
    bad = tip(origin.bare)
    assert act("rollback", "checkout", "--yes").code == 0
    body = run_git(origin.bare, "log", "-1", "--format=%b", "main")
    assert f"Gitkruise-Rollback-Of: {bad}" in body
    assert 'Back to "first release"' in body
    text = CANARY.replace("v2", "v1").replace("60% ", "0   ")
    assert run_git(origin.bare, "show", f"main:{FILE}") + "\n" == text


@pytest.mark.slow
def test_a_bare_repository_and_one_without_a_remote(
    act: ActionRequest, origin: Origin, checkout: Checkout
) -> None:
    checkout.commit("one", {FILE: cloneset("v1")})
    checkout.commit("two", {FILE: CANARY})
    for where in (origin.bare, checkout.folder):
        ended = act("promote", "checkout", "--yes", "--repo", str(where), "-o", "json")
        assert ended.obj["remote"] == ""
        assert tip(where) == ended.obj["commit"]
    assert run_git(checkout.folder, "status", "--porcelain") == ""


@pytest.mark.slow
def test_from_another_branch_the_checkout_stays_as_it_is(
    act: ActionRequest, origin: Origin
) -> None:
    run_git(origin.work, "checkout", "-q", "-b", "feature")
    (origin.work / FILE).write_text("# in the middle of something\n")
    config = "apiVersion: gitkruise.io/v1alpha1\nkind: GitSource\nmetadata: {name: s}\n"
    config += "spec: {url: ., ref: {branch: main}}\n---\napiVersion: gitkruise.io/v1alpha1\n"
    config += "kind: Unit\nmetadata: {name: u}\nspec: {sourceRef: {name: s}, path: apps}\n"
    file = origin.work.parent / "gitkruise.yaml"
    file.write_text(config)
    ended = act("promote", "checkout", "--yes", "--config", str(file))
    assert (ended.code, tip(origin.work)) == (0, tip(origin.bare, "main~1"))
    assert (origin.work / FILE).read_text() == "# in the middle of something\n"


@pytest.mark.slow
def test_json_is_one_versioned_object(act: ActionRequest, origin: Origin) -> None:
    shown = act("promote", "checkout", "--partition", "2", "--print", "-o", "json").obj
    assert (shown["apiVersion"], shown["kind"]) == ("gitkruise.io/v1alpha1", "Action")
    assert (shown["pushed"], shown["commit"], shown["branch"]) == (False, "", "main")
    assert "+    partition: 2" in shown["diff"]
    (rollout,) = shown["plan"]["rollouts"]
    assert (rollout["updatedBefore"], rollout["updatedAfter"], rollout["hold"]) == (
        4, 8, "PartitionReached",
    )  # fmt: skip
    done = act("promote", "checkout", "--partition", "2", "--yes", "-o", "json").obj
    assert done["commit"] == tip(origin.bare)


UPDATED = {
    ("promote", "70%"): "30%", ("promote", "7"): "3", ("promote", "100%"): "0",
    ("promote", "10"): "0", ("hold", "3"): "7", ("hold", "0"): "100%", ("hold", "0%"): "100%",
}  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.slow] if n % 3 else []) for n, row in enumerate(UPDATED)],
    ids=" ".join,
)
def test_updated_pods_are_committed_as_the_partition_of_the_others(
    act: ActionRequest, row: tuple[str, str]
) -> None:
    verb, amount = row
    ended = act(verb, "checkout", "--updated", amount, "--force", "--print", "-o", "json")
    assert ended.code == 0, ended.err
    (added,) = [line for line in ended.obj["diff"].splitlines() if line.startswith("+  ")]
    assert added.split()[1:3] == ["partition:", UPDATED[row]]


NOTHING = [
    ("promote --partition 80%", "GK7042", "lets fewer pods through"),
    ("promote --partition 80%", "GK7042", "gitkruise rollback cloneset/checkout -n shop"),
    ("promote --partition many", "GK7042", "no partition"),
    ("promote --partition 101%", "GK7042", "more than all"),
    ("hold --partition 10%", "GK7042", "gitkruise promote"),
    ("promote --to 30%", "GK7048", "gitkruise promote checkout --updated 30%"),
    ("promote --to 30%", "GK7048", "gitkruise promote checkout --partition 30%"),
    ("promote 30%", "GK7048", "gitkruise promote checkout --updated 30%"),
    ("promote 30% -n shop", "GK7048", "gitkruise promote checkout -n shop --updated 30%"),
    ("hold --at 30%", "GK7048", "gitkruise hold checkout --partition 30%"),
    ("promote --updated 3 --partition 3", "GK7048", "--updated"),
    ("promote --updated 11", "GK7042", "more than all 10"),
    ("promote --updated few", "GK7042", "no number of updated pods"),
    ("promote --updated 30%", "GK7042", "lets fewer pods through"),
    ("hold", "GK7047", "--sandbox"),
    ("promote", "GK7045", "add --yes"),
    ("promote -n other", "GK7040", "git has no CloneSet checkout in namespace other"),
    ("promote -n other", "GK7040", "--context NAME or --sandbox"),
    ("promote --unit other", "GK7040", "in unit other"),
    ("promote --pr --commit", "GK7010", "--commit excludes"),
]
NO_ROLLOUT = ("configmap/web", "job/web", "pods/web", "daemonset/web", "cloneset/", "nothing/web")


@pytest.mark.parametrize(
    ("line", "code", "words"),
    [
        pytest.param(*row, marks=[pytest.mark.slow] if n % 3 else [])
        for n, row in enumerate(NOTHING)
    ],
    ids=[row[0] for row in NOTHING],
)
def test_refused_as_wrong_usage(
    act: ActionRequest, origin: Origin, line: str, code: str, words: str
) -> None:
    before = run_git(origin.bare, "show-ref")
    verb, *flags = line.split()
    ended = act(verb, "checkout", *flags)
    assert (ended.code, code in ended.err) == (2, True), ended.err
    assert words in ended.err
    assert run_git(origin.bare, "show-ref") == before


@pytest.mark.parametrize("name", NO_ROLLOUT)
def test_a_refusal_names_the_types_that_may_be_changed(act: ActionRequest, name: str) -> None:
    ended = act("rollback", name)
    assert (ended.code, "GK7040" in ended.err) == (2, True), ended.err
    line = next(line for line in ended.err.splitlines() if "known" in line)
    assert line.split("known:")[-1].strip() == "asts, cloneset, deployment, sidecarset, statefulset"


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("resume", "git does not pause it"),
        ("hold --partition 6", "holds it there already"),
        ("promote --partition 60%", "lets as many pods through already"),
        ("promote --updated 4", "lets as many pods through already"),
    ],
)
def test_what_git_asks_for_already_is_no_error(
    act: ActionRequest, origin: Origin, line: str, words: str
) -> None:
    before = run_git(origin.bare, "show-ref")
    verb, *flags = line.split()
    ended = act(verb, "checkout", *flags)
    assert (ended.code, ended.out) == (0, "")
    assert ended.err.startswith("✓ CloneSet shop/checkout: there is nothing to do: ")
    assert words in ended.err
    found = act(verb, "checkout", *flags, "-o", "json").obj
    assert (found["kind"], found["pushed"], words in found["message"]) == ("Action", False, True)
    assert run_git(origin.bare, "show-ref") == before


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deployment/mesh", "rollouts/", "pods/x"])
def test_only_what_rolls_out_is_moved(act: ActionRequest, name: str) -> None:
    assert act("promote", name).code == 2


@pytest.mark.slow
def test_a_rollback_needs_something_to_go_back_to(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("one", {FILE: cloneset("v1")})
    ended = gk("rollback", "checkout", cwd=checkout.folder, **WHO)
    assert (ended.code, "no earlier template" in ended.err) == (2, True)
    assert "next: a commit that mends its template" in ended.err


@pytest.mark.slow
def test_a_template_that_got_stuck_in_any_cluster_is_stepped_over(
    gk: Caller, checkout: Checkout
) -> None:
    """Without --cluster; two clusters recorded the object."""
    _, second, _ = (checkout.commit(v, {FILE: cloneset(v)}) for v in ("v1", "v2", "v3"))
    record = unit_record()
    step = record.steps[0][1][1]
    stuck = replace(step, commit=replace(step.commit, id=second), state=State.STUCK, done=None)
    bad = replace(record, steps=((CHECKOUT, (stuck,)),))
    checkout.record("eu", bad)
    checkout.record("us", replace(unit_record(), cluster="us"))
    ended = gk("rollback", "checkout", "--print", cwd=checkout.folder, **WHO)
    assert "checkout:v1" in ended.out, ended.err
    ended = gk("rollback", "checkout", "--print", "--cluster", "us", cwd=checkout.folder, **WHO)
    assert "checkout:v2" in ended.out


@pytest.mark.slow
def test_nobody_git_knows_makes_no_commit(gk: Caller, origin: Origin) -> None:
    run_git(origin.work, "config", "user.useConfigOnly", "true")
    ended = gk("promote", "checkout", "--yes", cwd=origin.work)
    assert (ended.code, "GK3210" in ended.err, "user.name" in ended.err) == (4, True, True)


@pytest.mark.slow
def test_what_would_get_stuck_is_not_promoted_unless_forced(
    act: ActionRequest, origin: Origin
) -> None:
    origin.commit({FILE: nowhere(CANARY)})
    ended = act("promote", "checkout", "--yes")
    assert (ended.code, "GK7043" in ended.err, "cannot be pulled" in ended.err) == (2, True, True)
    assert act("promote", "checkout", "--yes", "--force").code == 0


@pytest.mark.slow
def test_what_opted_out_of_changes_is_not_promoted(act: ActionRequest, origin: Origin) -> None:
    note = "  annotations: {gitkruise.io/reconcile: Disabled}\n  namespace: shop\n"
    origin.commit({FILE: CANARY.replace("  namespace: shop\n", note)})
    ended = act("promote", "checkout", "--yes")
    assert (ended.code, "GK7043" in ended.err) == (2, True)
    assert "played ahead: a sync leaves it as it is" in ended.err


UNITS = dedent("""\
    apiVersion: gitkruise.io/v1alpha1
    kind: GitSource
    metadata: {name: here}
    spec: {url: ., ref: {branch: main}}
    """) + "".join(
    dedent(f"""\
        ---
        apiVersion: gitkruise.io/v1alpha1
        kind: Unit
        metadata: {{name: {name}}}
        spec: {{sourceRef: {{name: here}}, path: apps, target: {{namespace: {name}}}}}
        """)
    for name in ("blue", "green")
)  # fmt: skip


@pytest.mark.slow
def test_an_edit_that_would_reach_other_objects_is_refused(
    act: ActionRequest, origin: Origin
) -> None:
    text = CANARY.replace("  namespace: shop\n", "")
    origin.commit({"gitkruise.yaml": UNITS, FILE: text})
    both = act("promote", "checkout")
    assert (both.code, "several objects" in both.err, "--unit UNIT" in both.err) == (2, True, True)
    for words in (["-n", "blue"], ["--unit", "default/blue"]):
        ended = act("promote", "checkout", *words, "--yes")
        assert (ended.code, "GK7044" in ended.err, "green/checkout" in ended.err) == (2, True, True)


@pytest.mark.slow
def test_hold_stops_where_the_record_says_it_stands(act: ActionRequest, origin: Origin) -> None:
    Checkout(origin.work).record("sandbox", unit_record())  # 4 of 10 updated
    origin.commit({FILE: CANARY.replace("60%", "20%")}, "too far")
    ended = act("hold", "checkout", "--yes")
    assert ended.code == 0
    assert "partition: 6    # a canary" in (origin.work / FILE).read_text()


@pytest.mark.slow
def test_hold_asks_the_cluster_how_far_it_is(
    act: ActionRequest, origin: Origin, cluster: Path
) -> None:
    broken = cloneset("v3-broken", partition="20%", name="halted")
    origin.commit({FILE: cloneset(name="halted")})
    origin.commit({FILE: broken}, "too far")
    env = {"KUBECONFIG": str(cluster)}
    with applied(cluster, cloneset(name="halted")):
        act("get", "cs", "halted", "-n", "shop", "-w", "--exit-when-done", **env)
        apply(cluster, broken)
        assert act("get", "cs", "halted", "-n", "shop", "-w", "--exit-when-done", **env).code == 1
        ended = act("hold", "halted", "--print", "--kubeconfig", str(cluster))
    assert "+    partition: 8\n" in ended.out
    assert "no pod is updated" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code", "moved"), [("n", 130, False), ("y", 0, True)])
def test_a_person_is_asked_after_they_have_seen_it(
    origin: Origin, answer: str, code: int, *, moved: bool
) -> None:
    old = tip(origin.bare)
    words = ["promote", "checkout", "--repo", str(origin.work)]
    with Terminal(words, environment(**WHO), columns=100) as terminal:
        shown = terminal.read_until(r"Push this to origin/main\? \[y/N\]: ")
        assert "Summary  1 changed" in shown
        terminal.type(f"{answer}\n")
        assert terminal.end() == code
    assert (tip(origin.bare) != old) is moved


@pytest.mark.slow
def test_who_signs_their_commits_signs_this_one(act: ActionRequest, origin: Origin) -> None:
    ssh_key(origin.work.parent, "dana")
    for name, value in (
        ("gpg.format", "ssh"),
        ("user.signingkey", str(origin.work.parent / "dana")),
        ("commit.gpgSign", "true"),
    ):
        run_git(origin.work, "config", name, value)
    assert act("promote", "checkout", "--yes").code == 0
    assert "-----BEGIN SSH SIGNATURE-----" in run_git(origin.bare, "cat-file", "commit", "main")
    run_git(origin.work, "config", "user.signingkey", "/nowhere")
    ended = act("hold", "checkout", "--partition", "2", "--yes")
    assert (ended.code, "GK3210" in ended.err) == (4, True)


@pytest.mark.slow
@pytest.mark.usefixtures("kubectl")
def test_a_rollback_edits_the_kustomization_that_sets_the_tag(
    act: ActionRequest, origin: Origin
) -> None:
    setter = "resources: [checkout.yaml]\nimages:\n  - name: shop/checkout\n    newTag: %s\n"
    image = re.search(r"image: (\S+):", cloneset())
    assert image is not None
    setter = setter.replace("shop/checkout", image[1])
    for tag in ("v7", "v8"):
        files: dict[str, str | None] = {FILE: cloneset(), "apps/kustomization.yaml": setter % tag}
        origin.commit({**files, "kustomization.yaml": "resources: [apps]\n"}, tag)
    run_git(origin.work, "fetch", "-q")
    run_git(origin.work, "reset", "--hard", "-q", "origin/main")
    ended = act("rollback", "checkout", "--yes")
    assert ended.code == 0, ended.err
    changed = run_git(origin.bare, "show", "--format=", "--name-only", "main").split()
    assert changed == ["apps/kustomization.yaml"]
    assert run_git(origin.bare, "show", "main:apps/kustomization.yaml") == (setter % "v7").strip()


@pytest.mark.slow
@pytest.mark.usefixtures("kubectl")
def test_the_patch_that_sets_the_partition_and_the_image_is_edited(
    act: ActionRequest, origin: Origin
) -> None:
    setter = dedent("""\
        resources: [../../apps]
        patches:
          - patch: |-
              apiVersion: apps.kruise.io/v1alpha1
              kind: CloneSet
              metadata: {name: checkout, namespace: shop}
              spec:
                updateStrategy: {partition: 60%}
          - patch: |-
              - op: replace
                path: /spec/template/spec/containers/0/image
                value: shop/checkout:IMAGE
            target: {kind: CloneSet, name: checkout}
        """)
    overlay = "clusters/a/kustomization.yaml"
    for tag in ("v7", "v8"):
        files: dict[str, str | None] = {FILE: cloneset(), overlay: setter.replace("IMAGE", tag)}
        inner = "resources: [checkout.yaml]\n"
        files |= {"kustomization.yaml": "resources: [clusters/a]\n"}
        origin.commit({**files, "apps/kustomization.yaml": inner}, tag)
    run_git(origin.work, "fetch", "-q")
    run_git(origin.work, "reset", "--hard", "-q", "origin/main")
    ended = act("promote", "checkout", "--partition", "30%", "--yes")
    assert ended.code == 0, ended.err
    new = setter.replace("IMAGE", "v8")
    assert run_git(origin.bare, "show", f"main:{overlay}") == new.replace("60%", "30%").strip()
    ended = act("rollback", "checkout", "--yes")
    assert ended.code == 0, ended.err
    # The newest template that git asked of all pods is the first release.
    new = setter.replace("shop/checkout:IMAGE", "registry.example.com/checkout:v1")
    assert run_git(origin.bare, "show", f"main:{overlay}") == new.replace("60%", "0").strip()
    changed = run_git(origin.bare, "show", "--format=", "--name-only", "main").split()
    assert changed == [overlay]
