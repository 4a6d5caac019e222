"""Data goes to standard output, words to standard error, colours only where they belong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.calls import Caller, Terminal, environment
from tests.cli.shop import CONFIG_MAP, Checkout, cloneset, unit_record

pytestmark = pytest.mark.slow

ESCAPE = "\x1b"


@pytest.fixture
def shop(checkout: Checkout) -> Checkout:
    checkout.commit("first", {"checkout.yaml": cloneset("v1")})
    checkout.commit("second", {"checkout.yaml": cloneset("v2", partition="60%")})
    checkout.record("sandbox", unit_record())
    return checkout


READS = [
    ("plan", "Plan"), ("history", "HistoryList"), ("status", "StatusList"),
    ("validate", "FindingList"), ("version", "Version"), ("sandbox status", "SandboxStatus"),
    ("get rollouts -A", "RolloutList"), ("get clonesets", "RolloutList"),
    ("get sidecarsets", "RolloutList"), ("get pods -A", "PodList"),
    ("get revisions -A", "RevisionList"), ("get events -A", "EventList"),
    ("get units -A", "UnitList"), ("drift", "DriftList"), ("doctor git", "CheckList"),
    ("doctor cluster rbac", "CheckList"), ("explain GK3204", "CodeExplanation"),
    ("explain unit.spec", "FieldExplanation"), ("promote checkout --dry-run", "Action"),
    ("rollback checkout --dry-run", "Action"), ("wait --for applied --timeout 1ms", "FindingList"),
]  # fmt: skip


@pytest.mark.parametrize(("command", "kind"), READS, ids=[r[0] for r in READS])
def test_json_is_a_versioned_document(
    gk: Caller, shop: Checkout, cluster: Path, command: str, kind: str
) -> None:
    ended = gk(*command.split(), "-o", "json", cwd=shop.folder, KUBECONFIG=str(cluster))
    assert (ended.obj["apiVersion"], ended.obj["kind"]) == ("gitkruise.io/v1alpha1", kind)
    assert kind.endswith("List") is ("items" in ended.obj)
    assert ended.err == "" or kind == "FindingList"


TEXTS = ["plan", "history", "status", "get rollouts -A", "validate .", "version", "nonsense",
         "drift", "doctor", "explain GK3204", "promote checkout --print", "wait --timeout 1ms",
         "why nope", "trace nope"]  # fmt: skip


@pytest.mark.parametrize("command", TEXTS)
def test_a_pipe_gets_no_escape_byte(
    gk: Caller, shop: Checkout, cluster: Path, command: str
) -> None:
    ended = gk(*command.split(), cwd=shop.folder, KUBECONFIG=str(cluster))
    assert ESCAPE not in ended.out + ended.err


COLOUR_OPTIONS = [
    (["--color=always"], {}, True),
    (["--color=never"], {"FORCE_COLOR": "1"}, False),
    (["--no-color"], {"FORCE_COLOR": "1"}, False),
    ([], {"FORCE_COLOR": "1"}, True),
    ([], {"CLICOLOR_FORCE": "1"}, True),
    ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    (["--color=always"], {"NO_COLOR": "1"}, True),
]


@pytest.mark.parametrize(("flags", "env", "coloured"), COLOUR_OPTIONS)
@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after it"])
def test_options_of_colour(
    gk: Caller, shop: Checkout, flags: list[str], env: dict[str, str], coloured: bool, before: bool
) -> None:
    words = [*flags, "plan"] if before else ["plan", *flags]
    ended = gk(*words, cwd=shop.folder, **env)
    assert (ESCAPE in ended.out) is coloured


TERMINALS = [({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)]


@pytest.mark.parametrize(("env", "coloured"), TERMINALS, ids=["plain", "NO_COLOR", "dumb"])
def test_a_terminal_gets_colours_unless_it_says_no(
    shop: Checkout, env: dict[str, str], coloured: bool
) -> None:
    words = ["history", "--repo", str(shop.folder)]
    with Terminal(words, environment(**env)) as terminal:
        assert terminal.end() == 0
        assert (ESCAPE in terminal.raw) is coloured
        assert "⏸" in terminal.raw


@pytest.mark.parametrize("locale", [{"LC_ALL": "C"}, {"LANG": "de_DE.ISO-8859-1"}], ids=str)
def test_other_locales_get_ascii(gk: Caller, shop: Checkout, locale: dict[str, str]) -> None:
    for command in (["plan"], ["history"], ["history", "-o", "json"]):
        ended = gk(*command, cwd=shop.folder, **locale)
        assert ended.code == 0
        assert ended.out.isascii()
    assert "[hold]" in gk("history", cwd=shop.folder, **locale).out


@pytest.mark.parametrize("command", ["plan", "history", "status", "get pods -A", "get events -A"])
def test_80_columns_are_enough(gk: Caller, shop: Checkout, cluster: Path, command: str) -> None:
    ended = gk(*command.split(), cwd=shop.folder, KUBECONFIG=str(cluster), COLUMNS="80")
    assert ended.code == 0
    assert max(len(line) for line in ended.out.splitlines()) <= 80


@pytest.mark.parametrize("command", ["plan", "history", "status", "get rollouts -A", "validate"])
def test_who_reads_the_data_may_close_the_rest(shop: Checkout, cluster: Path, command: str) -> None:
    line = f"{sys.executable} -m gitkruise {command} -o json 2>&-"
    done = subprocess.run(
        ["bash", "-c", line], env=environment(KUBECONFIG=str(cluster)), cwd=shop.folder,
        capture_output=True, check=False,
    )  # fmt: skip
    assert json.loads(done.stdout)["apiVersion"] == "gitkruise.io/v1alpha1"
    assert (done.returncode, done.stderr) == (0, b"")


def test_narration_of_validate_is_not_data(gk: Caller) -> None:
    (gk.folder / "a.yaml").write_text(CONFIG_MAP)
    ended = gk("validate")
    assert (ended.out, ended.err) == ("", "1 object: no problem\n")
