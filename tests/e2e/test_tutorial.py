"""Every command of README.md, the tutorial and the demo's page, run as written in a fresh clone.

A page is read as blocks and claims. A block is fenced as `sh`; a word after it is a condition
(`kubectl`) or says that the block occupies a terminal of its own (`foreground`). A claim is an HTML
comment, and the run waits until it is true.
"""

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
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.e2e.cluster import Cluster
from tests.e2e.program import (
    PATIENCE_S,
    ROOT,
    Program,
    environment,
    eventually,
    gitkruise,
    output,
    started,
)

pytestmark = pytest.mark.e2e

_STEP = re.compile(
    r"^```sh ?(?P<word>\w*)\n(?P<code>.*?)^```$|^<!-- (?P<claim>(?:then|prints).*?) -->$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Step:
    """A block to run, or a claim to wait for; `needs` names a program it depends on."""

    code: str = ""
    claim: str = ""
    needs: str = ""
    foreground: bool = False


def steps(text: str) -> Iterator[Step]:
    for found in _STEP.finditer(text):
        if claim := found["claim"]:
            needs = "kubectl" if claim.endswith(" kubectl") else ""
            yield Step(claim=claim.removesuffix(" kubectl"), needs=needs)
        elif found["word"] == "foreground":
            yield Step(code=found["code"], foreground=True)
        else:
            yield Step(code=found["code"], needs=found["word"])


class Shell:
    """One bash, fed block by block; a block that fails ends it."""

    def __init__(self, env: Mapping[str, str], cwd: Path) -> None:
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

    def close(self) -> None:
        self.kill()
        self.process.wait(PATIENCE_S)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                pipe.close()

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
        ended = "failed" if stuck.is_alive() else f"did not end within {PATIENCE_S:g} s"
        stuck.cancel()
        raise AssertionError(f"this block {ended}:\n{code}\n{printed}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """The cluster and the repository that a page's claims are about."""

    cluster: Cluster
    repository: Path
    options: tuple[str, ...]

    def holds(self, claim: str) -> bool:
        """Check one claim.

        `then: [NAMESPACE/]NAME STATE NEW/REPLICAS TAG`: state and counts of a CloneSet, and the tag
        that its updated pods run. `then-unit: UNIT STATE`: the newest record of the status branch.
        `then-note: UNIT STATE`: the note on the newest commit.
        """
        what, _, rest = claim.partition(": ")
        if what == "then":
            return self._rollout(*rest.split())
        unit, state = rest.split()
        found = self._record(unit) if what == "then-unit" else self._note(unit)
        return found == state

    def _rollout(self, name: str, state: str, counts: str, tag: str) -> bool:
        namespace, _, short = name.rpartition("/")
        key = ("CloneSet", namespace or "shop", short)
        listed = json.loads(
            output(gitkruise("status", *self.options, "-o", "json"), self.cluster.env)
        )
        for item in listed["items"]:
            obj = item["object"]
            if (obj["kind"], obj["namespace"], obj["name"]) == key:
                rollout = item["rollout"]
                seen = f"{rollout['updated']}/{rollout['replicas']}"
                pods = self.cluster.pods(short, namespace or "shop")
                tagged = sum(pod.image.endswith(f":{tag}") for pod in pods)
                return (item["state"], seen) == (state, counts) and tagged == rollout["updated"]
        return False

    def _record(self, unit: str) -> str:
        text = self._git("show", f"gitkruise/status/sandbox:units/{unit}/status.yaml")
        return str(re.findall(r"^state: (\w+)$", text, re.MULTILINE)[0])

    def _note(self, unit: str) -> str:
        notes = self._git("log", "-1", "--format=%N", "--notes=gitkruise/sandbox", "main")
        units = (yaml.safe_load(notes) or {}).get("units", {})
        return str(units.get(unit, {}).get("phase", ""))

    def _git(self, *words: str) -> str:
        return output(["git", "-C", str(self.repository), *words], self.cluster.env)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The files that a fresh clone of the working tree has, with an installed command."""
    folder = tmp_path / "gitkruise"
    listed = output(["git", "ls-files", "-z", "-co", "--exclude-standard"], environment(ROOT), ROOT)
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    binaries = folder / ".venv" / "bin"
    binaries.mkdir(parents=True)
    for name, words in (("gitkruise", "-m gitkruise"), ("python", "")):
        program = binaries / name
        program.write_text(
            f'#!/bin/sh\nPYTHONPATH="{folder}" exec "{sys.executable}" {words} "$@"\n'
        )
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
    for stamp in ("runtime", "dev"):  # as after an installation, which the network would serve
        (folder / ".venv" / stamp).touch()
    return folder


def bare_environment(state: Path) -> dict[str, str]:
    """An environment without gitkruise on the PATH and without the checkout's modules."""
    env = environment(state, CI="true")
    del env["PYTHONPATH"]
    folders = [f for f in env["PATH"].split(":") if not (Path(f) / "gitkruise").exists()]
    return {**env, "PATH": ":".join(folders)}


def play(page: str, shell: Shell, watched: Watched, start: Callable[[str], Program]) -> None:
    """Run the blocks of a page in order, and wait for its claims."""
    have = {"", *(name for name in ("kubectl",) if shutil.which(name))}
    todo = list(steps((ROOT / page).read_text()))
    assert todo
    terminal: Program | None = None
    for step in todo:
        if step.needs not in have:
            continue
        if step.foreground:
            terminal = start(step.code)
        elif step.code:
            shell.run(step.code)
        elif step.claim.startswith("prints: "):
            assert terminal
            terminal.until(step.claim.removeprefix("prints: "))
        else:
            eventually(lambda claim=step.claim: watched.holds(claim))  # type: ignore[misc]  # mypy has no types for bound defaults


def test_the_tutorial(clone: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    cluster = Cluster(state, environment(state))
    watched = Watched(cluster=cluster, repository=tmp_path / "shop", options=("--sandbox",))
    shell = Shell(bare_environment(state), clone)
    with ExitStack() as stack:
        stack.callback(cluster.down)
        stack.callback(shell.close)
        play("examples-repo/README.md", shell, watched, _no_terminal)


def test_the_page_of_the_demo(clone: Path, tmp_path: Path) -> None:
    state, folder = tmp_path / "state", tmp_path / "demo"
    cluster = Demo(state, environment(state, KUBECONFIG=str(folder / "kubeconfig")))
    watched = Watched(cluster=cluster, repository=folder / "shop-deploy.git", options=())
    env = bare_environment(state)
    with ExitStack() as stack:
        shell = Shell(env, clone)
        stack.callback(shell.close)

        def start(code: str) -> Program:
            program = stack.enter_context(started(["bash", "-euc", code], env, clone))
            stack.callback(interrupt, program)
            return program

        play("docs/demo.md", shell, watched, start)
    assert (folder / "shop-deploy.git" / "HEAD").exists(), "--keep leaves the repository"


class Demo(Cluster):
    """The cluster of a demo with `--keep`."""

    @property
    def kubeconfig(self) -> Path:
        return Path(self.env["KUBECONFIG"])


def test_the_readme(clone: Path, tmp_path: Path) -> None:
    """Its first block are two commands: `make demo` lasts until Ctrl-C, `make test` runs the tests.

    Both run as written, over less: the environment makes the demo faster and selects one file.
    """
    env = bare_environment(tmp_path / "state")
    commands, *blocks = steps((ROOT / "README.md").read_text())
    demo, test = (line.partition("#")[0].strip() for line in commands.code.strip().splitlines())
    with started(["bash", "-c", demo], {**env, "ARGS": "--speed 20"}, clone) as program:
        program.until("commit 8")
        program.until("Ctrl-C to quit")
        interrupt(program)
    assert not any("Traceback" in line for line in program.lines)
    chosen = {"PYTEST_ADDOPTS": "tests/test_pins.py", "PYTEST_DEBUG_TEMPROOT": str(tmp_path)}
    shell = Shell({**env, **chosen}, clone)
    with ExitStack() as stack:
        stack.callback(shell.close)
        assert " passed" in shell.run(test)
        printed = [shell.run(block.code) for block in blocks if block.code]
    assert "Usage: gitkruise" in printed[-1]


def interrupt(program: Program) -> None:
    """Ctrl-C: a terminal signals every process of the foreground."""
    os.killpg(program.process.pid, signal.SIGINT)
    program.ends()


def _no_terminal(code: str) -> Program:
    raise AssertionError(f"the page has no block of its own terminal, but:\n{code}")
