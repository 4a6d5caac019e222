"""What a Receiver answers: nothing to strangers, a status to forges."""

from __future__ import annotations

import asyncio
import base64
import io
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest
from multidict import CIMultiDict

from gitkruise.errors import ClusterFailed, NotFound, UsageProblem
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.forges.webhook_payloads import Push
from gitkruise.gitops.receiver.dispatch import WINDOW_S, Debounce, Followed
from gitkruise.gitops.receiver.endpoints import (
    BODY_MAX,
    REMEMBERED_MAX,
    REMEMBERED_S,
    WebhookEndpoint,
)
from gitkruise.gitops.receiver.server import (
    HookAddress,
    ReceiverServer,
    open_receivers,
    path_of,
)
from gitkruise.kube.serve.addresses import Listen, parse_listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.config import Config, GitRef, GitSource, GitSourceSpec
from gitkruise.sandbox.backend.cluster import Cluster
from tests.clock import ManualClock
from tests.gitops.deliveries import BODIES, KEY, signed, text
from tests.gitops.source.test_repositories import HEAD, configured, put_secret, source
from tests.gitops.stage import MakeStage, Stage, Wire
from tests.worlds import START

URLS: Final = {
    "github": "https://github.com/Codertocat/Hello-World.git",
    "gitea": "ssh://gitea@localhost:2222/gitea/webhooks.git",
    "forgejo": "ssh://gitea@localhost:2222/gitea/webhooks.git",
    "gitlab": "git@example.com:mike/diaspora.git",
    "bitbucket": "https://bitbucket.org/team/repo",
    "generic-hmac": "/srv/git/fleet.git",
}
REFS: Final = {
    "github": {"branch": "main"}, "gitea": {"branch": "develop"}, "forgejo": {}, "gitlab": {},
    "bitbucket": {"tag": "v1"}, "generic-hmac": {"semver": "^2"},
}  # fmt: skip


def receiver(name: str, kind: str, *sources: str) -> str:
    spec = {"type": kind, "secretRef": {"name": "hook"}}
    more = {"sources": [{"name": one} for one in sources]} if sources else {}
    meta = f"metadata: {{name: {name}, namespace: shop}}"
    return f"{HEAD}kind: Receiver\n{meta}\nspec: { {**spec, **more} }\n"


class Looks:
    """A polling that only counts."""

    def __init__(self) -> None:
        self.count = 0

    def look_now(self) -> None:
        self.count += 1


Script = Callable[[aiohttp.ClientSession, ReceiverServer, dict[str, Looks]], Awaitable[None]]


def listening(stage: Stage, config: Config, script: Script) -> None:
    """Run `script` beside the Receivers of `config`, on real sockets."""

    async def main() -> None:
        looks: Any = {name: Looks() for name in config.sources}
        clock = SystemClock()
        async with AsyncExitStack() as stack:
            around = (Wire(stage.cluster), clock)
            server = await open_receivers(
                config, looks, HookAddress(Listen(port=0)), *around, stack
            )
            async with asyncio.TaskGroup() as tasks, aiohttp.ClientSession() as session:
                debounces = [tasks.create_task(debounce.run()) for debounce in server.debounces]
                await script(session, server, looks)
                for debounce in debounces:
                    debounce.cancel()

    stage.cluster = Cluster(stage.world, stage.clock.now)
    asyncio.run(main())


async def knock(session: aiohttp.ClientSession, url: str, body: bytes, **headers: str) -> int:
    async with session.post(url, data=io.BytesIO(body), headers=headers) as answer:
        assert await answer.read() == b""
        return answer.status


