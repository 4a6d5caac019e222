"""The tutorial's commands, in one shell and in order, lead where the tutorial says."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.cluster import Cluster
from tests.e2e.program import PATIENCE_S, ROOT, environment, eventually, gitkruise, output

pytestmark = pytest.mark.e2e

_STEP = re.compile(
    r"^```sh ?(?P<needs>\w*)\n(?P<code>.*?)^```$|^<!-- (?P<claim>then.*?) -->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Step:
    """A block to run, or a claim to wait for; `needs` names a program it depends on."""

    code: str = ""
    claim: str = ""
    needs: str = ""


def steps(text: str) -> Iterator[Step]:
    for found in _STEP.finditer(text):
        if claim := found["claim"]:
            needs = "kubectl" if claim.endswith(" kubectl") else ""
            yield Step(claim=claim.removesuffix(" kubectl"), needs=needs)
        else:
            yield Step(code=found["code"], needs=found["needs"])


class Shell:
    """One bash, fed block by block; a block that fails ends it."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self.process = subprocess.Popen(
            ["bash", "-euo", "pipefail"],
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def kill(self) -> None:
        """End the shell and what it left running; both hold the pipe that is read."""
        with suppress(ProcessLookupError):  # nothing is left when all went well
            os.killpg(self.process.pid, signal.SIGKILL)

    def run(self, code: str) -> str:
        """What the block prints. It must not fail."""
        assert self.process.stdin
        assert self.process.stdout
        mark = "-- block done --"
        self.process.stdin.write(f"{code}\necho {mark!r}\n")
        self.process.stdin.flush()
        stuck = threading.Timer(PATIENCE_S, self.kill)
        stuck.start()
        printed = ""
        for line in self.process.stdout:
            if line.strip() == mark:
                stuck.cancel()
                return printed
            printed += line
        stuck.cancel()
        raise AssertionError(f"this block failed:\n{code}\n{printed}")


def holds(claim: str, cluster: Cluster) -> bool:
    """`then: [NAMESPACE/]NAME STATE NEW/REPLICAS TAG`: state and counts of the CloneSet, and the
    tag that its updated pods run; `then-unit: UNIT STATE`: the newest word of the status branch."""
    what, _, rest = claim.partition(": ")
    if what == "then-unit":
        unit, state = rest.split()
        return unit_state(cluster, unit) == state
    name, state, counts, tag = rest.split()
    namespace, _, short = name.rpartition("/")
    listed = json.loads(output(gitkruise("status", "--sandbox", "-o", "json"), cluster.env))
    for item in listed["items"]:
        obj = item["object"]
        if (obj["kind"], obj["namespace"], obj["name"]) == ("CloneSet", namespace or "shop", short):
            rollout = item["rollout"]
            seen = f"{rollout['updated']}/{rollout['replicas']}"
            pods = cluster.pods(short, namespace or "shop")
            tagged = sum(pod.image.endswith(f":{tag}") for pod in pods)
            return (item["state"], seen) == (state, counts) and tagged == rollout["updated"]
    return False


def unit_state(cluster: Cluster, unit: str) -> str:
    shop = cluster.state.parent / "shop"
    path = f"gitkruise/status/sandbox:units/{unit}/status.yaml"
    text = output(["git", "show", path], cluster.env, shop)
    return str(re.findall(r"^state: (\w+)$", text, re.MULTILINE)[0])


@pytest.fixture
def tutor(tmp_path: Path) -> Iterator[tuple[Shell, Cluster]]:
    shutil.copytree(ROOT / "examples-repo", tmp_path / "examples-repo")
    program = tmp_path / "bin" / "gitkruise"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m gitkruise "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    state = tmp_path / "state"
    env = environment(state)
    env["PATH"] = f"{program.parent}:{env['PATH']}"
    cluster, shell = Cluster(state, env), Shell(env, tmp_path)
    try:
        yield shell, cluster
    finally:
        shell.kill()
        shell.process.wait(PATIENCE_S)
        for pipe in (shell.process.stdin, shell.process.stdout):
            if pipe:
                pipe.close()
        cluster.down()


def test_every_block_and_claim(tutor: tuple[Shell, Cluster]) -> None:
    shell, cluster = tutor
    have = {"", *(name for name in ("kubectl",) if shutil.which(name))}
    todo = list(steps((ROOT / "examples-repo" / "README.md").read_text()))
    assert sum(bool(step.claim) for step in todo) >= 10
    for step in todo:
        if step.needs not in have:
            continue
        if step.code:
            shell.run(step.code)
        else:
            eventually(lambda claim=step.claim: holds(claim, cluster))  # type: ignore[misc]  # mypy has no types for bound defaults
