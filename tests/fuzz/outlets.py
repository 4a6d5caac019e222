"""An assembled program with every outlet it has: forge, chat, git, cluster, metrics, files, log."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import msgspec

from gitkruise.app import RunningController, RunOptions, controller
from gitkruise.cli.console.log_format import JsonFormatter, LineFormatter
from gitkruise.gitops.forges.http import JsonReply
from gitkruise.gitops.resources.declared import ResourceRules
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.crash_reports import FOLDER
from gitkruise.model.gitops.config import Config
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.paths import get
from tests.git.repos import run_git
from tests.gitops.forges.forges import REPO, TOKEN, ModelForge, reply, served
from tests.gitops.objects import GROUP, House
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import Stage

CHAT: Final = "/chat/"
_OURS: Final = ("GitSource", "Unit", "Sink", "Receiver")
_REPORTED_KINDS: Final = (
    *(GroupKind(GROUP, kind) for kind in _OURS),
    GroupKind("", "Event"), GroupKind("coordination.k8s.io", "Lease"),
)  # fmt: skip


class RecordingForge(ModelForge):
    """A forge and a chat that keep the address and the body of every request."""

    def __init__(self) -> None:
        super().__init__("github")
        self.received: list[bytes] = []
        self.chat_fails = False

    async def exchange(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None
    ) -> JsonReply:
        if CHAT in url:  # its address is a secret of its own
            self.received.append(body or b"")
            return reply(500 if self.chat_fails else 200, "ok")
        self.received.append(f"{method} {url} ".encode() + (body or b""))
        return await super().exchange(method, url, headers, body)


class _Lines(logging.Handler):
    """The log as the process writes it to standard error in either format, with all our records."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.setFormatter(LineFormatter())
        self._json = JsonFormatter()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == "aiohttp.access":  # of the servers of this test
            return
        self.lines += [self.format(record), self._json.format(record)]


@contextmanager
def logged() -> Iterator[list[str]]:
    """Lines that are logged while the block runs."""
    root, ours, handler = logging.getLogger(), logging.getLogger("gitkruise"), _Lines()
    levels = root.level, ours.level
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    ours.setLevel(logging.DEBUG)
    try:
        yield handler.lines
    finally:
        root.removeHandler(handler)
        root.setLevel(levels[0])
        ours.setLevel(levels[1])


class Outlets(House):
    """A program that follows `units` and tells of them everywhere."""

    def __init__(self, stage: Stage, folder: Path, units: list[str], chat: str) -> None:
        super().__init__(stage, folder)
        self.forge, self.units, self.chat = RecordingForge(), units, chat
        self.texts: dict[str, bytes] = {}  # by outlet, gathered so far
        self.commits: list[str] = []  # of main
        self.running: RunningController | None = None

    def options(self) -> RunOptions:
        return RunOptions(
            config=Config(), cluster="test", state_dir=self.folder / "state", identity="one",
            custom=ResourceRules(local_sources=True), metrics=Listen(port=0),
        )  # fmt: skip

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The program and its receivers, while the block runs."""
        async with served(self.forge) as url:
            await self.declare(url)
            with logged() as lines:
                async with controller(self.options(), self.stage.wire, self.stage.clock) as running:
                    self.running = running
                    yield
                    await self.gather()
            self.add("log", "\n".join(lines))

    async def declare(self, url: str) -> None:
        """Write the objects that the program follows; `url` is the forge's."""
        put_secret(self.stage, "forge", token=TOKEN)
        put_secret(self.stage, "chat", address=url + CHAT + self.chat, token=self.chat)
        await self.source(interval="5s")
        await self.apply("Sink", "out", **self._sink(url))
        for name in self.units:
            await self.unit(name, sinkRef={"name": "out"})

    def _sink(self, url: str) -> dict[str, Any]:
        forge = {
            "type": "github", "url": url, "repo": REPO, "secretRef": {"name": "forge"},
            "pullRequest": {"comment": "plan", "check": "gitkruise/plan"},
            "deployment": {"environment": "on-{cluster}"},
        }  # fmt: skip
        notify = [
            {"type": kind, "secretRef": {"name": "chat"}, "severity": "info"}
            for kind in ("slack", "webhook")
        ]
        git = {"sourceRef": {"name": "src"}, "coalesce": "1s"}
        return {"git": git, "forge": forge, "notify": notify}

    # What people do -------------------------------------------------------------------------

    async def commit(self, files: Mapping[str, str | None], message: str) -> str:
        """Push to main, and let the program act on it."""
        commit = self.stage.origin.commit(files, message)
        self.forge.commits.add(commit)
        self.commits.append(commit)
        await self.rest(12)
        return commit

    async def pull(self, number: int, files: Mapping[str, str | None]) -> None:
        """Open a pull request that changes `files`, from a fork."""
        origin = self.stage.origin
        run_git(origin.work, "checkout", "--quiet", "--detach", "main")
        head = origin.commit(files, f"pull {number}", branch=f"pull-{number}")
        run_git(origin.bare, "update-ref", f"refs/pull/{number}/head", head)
        run_git(origin.work, "checkout", "--quiet", "main")
        self.forge.open_pull(number, head, repo=2)
        await self.rest(35)

    # What can be seen -----------------------------------------------------------------------

    async def gather(self) -> None:
        """Take in what every outlet shows now."""
        assert self.running is not None
        async with (
            aiohttp.ClientSession(trust_env=False) as session,
            session.get(self.running.metrics) as answer,
        ):
            self.add("metrics", await answer.text())
        state = self.folder / "state"
        for name, pattern in (("outbox", "outbox.sqlite*"), ("crashes", f"{FOLDER}/*")):
            self.add(name, b"\n".join(path.read_bytes() for path in state.glob(pattern)))
        self.add("cluster", msgspec.json.encode(list(self._reported_in_the_cluster())))
        self.add("forge and chat", b"\n".join(self.forge.received))
        self.forge.received.clear()

    def _reported_in_the_cluster(self) -> Iterator[Any]:
        """Objects that are ours, and our marks on all others."""
        for kind in _REPORTED_KINDS:
            for obj in self.stage.world.objects(kind):
                yield [obj["metadata"], obj.get("status"), obj.get("message")]
        for request in self.stage.wire.requests:
            meta = get(request.body, "metadata") if isinstance(request.body, dict) else None
            marks = (meta or {}).get("annotations") or {}
            yield [request.name, request.params, meta and meta.get("labels")]
            yield {k: v for k, v in marks.items() if k.startswith(GROUP)}
        self.stage.wire.requests.clear()

    def of_git(self) -> str:
        """The status branch, notes, and the names of all refs."""
        bare = self.stage.origin.bare
        refs = run_git(bare, "for-each-ref", "--format=%(refname)").split("\n")
        ours = [ref for ref in refs if "gitkruise" in ref]
        return run_git(bare, "log", "-p", "--format=raw", *ours, "--") + "\n".join(refs)

    def add(self, name: str, text: str | bytes) -> None:
        """Take in what an outlet shows."""
        data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
        self.texts[name] = self.texts.get(name, b"") + b"\n" + data


def hits(data: bytes, needles: frozenset[bytes]) -> list[str]:
    """The lines of `data` that hold one of `needles`, all of one length."""
    (size,) = {len(needle) for needle in needles}
    found = []
    for line in set(data.split(b"\n")):
        grams = {line[at : at + size] for at in range(len(line) - size + 1)}
        for needle in grams & needles:
            at = line.index(needle)
            found.append(repr(line[max(0, at - 120) : at + 60]))
            break
    return found
