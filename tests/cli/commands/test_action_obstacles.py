"""What keeps actions from a commit: the state of the checkout, and units that are broken."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from tests.cli.calls import Caller
from tests.cli.commands.test_actions import (
    CANARY,
    FILE,
    UNITS,
    WHO,
    ActionRequest,
    act,
    made,
    origin,
    tip,
)
from tests.cli.shop import Checkout, cloneset
from tests.git.repos import Origin, run_git

__all__ = ["act", "made", "origin"]  # fixtures


def behind(origin: Origin) -> None:
    origin.commit({"x.yaml": "# more\n"})
    run_git(origin.work, "reset", "-q", "--hard", "HEAD~1")


def ahead(origin: Origin) -> None:
    run_git(origin.work, "commit", "-q", "--allow-empty", "-m", "mine")


def apart(origin: Origin) -> None:
    behind(origin)
    ahead(origin)


def dirty(origin: Origin) -> None:
    (origin.work / FILE).write_text("# changed\n")


def moved_away(origin: Origin) -> None:
    origin.bare.rename(origin.bare.with_name("away"))


GIT = [
    (dirty, "GK3203", FILE), (behind, "GK3208", "git pull --ff-only"),
    (ahead, "GK3208", "git push"), (apart, "GK3208", "1 ahead and 1 behind"),
    (moved_away, "GK3103", "origin"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("happen", "code", "words"), GIT, ids=[row[0].__name__ for row in GIT])
def test_refused_by_the_state_of_git(
    act: ActionRequest, origin: Origin, happen: Callable[[Origin], None], code: str, words: str
) -> None:
    happen(origin)
    ended = act("promote", "checkout", "--yes")
    assert (ended.code, code in ended.err, words in ended.err) == (4, True, True), ended.err


@pytest.mark.slow
@pytest.mark.parametrize("happen", [dirty, behind, ahead])
@pytest.mark.parametrize("words", [["--print"], ["--branch", "proposal"]])
def test_what_leaves_the_checkout_alone_works_in_any_state_of_it(
    act: ActionRequest, origin: Origin, happen: Callable[[Origin], None], words: list[str]
) -> None:
    happen(origin)
    before = tip(origin.work), (origin.work / FILE).read_text()
    ended = act("promote", "checkout", *words)
    assert ended.code == 0, ended.err
    assert (tip(origin.work), (origin.work / FILE).read_text()) == before


TWO_UNITS = dedent("""\
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
        spec: {{sourceRef: {{name: here}}, path: {path}}}
        """)
    for name, path in (("web", "apps"), ("other", "other"))
)  # fmt: skip


@pytest.mark.slow
def test_a_unit_that_is_broken_already_keeps_no_other_from_a_commit(
    act: ActionRequest, origin: Origin
) -> None:
    good = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: shop}\n"
    origin.commit({"gitkruise.yaml": TWO_UNITS, FILE: CANARY, "other/map.yaml": good})
    origin.commit({"other/map.yaml": "kind: [\n"}, "broken")
    ended = act("promote", "checkout", "--yes")
    assert ended.code == 0, ended.err
    assert "ConfigMap" not in ended.out
    origin.commit({FILE: CANARY.replace("replicas: 10", "replicas: ten")}, "broken, too")
    ended = act("promote", "checkout", "--yes")
    assert ended.code != 0


@pytest.mark.slow
@pytest.mark.parametrize("depth", [1, 2])
def test_a_shallow_clone_does_not_take_its_oldest_template_for_the_first(
    gk: Caller, checkout: Checkout, depth: int
) -> None:
    """That one was a canary: no commit asked for it on all pods."""
    for image, partition in (("v1", 0), ("v2", "90%"), ("v3", "90%")):
        checkout.commit(image, {FILE: cloneset(image, partition=partition)})
    copy = gk.folder / "copy"
    run_git(gk.folder, "clone", "-q", f"--depth={depth}", f"file://{checkout.folder}", str(copy))
    ended = gk("rollback", "checkout", "--print", cwd=copy, **WHO)
    assert (ended.code, ended.out) == (4, "")
    assert "GK3108" in ended.err
    run_git(copy, "fetch", "-q", "--unshallow")
    assert "v1" in gk("rollback", "checkout", "--print", cwd=copy, **WHO).out


@pytest.mark.slow
def test_of_two_units_that_have_one_object_each_may_be_named(
    act: ActionRequest, origin: Origin
) -> None:
    """As while a Unit that was renamed has not ended yet."""
    units = UNITS.replace("target: {namespace: green}", "target: {namespace: blue}")
    origin.commit({"gitkruise.yaml": units, FILE: CANARY.replace("  namespace: shop\n", "")})
    both = act("promote", "checkout")
    there = "blue/checkout of unit default/blue, blue/checkout of unit default/green"
    assert (both.code, there in both.err) == (2, True)
    named = ("promote", "checkout", "--unit", "default/green", "--yes")
    ended = act(*named)
    assert (ended.code, "a sync leaves it as it is" in ended.err) == (2, True)
    assert act(*named, "--force").code == 0
    message = run_git(origin.bare, "log", "-1", "--format=%B", "main")
    assert "Gitkruise-Unit: default/green" in message
