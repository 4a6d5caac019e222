"""`get` picks by labels, state and commit, and prints in the forms kubectl's users know."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from gitkruise.cli.console.jsonpath_output import fill
from gitkruise.errors import BadRequest
from tests.cli.calls import Caller
from tests.cli.live import applied
from tests.cli.shop import cloneset

ONE, TWO = "4f2c9e1" + "0" * 33, "8ab13d0" + "0" * 33


def labelled(name: str, tier: str, replicas: int) -> str:
    """A CloneSet whose own label is its tier, and whose pods carry the app's."""
    text = cloneset(name=name, replicas=replicas)
    return text.replace(f"  name: {name}\n", f"  name: {name}\n  labels: {{tier: {tier}}}\n", 1)


@pytest.fixture(scope="module")
def shop(cluster: Path) -> Iterator[Path]:
    """Two rollouts of different tiers and commits, one of them at rest."""
    web = applied(cluster, labelled("pw", "web", 1), commit=ONE, path="web.yaml:1")
    back = applied(cluster, labelled("pb", "back", 2), commit=TWO, path="back.yaml:1")
    with web, back:
        yield cluster


def names(gk: Caller, shop: Path, *words: str) -> str:
    ended = gk("get", *words, "-n", "shop", "-o", "name", KUBECONFIG=str(shop))
    assert (ended.code, ended.err) == (0, "")
    return ended.out


ROWS = [
    ("cs -l tier=web", "cloneset/pw\n"),
    ("cs -l tier!=web,tier", "cloneset/pb\n"),
    ("cs -l tier=none", ""),
    ("cs --selector=app=pw", ""),
    ("rollouts --commit 4F2C", "cloneset/pw\n"),
    ("rollouts --commit 4f2c -l tier=back", ""),
    ("rollouts --state stuck,drifted", ""),
    ("cs pb -l tier=web", ""),
]


@pytest.mark.parametrize(("words", "out"), ROWS, ids=[row[0] for row in ROWS])
def test_what_is_picked(gk: Caller, shop: Path, words: str, out: str) -> None:
    assert names(gk, shop, *words.split()) == out


def test_pods_are_picked_by_their_own_labels(gk: Caller, shop: Path) -> None:
    gk("get", "cs", "-n", "shop", "-w", "--exit-when-done", KUBECONFIG=str(shop))
    assert names(gk, shop, "pods", "-l", "app=pb").count("pod/pb-") == 2
    assert "pod/pw-" not in names(gk, shop, "pods", "-l", "app=pb")
    assert names(gk, shop, "pods", "-l", "tier=web") == ""
    assert names(gk, shop, "revisions", "-l", "tier=web").startswith("revision/pw-")


WRONG = [
    ("events -l a=b", "-l is for"),
    ("units --commit a", "--commit is for"),
    ("pods --state done", "--state is for"),
    ("cs --commit HEAD", "--commit HEAD: write the beginning of the id of a commit"),
    ("cs --state sad", "known: done, held"),
    ("cs -l a==b==c", "-l: unable to parse"),
    ("cs -o jsonpath={.items", "brace"),
    ("cs -o jsonpath={range.items[*]}x{end}", "items[*].name"),
    ("cs -o jsonpath=", "jsonpath=…"),
    ("cs -w -o yaml", "--watch requires -o jsonl, not yaml"),
    ("cs -w -o jsonpath={.kind}", "--watch requires -o jsonl, not jsonpath"),
]


@pytest.mark.parametrize(("words", "text"), WRONG, ids=[row[0] for row in WRONG])
def test_filters_that_cannot_apply_are_refused(gk: Caller, words: str, text: str) -> None:
    ended = gk("get", *words.split(), KUBECONFIG="/nonexistent")
    assert (ended.code, ended.out) == (2, "")
    assert text in ended.err


def test_yaml_says_what_json_says(gk: Caller, shop: Path) -> None:
    words, env = ("get", "cs", "-l", "tier=web", "-n", "shop", "-o"), {"KUBECONFIG": str(shop)}
    assert yaml.safe_load(gk(*words, "yaml", **env).out) == json.loads(
        gk(*words, "json", **env).out
    )


def test_wide_hides_nothing(gk: Caller, shop: Path) -> None:
    ended = gk("get", "cs", "pw", "-n", "shop", "-o", "wide", KUBECONFIG=str(shop), COLUMNS="60")
    head, row = ended.out.splitlines()
    assert head.split() == ["NAMESPACE", "NAME", "ROLLOUT", "NEW", "READY", "REVISION", "COMMIT",
                            "STATE", "MESSAGE", "UNIT", "SOURCE"]  # fmt: skip
    assert row.endswith("web.yaml:1")


def test_jsonpath_on_the_command_line(gk: Caller, shop: Path) -> None:
    template = 'jsonpath={.kind}:{.items[?(@.name=="pw")].replicas}{"\\n"}'
    ended = gk("get", "cs", "-n", "shop", "-o", template, KUBECONFIG=str(shop))
    assert ended.out == "RolloutList:1\n"


OBJ = {"kind": "List", "items": [{"name": "a", "n": 1}, {"name": "b", "n": None, "m": {"x": "é"}}]}
FILLED = [
    (".kind", "List"),
    ("{.kind}", "List"),
    ("{.items[*].name}", "a b"),
    ("<{.items[0].n}>", "<1>"),
    ("{.items[1].n}", "null"),
    ("{.items[1].m}", '{"x": "é"}'),
    ("{.nothing}", ""),
    ('{.items[?(@.name=="b")].m.x}{"\\t}"}{.kind}', "é\t}List"),
    ("plain text {.kind}", "plain text List"),
]


@pytest.mark.parametrize(("template", "text"), FILLED, ids=[row[0] for row in FILLED])
def test_templates(template: str, text: str) -> None:
    assert fill(template, OBJ) == text


@pytest.mark.parametrize("template", ["{.a", "}{", "{.items[}", "{end}", "{ range .items[*]}"])
def test_broken_templates(template: str) -> None:
    with pytest.raises(BadRequest):
        fill(template, OBJ)
