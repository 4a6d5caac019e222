"""Starting is cheap: no command imports what only another one needs."""

from __future__ import annotations

import pytest

from bench.commands import BUDGETS, REPEATS, YARDSTICK, YARDSTICK_MS, once_ms
from tests.cli.calls import python
from tests.cli.shop import CONFIG_MAP, Checkout

pytestmark = pytest.mark.slow

HEAVY = (
    "rich", "aiohttp", "cryptography", "ruamel", "jinja2", "kubernetes", "git", "yaml",
    "jsonschema", "platformdirs", "msgspec", "asyncio", "gitkruise.wire", "gitkruise.app",
    "sigstore", "tempfile", "traceback",
)  # fmt: skip
NO_NETWORK = (
    "rich", "aiohttp", "cryptography", "kubernetes", "gitkruise.app", "sigstore", "watchdog",
)  # fmt: skip
PROBE = """
import sys
from gitkruise.cli.root import run
run({words!r})
print("\\n".join(m for m in {heavy!r} if m in sys.modules), file=sys.stderr)
print("|" + " ".join(m for m in {heavy!r} if m in sys.modules))
"""


def loaded(words: list[str], heavy: tuple[str, ...], **env: str) -> list[str]:
    out = python(PROBE.format(words=words, heavy=heavy), **env)
    return out.rpartition("|")[2].split()


@pytest.mark.parametrize(
    "words",
    [["--version"], ["--help"], ["completion", "zsh"], ["statsu"]],
    ids=" ".join,
)
def test_simple_words_load_nothing_heavy(words: list[str]) -> None:
    assert loaded(words, HEAVY) == []


@pytest.mark.parametrize(
    "command",
    [
        "validate",
        "plan",
        "status",
        "get",
        "history",
        "run",
        "sandbox",
        "promote",
        "wait",
        "why",
        "trace",
        "drift",
        "doctor",
        "explain",
    ],
)
def test_help_of_a_command_loads_neither_carrier_nor_model(command: str) -> None:
    heavy = tuple(m for m in HEAVY if m not in {"gitkruise.wire", "asyncio", "traceback"})
    assert loaded([command, "--help"], heavy) == []


@pytest.mark.parametrize("typed", ["gitkruise st", "gitkruise get --out", "gitkruise sandbox u"])
def test_completion_of_static_words_loads_nothing_heavy(typed: str) -> None:
    words = {"_GITKRUISE_COMPLETE": "bash_complete", "COMP_WORDS": typed}
    count = str(len(typed.split()) - 1)
    code = (
        "import sys\nfrom gitkruise.cli.root import run\n"
        "try:\n    run([])\nexcept SystemExit:\n    pass\n"
        f"heavy = {HEAVY!r}\nprint('|' + ' '.join(m for m in heavy if m in sys.modules))"
    )
    out = python(code, COMP_CWORD=count, **words)
    completions, _, heavy = out.rpartition("|")
    assert typed.rsplit(maxsplit=1)[-1] in completions
    assert set(heavy.split()) <= {"gitkruise.wire", "asyncio", "traceback"}


def test_validating_needs_no_network() -> None:
    assert loaded(["validate", "examples-repo/apps/cart"], NO_NETWORK) == []


def test_planning_offline_needs_no_network(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("empty")
    assert loaded(["plan", "--repo", str(folder), "HEAD"], NO_NETWORK) == []


def test_planning_without_a_rollout_loads_no_cluster(checkout: Checkout) -> None:
    checkout.commit("one", {"flags.yaml": CONFIG_MAP})
    checkout.commit("two", {"flags.yaml": CONFIG_MAP.replace('"on"', '"off"')})
    heavy = (*NO_NETWORK, "git", "jsonschema", "ruamel", "gitkruise.world")
    assert loaded(["plan", "--offline", "--repo", str(checkout.folder)], heavy) == []


def test_a_sound_configuration_is_read_without_jsonschema() -> None:
    assert loaded(["validate", "examples-repo/gitkruise.yaml"], ("jsonschema", "git")) == []


@pytest.mark.parametrize("name", BUDGETS)
def test_starting_stays_within_its_budget(name: str) -> None:
    """CPU at its best of up to 15 runs, against a program that imports click just then."""
    words, env, budget = BUDGETS[name]
    seen = []
    for _ in range(REPEATS):
        yard = once_ms(YARDSTICK, {})
        seen.append(once_ms(["-m", "gitkruise", *words], env) * YARDSTICK_MS / yard)
        if seen[-1] <= budget:
            break
    assert min(seen) <= budget
