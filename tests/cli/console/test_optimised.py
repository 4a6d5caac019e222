"""Checks hold under `python -O`, which drops every assert."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[3]
GUARDS: Final = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
assert False, "this line is dropped"
from gitkruise.git.plumbing.object_db import ObjectReader
from gitkruise.kube.system.lease_terms import LeaseName
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.client.wrappers import ActingFor
from gitkruise.kube.cache.leader_election import Lease
from gitkruise.webhook.registration import Address
from gitkruise.wire.primitives.names import account_user

guards = {{
    "line break": lambda: ObjectReader(lambda: None).info(["main\\nHEAD"]),
    "speed": lambda: SystemClock(speed=float("nan")),
    "user": lambda: ActingFor(None, " "),
    "lease": lambda: Lease(LeaseName(namespace="a", name="b", identity=""), None, None),
    "address": lambda: Address(namespace="a", service="b", url="c"),
    "account": lambda: account_user("shop", ""),
}}
for name, guard in guards.items():
    try:
        guard()
    except ValueError:
        continue
    print("open:", name)
"""
COMMANDS: Final = [
    (("webhook", "--service", ""), "GK5114"),
    (("sandbox", "up", "--ephemeral", "--speed", "nan"), "GK7012"),
    (("sandbox", "up", "--ephemeral", "--speed", "inf"), "GK7012"),
    (("demo", "--speed", "nan"), "GK7012"),
]


def optimised(*words: str, home: Path) -> subprocess.CompletedProcess[str]:
    """A run of the interpreter without asserts."""
    return subprocess.run(
        ["env", f"HOME={home}", f"GITKRUISE_STATE={home / 'state'}", sys.executable, "-O", *words],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


@pytest.mark.slow
def test_guards_hold_without_asserts(tmp_path: Path) -> None:
    done = optimised("-c", GUARDS.format(root=str(ROOT)), home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code"), COMMANDS, ids=str)
def test_commands_refuse_without_asserts(tmp_path: Path, words: tuple[str, ...], code: str) -> None:
    done = optimised("-m", "gitkruise", *words, home=tmp_path)
    assert done.returncode == 2, done.stderr
    assert code in done.stderr
