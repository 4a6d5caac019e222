"""Sinks made ready: what is refused at the start, and how a GitHub App comes in."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
)

from gitkruise.app import RunningController, RunOptions, controller
from gitkruise.errors import UsageProblem
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.forges.factory import open_forge, root_of
from gitkruise.gitops.forges.github import DIALECTS, GitHubClient
from gitkruise.gitops.forges.github_app import AppKey, AppToken
from gitkruise.gitops.forges.http import JsonClient, JsonReply
from gitkruise.gitops.notify.factory import of_the_repository
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.config import ForgeSink, Reference
from gitkruise.model.gitops.notifications import CommitStatusItem
from gitkruise.wire.primitives.times import format_time
from tests.clock import ManualClock
from tests.gitops.forges.forges import reply
from tests.gitops.source.test_repositories import HEAD, configured, put_secret, source
from tests.gitops.stage import MakeStage, Stage
from tests.worlds import START

NAME: Final = Reference(name="forge")
SHA: Final = "c" * 40


def forge(kind: Any = "github", **more: Any) -> ForgeSink:
    return ForgeSink(type=kind, repo="shop/fleet", secret_ref=NAME, **more)


ROOTS: Final = [
    (forge(), "https://api.github.com"),
    (forge(url="https://ghe.example/"), "https://ghe.example/api/v3"),
    (forge("gitlab"), "https://gitlab.com/api/v4"),
    (forge("gitlab", url="https://lab.example/sub"), "https://lab.example/sub/api/v4"),
    (forge("gitea", url="https://git.example"), "https://git.example/api/v1"),
    (forge("forgejo", url="https://git.example"), "https://git.example/api/v1"),
]


@pytest.mark.parametrize(("spec", "root"), ROOTS)
def test_where_the_api_of_a_forge_is(spec: ForgeSink, root: str) -> None:
    assert root_of(spec) == root


BAD: Final = [
    ("type: gitea, repo: a/b", "forge.url", ":4:"),
    ("type: github, repo: b", "owner/name", ":4:"),
    ("type: github, repo: a/b/c", "owner/name", ":4:"),
    ("type: github, repo: ../b", "owner/name", ":4:"),
    ("type: gitea, repo: a/b, url: 'http://git.example'", "https://HOST", ":4:"),
    ("type: gitea, repo: a/b, url: 'https://me@git.example'", "https://HOST", ":4:"),
    ("type: gitea, repo: a/b, url: 'https://git.example?x=1'", "https://HOST", ":4:"),
    (
        "type: gitea, repo: a/b, url: 'https://git.example', deployment: {environment: prod}",
        "take it out",
        ":4:",
    ),
]
GOOD: Final = [
    "type: gitlab, repo: group/sub/name",
    "type: gitea, repo: a/b, url: 'http://127.0.0.1:3000'",
    "type: github, repo: a/b, pullRequest: {comment: none, check: ''}",
    "type: github, repo: a/b, deployment: {environment: 'prod-{cluster}'}",
]


def written(folder: Path, forge_: str) -> Path:
    file = folder / "gitkruise.yaml"
    file.write_text(
        f"{HEAD}kind: Sink\nmetadata: {{name: out}}\n"
        f"spec: {{forge: {{{forge_}, secretRef: {{name: forge}}}}}}\n"
    )
    return file


@pytest.mark.parametrize(("text", "words", "place"), BAD, ids=[b[0] for b in BAD])
def test_a_forge_nobody_could_speak_to_is_refused(
    tmp_path: Path, text: str, words: str, place: str
) -> None:
    with pytest.raises(UsageProblem) as caught:
        load_config(written(tmp_path, text))
    (finding,) = caught.value.findings
    assert finding.code == "GK7029"
    assert words in dict(finding.notes)["next"]
    assert place in str(finding.places[0])


@pytest.mark.parametrize(("rule", "words"), [
    ("{type: webhook, template: '{\"a\": ${state}}'", "gives no JSON"),
    ("{type: slack, template: '{}'", "slack has a format of its own"),
])  # fmt: skip
def test_a_template_that_nobody_could_fill_is_refused(
    tmp_path: Path, rule: str, words: str
) -> None:
    file = written(tmp_path, GOOD[0])
    rules = f"notify: [{rule}, secretRef: {{name: chat}}}}], forge:"
    file.write_text(file.read_text().replace("forge:", rules, 1))
    with pytest.raises(UsageProblem, match="GK7068") as caught:
        load_config(file)
    (finding,) = caught.value.findings
    assert words in finding.message
    assert finding.places[0].line == 4


@pytest.mark.parametrize("text", GOOD)
def test_a_forge_that_can_be_is_taken(tmp_path: Path, text: str) -> None:
    assert load_config(written(tmp_path, text)).sinks["default/out"].spec.forge


SECRETS: Final = [
    ("no token", {"password": "x"}, "it has no token"),
    ("blank", {"token": " \n"}, "it has no token"),
    ("two lines", {"token": "a\nb"}, "it has no token"),
    ("half an app", {"githubAppID": "7"}, "an app needs githubAppInstallationID"),
    ("no key", {"githubAppID": "7", "githubAppInstallationID": "8", "githubAppPrivateKey": "x"},
     "no RSA key"),
    ("no certificate", {"token": "x", "ca.crt": "nonsense"}, "ca.crt is no certificate"),
]  # fmt: skip


@pytest.mark.parametrize(("keys", "why"), [s[1:] for s in SECRETS], ids=[s[0] for s in SECRETS])
def test_a_secret_without_a_way_in_is_refused_without_its_values(
    staged: MakeStage, keys: Mapping[str, str], why: str
) -> None:
    stage = staged()
    put_secret(stage, "forge", **{k.replace(".", "__"): v for k, v in keys.items()})

    async def main() -> None:
        async with AsyncExitStack() as stack:
            await open_forge(forge(), "shop", stage.wire, stage.clock, stack)

    with pytest.raises(UsageProblem) as caught:
        asyncio.run(main())
    (finding,) = caught.value.findings
    notes = dict(finding.notes)
    assert finding.code == "GK7028"
    assert why in notes["why"]
    assert notes["found"] == ", ".join(sorted(keys))


def run(
    stage: Stage,
    folder: Path,
    spec: Mapping[str, Any],
    look: Callable[[RunningController], None] = lambda _: None,
) -> list[str]:
    """Start a controller whose Sink is `spec`; what is in its state directory then."""
    unit = {"sourceRef": {"name": "src"}, "sinkRef": {"name": "out"}}
    config = configured(
        folder,
        source("src", url=str(stage.origin.bare)),
        f"{HEAD}kind: Unit\nmetadata: {{name: web, namespace: shop}}\nspec: {unit}\n",
        f"{HEAD}kind: Sink\nmetadata: {{name: out, namespace: shop}}\nspec: {dict(spec)}\n",
    )
    state = folder / "state"

    async def main() -> None:
        options = RunOptions(config=config, cluster="test", state_dir=state, identity="me")
        async with controller(options, stage.wire, SystemClock()) as running:
            assert all(not p.problem for p in running.notifications.senders.values())
            look(running)

    asyncio.run(main())
    return sorted(path.name for path in state.glob("outbox*"))


@pytest.mark.slow
def test_a_missing_secret_and_a_missing_address_are_warnings_of_units(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage, warnings = staged(), list[str]()

    def look(running: RunningController) -> None:
        record = running.reporters["shop/web"].record
        warnings[:] = [
            f"{f} next: {dict(f.notes)['next']}" for f in record.findings if not f.is_error
        ]

    github = {"type": "github", "repo": "shop/fleet", "secretRef": {"name": "forge"}}
    chat = {"notify": [{"type": "slack", "secretRef": {"name": "chat"}}]}
    run(stage, tmp_path, {"forge": github}, look)
    assert any(text.startswith("GK4203: Sink shop/out: ") for text in warnings)
    for address in ("http://chat.example/x", "chat.example", ""):
        put_secret(stage, "chat", address=address)
        run(stage, tmp_path, chat, look)
        assert any("GK7028" in text and "next: give it address" in text for text in warnings)
    put_secret(stage, "chat", address="https://127.0.0.1:9/x")
    assert run(stage, tmp_path, chat, look) == ["outbox.sqlite"]
    assert not warnings


def test_deployments_have_a_channel_of_their_own(staged: MakeStage, tmp_path: Path) -> None:
    stage, channels = staged(), list[str]()
    put_secret(stage, "forge", token="x")
    hub = {"type": "github", "url": "http://127.0.0.1:9", "repo": "a/b"}
    for more in ({}, {"deployment": {"environment": "prod"}}):
        spec = {"forge": {**hub, "secretRef": {"name": "forge"}, **more}}
        run(stage, tmp_path, spec, lambda running: channels.extend(running.notifications.senders))
    assert channels == ["shop/out/forge", "shop/out/forge", "shop/out/deployment"]


def test_without_a_forge_nothing_is_kept(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    assert run(stage, tmp_path, {"git": {"sourceRef": {"name": "src"}}}) == []


class Apps:
    """GitHub as apps see it: gives tokens for an hour to who can sign, and takes them."""

    def __init__(self, clock: ManualClock, key: rsa.RSAPrivateKey) -> None:
        self.clock, self.key = clock, key
        self.given = 0
        self.asked: list[str] = []

    async def exchange(
        self, method: str, url: str, headers: Mapping[str, str], _body: bytes | None
    ) -> JsonReply:
        self.asked.append(f"{method} {url}")
        kind, _, word = headers["Authorization"].partition(" ")
        assert kind == "Bearer"
        if url.endswith("/access_tokens"):
            self.claim(word)
            self.given += 1
            ends = format_time(self.clock.now() + timedelta(hours=1))
            return reply(201, {"token": f"ghs_{self.given}", "expires_at": ends})
        if url.endswith("/app"):
            self.claim(word)
            return reply(200, {"slug": "our-gitkruise"})
        assert word == f"ghs_{self.given}"
        return reply(201, {})

    def claim(self, token: str) -> None:
        head, body, signature = token.split(".")
        signed = base64.urlsafe_b64decode(signature + "==")
        content = f"{head}.{body}".encode()
        self.key.public_key().verify(signed, content, padding.PKCS1v15(), SHA256())
        claims = json.loads(base64.urlsafe_b64decode(body + "=="))
        now = self.clock.now().timestamp()
        assert claims["iss"] == "77"
        assert claims["iat"] <= now < claims["exp"] <= now + 600


def test_an_app_signs_itself_in_and_renews_its_token() -> None:
    clock = ManualClock(START)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    hub = Apps(clock, key)

    async def main() -> None:
        root = "https://api.github.com"
        app = AppToken(AppKey.read("77", "88", pem.decode()), hub, root, clock)
        calls = JsonClient(hub, root, app.headers, clock)

        async def ours() -> AppToken:
            return app

        client = GitHubClient(calls, "shop/fleet", DIALECTS["github"], ours)
        for _ in range(3):
            await client.set_status(CommitStatusItem(SHA, "x", "success", ""))
        assert hub.given == 1
        await clock.sleep(3400)
        await client.set_status(CommitStatusItem(SHA, "x", "success", ""))
        assert hub.given == 2
        assert await client.me() == "our-gitkruise[bot]"

    clock.run(main())
    assert hub.asked[0] == "POST https://api.github.com/app/installations/88/access_tokens"


def test_a_record_says_while_news_do_not_arrive(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    put_secret(stage, "chat", address="http://127.0.0.1:9/x")
    chat = {"notify": [{"type": "slack", "secretRef": {"name": "chat"}}]}
    found: list[str] = []

    def look(running: RunningController) -> None:
        (sender,) = running.notifications.senders.values()
        reporter = running.reporters["shop/web"]
        sender.on_problem("messages do not arrive: connection refused")
        found.extend(f.message for f in reporter.record.findings)
        assert reporter.record.findings[-1].severity == "warning"
        sender.on_problem("")
        assert not [f for f in reporter.record.findings if f.code == "GK3503"]

    run(stage, tmp_path, chat, look)
    assert "shop/out/notify/0: messages do not arrive: connection refused" in found


def test_a_record_says_while_pull_requests_are_not_read(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    put_secret(stage, "forge", token="x")
    hub = {"type": "github", "url": "http://127.0.0.1:9", "repo": "a/b"}

    def look(running: RunningController) -> None:
        ((loop,),) = running.notifications.pulls.values()
        reporter = running.reporters["shop/web"]
        loop.on_problem("Not Found")
        messages = [f.message for f in reporter.record.findings if f.code == "GK3503"]
        assert messages == ["shop/out: open pull requests are not read or planned: Not Found"]
        loop.on_problem("")
        assert not [f for f in reporter.record.findings if f.code == "GK3503"]

    run(stage, tmp_path, {"forge": {**hub, "secretRef": {"name": "forge"}}}, look)


@pytest.mark.parametrize(
    ("urls", "mine"),
    [
        (["https://git.example/shop/fleet.git", "https://git.example/shop/other.git"], ["u0"]),
        (["git@git.example:shop/fleet.git", "https://x.example/Shop/Fleet"], ["u0", "u1"]),
        (["https://mirror.example/a.git", "https://mirror.example/b.git"], ["u0", "u1"]),
        (["https://git.example/workshop/fleet.git", "ssh://git.example/shop/fleet"], ["u1"]),
    ],
)
def test_commits_are_reported_to_the_forge_that_has_them(
    tmp_path: Path, urls: list[str], mine: list[str]
) -> None:
    texts = [source(f"s{n}", url=url) for n, url in enumerate(urls)]
    for n in range(len(urls)):
        meta = f"metadata: {{name: u{n}, namespace: shop}}"
        texts.append(f"{HEAD}kind: Unit\n{meta}\nspec: {{sourceRef: {{name: s{n}}}}}\n")
    config = configured(tmp_path, *texts)
    found = of_the_repository(forge(), list(config.units.values()), config)
    assert [unit.name for unit in found] == mine