@pytest.mark.slow
def test_a_push_reaches_every_program_of_a_process(staged: MakeStage, tmp_path: Path) -> None:
    stage, body = staged(), text(BODIES["github"])
    put_secret(stage, "hook", token=KEY)
    config = configured(
        tmp_path,
        source("mine", url=URLS["github"], ref=REFS["github"]),
        receiver("forge", "github"),
    )

    async def main() -> list[int]:
        looks: list[Any] = [{name: Looks() for name in config.sources} for _ in range(2)]
        around, address = (Wire(stage.cluster), SystemClock()), HookAddress(Listen(port=0))
        async with AsyncExitStack() as first, AsyncExitStack() as second:
            url = ""
            async with asyncio.TaskGroup() as tasks, aiohttp.ClientSession() as session:
                running = []
                for one, stack in zip(looks, (first, second), strict=True):
                    server = await open_receivers(config, one, address, *around, stack)
                    (url,) = server.urls.values()
                    running += [tasks.create_task(one.run()) for one in server.debounces]
                headers = signed("github", body)
                assert await knock(session, url, body, **headers) == 202
                await first.aclose()
                assert await knock(session, url, body, **signed("github", body)) == 200
                for task in running:
                    task.cancel()
        return [look.count for one in looks for look in one.values()]

    stage.cluster = Cluster(stage.world, stage.clock.now)
    assert asyncio.run(main()) == [1, 1]


@pytest.mark.parametrize("kind", sorted(URLS))
def test_a_push_makes_those_look_whom_it_concerns(
    staged: MakeStage, tmp_path: Path, kind: str
) -> None:
    stage, body = staged(), text(BODIES[kind])
    put_secret(stage, "hook", token=KEY + "\n")
    config = configured(
        tmp_path,
        source("mine", url=URLS[kind], ref=REFS[kind]),
        source("ref", url=URLS[kind], ref={"branch": "other"}),
        source("far", url="https://example.com/other.git"),
        receiver("forge", kind),
    )

    async def script(session: Any, server: ReceiverServer, looks: dict[str, Looks]) -> None:
        url, headers = server.urls["shop/forge"], signed(kind, body)
        assert url.startswith("http://127.0.0.1:")
        assert await knock(session, url, body, **headers) == 202
        assert await knock(session, url, body, **headers) == 200  # again
        await asyncio.sleep(0)
        assert {n: look.count for n, look in looks.items()} == {
            "shop/mine": 1, "shop/ref": 0, "shop/far": 0,
        }  # fmt: skip

    listening(stage, config, script)


def test_what_no_forge_sends_is_refused(staged: MakeStage, tmp_path: Path) -> None:
    stage, body = staged(), text(BODIES["github"])
    put_secret(stage, "hook", token=KEY, previousToken="x" * 16)
    config = configured(tmp_path, source("src", url=URLS["github"]), receiver("forge", "github"))
    good = signed("github", body)
    bare = {"Content-Type": "application/json"}
    long = b" " * (BODY_MAX + 1)

    async def pieces() -> Any:
        for at in range(0, len(long), 65_536):
            yield long[at : at + 65_536]

    async def script(session: Any, server: ReceiverServer, looks: dict[str, Looks]) -> None:
        url = server.urls["shop/forge"]
        rows: list[tuple[bytes, dict[str, str], int]] = [
            (body, bare, 401),
            (body, signed("github", body, key="another"), 401),
            (body + b" ", good, 401),
            (b"not JSON", bare, 401),
            (b"not JSON", signed("github", b"not JSON", delivery="odd"), 400),
            (b"not JSON", signed("github", b"not JSON", delivery="odd"), 400),  # sent again
            (body, {**good, "X-GitHub-Event": "ping"}, 200),
            (body, {**good, "Content-Encoding": "gzip"}, 415),
            (body, {**good, "Content-Type": "multipart/form-data"}, 415),
            (long, signed("github", long), 413),
        ]
        for data, headers, status in rows:
            assert await knock(session, url, data, **headers) == status, headers
        async with session.post(url, data=pieces(), headers=bare) as answer:
            assert answer.status == 413  # while it streams
        for path in (
            "",
            "/",
            "/hook/",
            "/hook/" + "0" * 32,
            url[-38:] + "/",
            url[-38:] + "?x=1/..",
        ):
            async with session.post(url[:-38] + path, data=body, headers=good) as answer:
                assert answer.status == (202 if "?" in path else 404)
        for method in ("GET", "HEAD", "OPTIONS", "PUT", "DELETE"):
            async with session.request(method, url) as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, "POST")
        previous = signed("github", body, key="x" * 16, delivery="two")
        assert await knock(session, url, body, **previous) == 202

    listening(stage, config, script)


