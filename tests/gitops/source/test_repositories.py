"""Configuration becomes sources: one repository for equal ones, secrets by Flux's key names."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gitkruise.app import RunningController, RunOptions, controller
from gitkruise.errors import ClusterFailed, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.source.repositories import open_sources, trust_sources
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.record import UnitRecord
from tests.git.keys import sign, ssh_key
from tests.git.repos import run_git, serve
from tests.git.tls import context, issue
from tests.gitops.stage import MakeStage, Stage, config_map, documents

BASIC = "Basic " + base64.b64encode(b"dana:canary-pass").decode()
HEAD = "apiVersion: gitkruise.io/v1alpha1\n"


def source(name: str, **spec: Any) -> str:
    return f"{HEAD}kind: GitSource\nmetadata: {{name: {name}, namespace: shop}}\nspec: {spec}\n"


def unit(name: str, of: str, path: str = ".") -> str:
    spec = {"sourceRef": {"name": of}, "path": path}
    return f"{HEAD}kind: Unit\nmetadata: {{name: {name}, namespace: shop}}\nspec: {spec}\n"


def configured(folder: Path, *texts: str) -> Config:
    file = folder / "gitkruise.yaml"
    file.write_text("---\n".join(texts))
    return load_config(file)


def put_secret(stage: Stage, name: str, **keys: str | bytes) -> None:
    data = {
        key.replace("__", "."): base64.b64encode(
            text.encode() if isinstance(text, str) else text
        ).decode()
        for key, text in keys.items()
    }
    stage.meddle({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": data})


async def opened(
    stage: Stage, config: Config, folder: Path, stack: AsyncExitStack
) -> Mapping[str, Repository]:
    return await open_sources(config.sources, folder / "state", stage.wire, stack)


def test_equal_sources_share_a_repository(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    url = "https://127.0.0.1:9/x.git"
    one, two, other = ({"secretRef": {"name": name}} for name in ("one", "two", "other"))
    config = configured(
        tmp_path,
        source("plain", url=url), source("branch", url=url, ref={"branch": "b"}),
        source("one", url=url, **one), source("two", url=url, **two),
        source("other", url=url, **other), source("far", url="https://127.0.0.1:9/y.git"),
    )  # fmt: skip

    async def script() -> None:
        for name, password in (("one", "x"), ("two", "x"), ("other", "y")):
            put_secret(stage, name, username="dana", password=password)
        async with AsyncExitStack() as stack:
            found = await opened(stage, config, tmp_path, stack)
            names = {name: id(repository) for name, repository in found.items()}
            assert names["shop/plain"] == names["shop/branch"]
            assert names["shop/one"] != names["shop/two"]  # its Secret may hold others tomorrow
            assert len(set(names.values())) == 5
            folders = {repository.git_dir for repository in found.values()}
            assert len(folders) == 5  # no source reads what another's secret brought

    stage.play(script)


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"githubAppID": "7"}, "GK7025"),
        ({}, "GK7025"),
        ({"password": b"\xff\xfe"}, "GK7025"),
        ({"tls__crt": "x"}, "GK7025"),
    ],
)
def test_a_secret_without_credentials_is_refused(
    staged: MakeStage, tmp_path: Path, keys: dict[str, str | bytes], code: str
) -> None:
    stage = staged()
    ref = {"name": "git"}
    config = configured(tmp_path, source("src", url="https://127.0.0.1:9/x.git", secretRef=ref))

    async def script() -> None:
        put_secret(stage, "git", **keys)
        async with AsyncExitStack() as stack:
            with pytest.raises(UsageProblem) as caught:
                await opened(stage, config, tmp_path, stack)
            assert caught.value.findings[0].code == code

    stage.play(script)


@pytest.mark.parametrize("form", [("-t", "ed25519"), ("-t", "rsa", "-m", "PEM")])
def test_a_key_with_a_passphrase_needs_the_passphrase(
    staged: MakeStage, tmp_path: Path, form: tuple[str, ...]
) -> None:
    stage = staged()
    config = configured(
        tmp_path, source("src", url="ssh://git@127.0.0.1:9/x.git", secretRef={"name": "git"})
    )
    for name, passphrase in (("plain", ""), ("locked", "sesame")):
        ssh_key(tmp_path, name, passphrase, *form)
    plain, locked = ((tmp_path / name).read_text() for name in ("plain", "locked"))

    async def script() -> None:
        put_secret(stage, "git", identity=locked, known_hosts="x")
        async with AsyncExitStack() as stack:
            with pytest.raises(UsageProblem) as caught:
                await opened(stage, config, tmp_path, stack)
            (finding,) = caught.value.findings
            assert finding.code == "GK7025"
            assert "an identity with a passphrase, and no password" in finding.message
        for entries in ({"identity": plain}, {"identity": locked, "password": "sesame"}):
            put_secret(stage, "git", known_hosts="x", **entries)
            async with AsyncExitStack() as stack:
                await opened(stage, config, tmp_path, stack)

    stage.play(script)


def test_keys_to_trust_come_from_their_secret(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    bo = ssh_key(tmp_path, "bo")
    plain = stage.origin.commit({"a": "1"})
    sign(stage.origin, "commit", "-q", "--allow-empty", "-S", "-m", "x", ssh=tmp_path / "bo")
    run_git(stage.origin.work, "push", "--quiet", "origin", "HEAD:main")
    good = run_git(stage.origin.work, "rev-parse", "HEAD")
    verify = {"mode": "head", "secretRef": {"name": "keys"}}
    url = str(stage.origin.bare)
    config = configured(tmp_path, source("src", url=url, verify=verify), source("any", url=url))

    async def script() -> None:
        put_secret(stage, "keys", bo__sshpub=bo)
        async with AsyncExitStack() as stack:
            found = await opened(stage, config, tmp_path, stack)
            trusts = await trust_sources(
                config.sources, found, tmp_path / "state", stage.wire, stage.clock
            )
            assert trusts["shop/src"](good, "refs/heads/main") is None
            unsigned = trusts["shop/src"](plain, "refs/heads/main")
            assert unsigned is not None
            assert unsigned.code == "GK3302"
            assert trusts["shop/any"](plain) is None

    stage.play(script)
    assert (tmp_path / "state" / "seen" / "shop.src").exists()


class News:
    """Records by unit, as the program tells them."""

    def __init__(self) -> None:
        self.records: dict[str, UnitRecord] = {}

    def __call__(self, record: UnitRecord) -> None:
        self.records[record.unit] = record


@pytest.mark.slow
def test_a_program_follows_a_range_and_takes_only_what_is_signed(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage, news = staged(), News()
    bo = ssh_key(tmp_path, "bo")
    url = str(stage.origin.bare)
    verify = {"mode": "tag", "secretRef": {"name": "keys"}}
    config = configured(
        tmp_path,
        source("releases", url=url, ref={"semver": ">=1.0.0"}, verify=verify, ignore="draft.yaml"),
        unit("web", "releases"),
    )

    def release(version: str, *how: str) -> None:
        text = documents(config_map("settings", version=version))
        stage.origin.commit({"app.yaml": text, "draft.yaml": "{{ not YAML"}, version)
        sign(stage.origin, "tag", *how, version, ssh=tmp_path / "bo")
        run_git(stage.origin.work, "push", "--quiet", "origin", version)

    async def look(running: RunningController) -> tuple[str, str]:
        await running.pollings["shop/releases"].check()
        await stage.rest()
        return (
            str(news.records["shop/web"].state),
            stage.get("ConfigMap", "settings")["data"]["version"],
        )

    async def script() -> None:
        put_secret(stage, "keys", bo__sshpub=bo)
        options = RunOptions(
            config=config, cluster="test", state_dir=tmp_path / "state", identity="me",
            listeners=(news,),
        )  # fmt: skip
        release("1.0.0", "-s", "-m", "x")
        async with controller(options, stage.wire, stage.clock) as running:
            assert await look(running) == ("Done", "1.0.0")
            release("1.1.0", "-a", "-m", "x")
            assert await look(running) == ("Rejected", "1.0.0")
            assert [f.code for f in news.records["shop/web"].findings] == ["GK3302"]
            release("1.2.0", "-s", "-m", "x")
            assert await look(running) == ("Done", "1.2.0")

    stage.play(script)


def test_a_start_without_a_secret_names_the_source_and_the_next_step(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    config = configured(
        tmp_path,
        source("src", url="https://127.0.0.1:9/x.git", secretRef={"name": "lost"}),
        unit("web", "src"),
    )
    options = RunOptions(config=config, cluster="test", state_dir=tmp_path / "state", identity="me")

    async def script() -> None:
        with pytest.raises(ClusterFailed) as caught:
            await AsyncExitStack().enter_async_context(controller(options, stage.wire, stage.clock))
        (finding,) = caught.value.findings
        assert finding.code == "GK4203"
        assert finding.message == 'GitSource shop/src: secrets "lost" not found'
        assert dict(finding.notes)["next"] == "create it, or correct the reference"

    stage.play(script)


@pytest.mark.slow
def test_credentials_rotate_while_they_are_in_use(staged: MakeStage, tmp_path: Path) -> None:
    stage, news = staged(), News()
    authority = issue("authority")
    tls = context(tmp_path, issue("server", authority))
    stage.origin.commit({"app.yaml": documents(config_map("settings", version="1"))}, "first")

    def changed(password: str) -> None:
        put_secret(stage, "git", ca__crt=authority.certificate, username="dana", password=password)

    async def script() -> None:
        changed("forgotten")
        with serve(tmp_path, BASIC, tls=tls) as base:
            ref = {"secretRef": {"name": "git"}}
            config = configured(
                tmp_path, source("src", url=f"{base}/origin.git", **ref), unit("web", "src")
            )
            options = RunOptions(
                config=config, cluster="test", state_dir=tmp_path / "state", identity="me",
                listeners=(news,),
            )  # fmt: skip
            async with controller(options, stage.wire, stage.clock) as running:
                await running.pollings["shop/src"].check()
                await stage.rest(5)
                assert [f.code for f in news.records["shop/web"].findings] == ["GK3102"]
                put_secret(stage, "git", ssh="a key of another kind")
                await running.pollings["shop/src"].check()
                await stage.rest(5)
                (finding,) = news.records["shop/web"].findings
                assert "; its Secret git cannot be read: " in finding.message
                changed("canary-pass")
                await running.pollings["shop/src"].check()
                await stage.rest(30)
                assert str(news.records["shop/web"].state) == "Done"

    stage.play(script)


@pytest.mark.slow
def test_a_start_without_mirror_and_remote_reports_the_remote_alone(
    staged: MakeStage, tmp_path: Path
) -> None:
    """A commit that was never fetched is no damage of the repository."""
    stage, news = staged(), News()
    stage.origin.commit({"app.yaml": documents(config_map("settings", version="1"))}, "first")

    def options(name: str) -> RunOptions:
        ref = {"secretRef": {"name": "git"}}
        config = configured(
            tmp_path, source("src", url=f"{served}/origin.git", **ref), unit("web", "src")
        )
        return RunOptions(
            config=config, cluster="test", state_dir=tmp_path / name, identity="me",
            listeners=(news,),
        )  # fmt: skip

    async def look(state: str, password: str) -> list[str]:
        put_secret(stage, "git", ca__crt=authority.certificate, username="dana", password=password)
        async with controller(options(state), stage.wire, stage.clock) as running:
            await running.pollings["shop/src"].check()
            await stage.rest(30)
            return [f.code for f in news.records["shop/web"].findings]

    async def script() -> None:
        assert await look("first", "canary-pass") == []
        assert await look("second", "forgotten") == ["GK3102"]
        assert stage.get("ConfigMap", "settings")["data"]["version"] == "1"
        assert await look("second", "canary-pass") == []

    authority = issue("authority")
    tls = context(tmp_path, issue("server", authority))
    with serve(tmp_path, BASIC, tls=tls) as served:
        stage.play(script)


@pytest.mark.slow
def test_keys_to_trust_rotate_and_nobody_is_trusted_without_any(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage, news = staged(), News()
    bo, ada = ssh_key(tmp_path, "bo"), ssh_key(tmp_path, "ada")
    verify = {"mode": "head", "secretRef": {"name": "keys"}}
    url = str(stage.origin.bare)
    config = configured(tmp_path, source("src", url=url, verify=verify), unit("web", "src"))

    def push(version: str, who: str) -> None:
        text = documents(config_map("settings", version=version))
        (stage.origin.work / "app.yaml").write_text(text)
        run_git(stage.origin.work, "add", "app.yaml")
        sign(stage.origin, "commit", "-q", "-S", "-m", version, ssh=tmp_path / who)
        run_git(stage.origin.work, "push", "--quiet", "origin", "HEAD:main")

    async def look(running: RunningController) -> tuple[str, list[str]]:
        await running.pollings["shop/src"].check()
        await stage.rest(30)
        codes = [f.code for f in news.records["shop/web"].findings]
        return stage.get("ConfigMap", "settings")["data"]["version"], codes

    async def script() -> None:
        put_secret(stage, "keys", bo__sshpub=bo)
        options = RunOptions(
            config=config, cluster="test", state_dir=tmp_path / "state", identity="me",
            listeners=(news,),
        )  # fmt: skip
        push("1", "bo")
        async with controller(options, stage.wire, stage.clock) as running:
            assert await look(running) == ("1", [])
            push("2", "ada")
            assert await look(running) == ("1", ["GK3301"])
            put_secret(stage, "keys", bo__sshpub=bo, ada__sshpub=ada)
            assert await look(running) == ("2", [])
            put_secret(stage, "keys", ada__sshpub=ada)
            push("3", "bo")
            assert await look(running) == ("2", ["GK3301"])
            put_secret(stage, "keys")
            push("4", "ada")
            assert await look(running) == ("2", ["GK3306"])
            assert str(news.records["shop/web"].state) == "Done", "no commit was refused"
            put_secret(stage, "keys", ada__sshpub=ada)
            assert await look(running) == ("4", [])

    stage.play(script)
