"""A whole gitkruise in virtual time, and its command line as a person next to it would run it."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

import gitkruise.kube.system.clock as clocks
from gitkruise.app import RunningController, controller
from gitkruise.cli.root import run
from gitkruise.driving import sandbox_controllers
from gitkruise.kube.client import http
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.workloads import BUILTIN
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import GroupKind, Obj
from tests.git.repos import Origin
from tests.gitops.objects import House
from tests.gitops.programs import options
from tests.gitops.stage import Stage

KUBECONFIG: Final = """\
apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "https://127.0.0.1:1"}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: shop}}]
users: [{name: test, user: {token: test}}]
"""


class CommandOutput(NamedTuple):
    """What a command line answered."""

    code: int
    out: str
    err: str

    @property
    def obj(self) -> Any:
        return json.loads(self.out)


class Program:
    """gitkruise over a repository and a model cluster.

    `config` is its configuration file; "" where it follows the objects of the cluster.
    """

    def __init__(self, folder: Path, config: str) -> None:
        self.stage = Stage(folder)
        self._folder, self._config = folder, config
        kubeconfig = folder / "kubeconfig"
        kubeconfig.touch(mode=0o600)
        kubeconfig.write_text(KUBECONFIG)

    def configure(self, config: str) -> None:
        """Change the configuration file; the next start reads it."""
        self._config = config

    @property
    def origin(self) -> Origin:
        return self.stage.origin

    @asynccontextmanager
    async def up(self) -> AsyncIterator[RunningController]:
        """gitkruise runs; the end of the block is a crash, the next block a start."""
        house = House(self.stage, self._folder)
        file = self._config
        chosen = options(self.stage, self._folder, file) if file else house.program()
        async with controller(chosen, self.stage.wire, self.stage.clock) as running:
            yield running

    def play(self, script: Callable[[], Coroutine[Any, Any, None]], *, inside: bool) -> None:
        """Run `script` in virtual time.

        `inside`: the cluster drives CloneSets, as the sandbox does, and says so by its lease.
        Otherwise gitkruise drives them while it runs.
        """
        stage = self.stage

        async def sandbox() -> None:
            await sandbox_controllers(WorldTransport(stage.cluster), stage.clock, Gates())

        stage.play(script, sandbox if inside else stage.driver(BUILTIN).run)

    def objects(self, group: str, kind: str) -> list[Obj]:
        """All objects of a kind, as the cluster stores them."""
        return list(self.stage.world.objects(GroupKind(group, kind)))

    def say(self, *words: str) -> CommandOutput:
        """Run a command line in the working copy, at the cluster's instant."""
        outputs: list[CommandOutput] = []

        def command() -> None:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = run(words)
            outputs.append(CommandOutput(code, out.getvalue(), err.getvalue()))

        with self._surroundings():
            thread = threading.Thread(target=command)
            thread.start()
            thread.join()
        return outputs[0]

    @contextmanager
    def _surroundings(self) -> Iterator[None]:
        """The working copy, a kubeconfig whose server is the model cluster, and its clock."""
        stage = self.stage

        class Connected(WorldTransport):
            def __init__(self, *_: object, **__: object) -> None:
                super().__init__(stage.cluster)

            async def __aenter__(self) -> Connected:
                return self

            async def __aexit__(self, *_: object) -> None:
                return None

        def now(_: clocks.SystemClock) -> datetime:
            return stage.clock.now()

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(http, "HttpTransport", Connected)
            patch.setattr(clocks.SystemClock, "now", now)
            patch.setenv("KUBECONFIG", str(self._folder / "kubeconfig"))
            patch.setenv("HOME", str(self._folder))
            patch.setenv("XDG_STATE_HOME", str(self._folder / "home"))
            patch.setenv("LC_ALL", "C.UTF-8")
            patch.chdir(stage.origin.work)
            yield