def test_a_body_that_breaks_off_is_none(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    put_secret(stage, "hook", token=KEY)
    config = configured(tmp_path, source("src", url=URLS["github"]), receiver("x", "github"))

    async def script(_: Any, server: ReceiverServer, looks: dict[str, Looks]) -> None:
        host, _, path = server.urls["shop/x"].removeprefix("http://").partition("/")
        reader, writer = await asyncio.open_connection(*host.split(":"))
        head = f"POST /{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\nzz\r\n".encode())
        assert (await reader.readline()).split()[1] == b"400"
        writer.close()

    listening(stage, config, script)


SLOW = 50


def test_slow_senders_hold_up_no_one(staged: MakeStage, tmp_path: Path) -> None:
    stage, body = staged(), text(BODIES["github"])
    put_secret(stage, "hook", token=KEY)
    config = configured(tmp_path, source("src", url=URLS["github"]), receiver("x", "github"))

    async def script(session: Any, server: ReceiverServer, looks: dict[str, Looks]) -> None:
        url, go, inside = server.urls["shop/x"], asyncio.Event(), asyncio.Semaphore(0)

        async def slow() -> AsyncIterator[bytes]:
            yield body[:10]
            inside.release()
            await go.wait()
            yield body[10:]

        async def wait(number: int) -> None:
            headers = signed("github", body, delivery=str(number))
            async with session.post(url, data=slow(), headers=headers) as answer:
                assert answer.status == 202

        async with asyncio.TaskGroup() as tasks:
            for number in range(SLOW):
                tasks.create_task(wait(number))
                await inside.acquire()
            assert await knock(session, url, body, **signed("github", body)) == 202
            go.set()

    listening(stage, config, script)


def endpoint(clock: ManualClock, rung: list[str]) -> WebhookEndpoint:
    debounce = Debounce(lambda: None, clock)
    vars(debounce)["trigger"] = lambda: rung.append("looks")
    spec = GitSourceSpec(url=URLS["github"], ref=GitRef(branch="main"))
    followed = [Followed(GitSource("shop", "src", spec), debounce)]
    return WebhookEndpoint("shop/forge", "github", (KEY,), followed, clock, named=False)


def test_deliveries_are_remembered_for_ten_minutes_and_not_all_of_them() -> None:
    clock, rung = ManualClock(START), list[str]()
    one, body = endpoint(clock, rung), text(BODIES["github"])

    def deliver(name: str) -> int:
        headers = CIMultiDict(signed("github", body, delivery=name))
        return one.accept(headers, "application/json", body)

    assert [deliver("a") for _ in range(1_000)] == [202] + [200] * 999
    assert rung == ["looks"]
    clock.advance(REMEMBERED_S + 1)
    assert deliver("a") == 202
    assert list(one.seen) == ["a"]
    one.seen.update({str(n): clock.monotonic() for n in range(REMEMBERED_MAX - 1)})
    assert deliver("b") == 202
    assert len(one.seen) == REMEMBERED_MAX
    assert "a" not in one.seen


def test_a_stranger_leaves_no_trace_but_a_count(caplog: pytest.LogCaptureFixture) -> None:
    one, body = endpoint(ManualClock(START), []), text(BODIES["github"])
    headers = CIMultiDict(signed("github", body, key="another"))
    assert {one.accept(headers, "application/json", body) for _ in range(100)} == {401}
    assert (one.refused, len(one.seen), len(caplog.records)) == (100, 0, 7)
    assert "Codertocat" not in caplog.text


def test_a_named_source_takes_any_repository() -> None:
    clock, rung = ManualClock(START), list[str]()
    one = endpoint(clock, rung)
    one.followed[0].receive(Push(("https://elsewhere/x",), ("refs/heads/main",)), named=False)
    assert rung == []
    one.followed[0].receive(Push(("https://elsewhere/x",), ("refs/heads/main",)), named=True)
    assert rung == ["looks"]


def test_many_hints_are_one_look_a_window() -> None:
    clock, looks = ManualClock(START), Looks()
    debounce = Debounce(looks.look_now, clock)

    async def script() -> None:
        async with asyncio.TaskGroup() as tasks:
            job = tasks.create_task(debounce.run())
            debounce.trigger()
            await clock.sleep(0)
            await clock.sleep(0)
            assert looks.count == 1  # at once
            for _ in range(40):
                debounce.trigger()
                await clock.sleep(WINDOW_S / 10)
            await clock.sleep(5)
            assert looks.count == 1 + 4
            job.cancel()

    clock.run(script())


@pytest.mark.parametrize(
    ("kind", "keys"),
    [
        ("github", {}),
        ("github", {"token": ""}),
        ("github", {"token": "x" * 15 + "\n"}),
        ("github", {"previousToken": KEY}),
        ("github", {"token": KEY, "previousToken": "short"}),
        ("gitlab", {"token": "whsec_not base64 at all"}),
        ("gitlab", {"token": "whsec_" + base64.b64encode(b"short").decode()}),
    ],
)
def test_without_a_proper_key_nothing_listens(
    staged: MakeStage, tmp_path: Path, kind: str, keys: dict[str, str]
) -> None:
    stage = staged()
    put_secret(stage, "hook", **keys)
    config = configured(tmp_path, source("src", url=URLS[kind]), receiver("forge", kind))

    async def nothing(*_: Any) -> None:
        raise AssertionError("it listens")

    with pytest.raises(UsageProblem) as caught:
        listening(stage, config, nothing)
    assert [f.code for f in caught.value.findings] == ["GK7026"]
    assert not any(key in str(caught.value) for key in keys.values() if key)


def test_a_secret_that_is_missing_is_named(staged: MakeStage, tmp_path: Path) -> None:
    config = configured(tmp_path, source("src", url=URLS["github"]), receiver("x", "github"))

    async def nothing(*_: Any) -> None:
        raise AssertionError("it listens")

    with pytest.raises((NotFound, ClusterFailed), match="hook"):
        listening(staged(), config, nothing)


def test_a_source_that_is_not_configured_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    file.write_text(receiver("x", "github", "none"))
    with pytest.raises(UsageProblem, match=r"spec\.sources\[0\] names shop/none"):
        load_config(file)


@pytest.mark.parametrize(
    ("words", "listen"),
    [
        ("127.0.0.1:9292", Listen()),
        ("[::1]:80", Listen("::1", 80)),
        (":0", Listen("0.0.0.0", 0)),
        *((bad, None) for bad in ("9292", "x:", "::1:80", "h:70000", "h:-1", "h:²")),
    ],
)
def test_addresses_to_listen_at(words: str, listen: Listen | None) -> None:
    if listen is None:
        with pytest.raises(UsageProblem, match="GK7027"):
            parse_listen(words)
    else:
        assert parse_listen(words) == listen


def test_a_taken_port_is_reported(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    put_secret(stage, "hook", token=KEY)
    config = configured(tmp_path, source("src", url=URLS["github"]), receiver("x", "github"))

    async def script(_: Any, server: ReceiverServer, looks: Any) -> None:
        port = int(server.urls["shop/x"].split(":")[2].partition("/")[0])
        around = (Wire(stage.cluster), SystemClock())
        async with AsyncExitStack() as stack:
            with pytest.raises(UsageProblem, match="GK7027"):
                await open_receivers(config, looks, HookAddress(Listen(port=port)), *around, stack)

    listening(stage, config, script)


def test_a_path_is_the_same_at_every_start_and_nobody_can_guess_it() -> None:
    assert path_of("shop/x", KEY) == path_of("shop/x", KEY)
    assert len({path_of(name, key) for name in ("a/x", "a/y") for key in (KEY, KEY + "2")}) == 4
