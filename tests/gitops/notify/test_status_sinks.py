"""Status branches written by a key of their own, and signed so that git itself believes it."""

from __future__ import annotations

import asyncio
import base64
import shutil
import subprocess
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from gitkruise.app import RunOptions, controller
from gitkruise.errors import ClusterFailed, SourceFailed, UsageProblem
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.repository.remote import Keyring
from gitkruise.git.signing.sign import Signer
from gitkruise.gitops.source.repositories import Renewal
from gitkruise.gitops.status.sinks import open_status_sinks
from gitkruise.kube.system.clock import SystemClock
from tests.conftest import need
from tests.git.keys import Gpg, ssh_key
from tests.git.repos import ENV, run_git, serve
from tests.git.tls import context, issue
from tests.gitops.source.test_repositories import HEAD, configured, put_secret, source
from tests.gitops.stage import NOTES, STATUS, MakeStage, Stage, config_map, documents

pytestmark = pytest.mark.slow


def options_for(folder: Path, url: str, git: dict[str, Any], **src: Any) -> RunOptions:
    """One unit, whose Sink has a status branch with `git` besides."""
    unit = {"sourceRef": {"name": "src"}, "sinkRef": {"name": "out"}}
    spec = {"git": {"sourceRef": {"name": "src"}, "coalesce": "1s", **git}}
    config = configured(
        folder,
        source("src", url=url, ref={"branch": "main"}, **src),
        f"{HEAD}kind: Unit\nmetadata: {{name: web, namespace: shop}}\nspec: {unit}\n",
        f"{HEAD}kind: Sink\nmetadata: {{name: out, namespace: shop}}\nspec: {spec}\n",
    )
    return RunOptions(config=config, cluster="test", state_dir=folder / "state", identity="me")


async def run(stage: Stage, folder: Path, url: str, git: dict[str, Any], **src: Any) -> None:
    """gitkruise from a start until the unit is Done; at the end its status is written.

    In real time the end may come too early for that.
    """
    options = options_for(folder, url, git, **src)
    clock = stage.clock if url.startswith("/") else SystemClock()
    async with controller(options, stage.wire, clock) as running:
        for _ in range(600):
            done = str(running.reporters["shop/web"].record.state) == "Done"
            if done and (clock is stage.clock or published(stage)):
                return
            await clock.sleep(0.2)
    raise AssertionError("not done in time")


def published(stage: Stage) -> bool:
    if not run_git(stage.origin.bare, "for-each-ref", STATUS):
        return False
    return "state: Done" in run_git(
        stage.origin.bare, "show", f"{STATUS}:units/shop/web/status.yaml"
    )


def first_commit(stage: Stage) -> None:
    stage.origin.commit({"app.yaml": documents(config_map("settings", mode="x"))}, "first")


def test_the_credentials_of_the_source_are_read_again_before_a_write(
    staged: MakeStage, tmp_path: Path
) -> None:
    """Where everyone may read the repository, no failed reading leads to new ones."""
    stage = staged()
    put_secret(stage, "git", username="dana", password="old")
    git = {"secretRef": {"name": "git"}}
    config = options_for(tmp_path, "https://git.example/shop", {}, **git).config
    assert config is not None
    renewal = Renewal(stage.wire)
    renewal.hold("shop/src", Keyring(GitCredentials(username="dana", password="old")))

    async def script() -> None:
        async with AsyncExitStack() as stack:
            repositories = {"shop/src": stage.repository}
            sinks = await open_status_sinks(
                config, "test", repositories, stage.clock, stack,
                state_dir=tmp_path, sources=renewal,
            )  # fmt: skip
            put_secret(stage, "git", username="dana", password="new")
            await sinks.writers["shop/out"].renew()
            assert renewal.held("shop/src").password == "new"

    stage.play(script)


def test_what_is_written_is_signed_with_ssh_and_git_verifies_it(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    public = ssh_key(tmp_path, "bot")
    put_secret(stage, "key", identity=(tmp_path / "bot").read_text())
    first_commit(stage)
    signing = {"format": "ssh", "secretRef": {"name": "key"}}
    stage.play(lambda: run(stage, tmp_path, str(stage.origin.bare), {"signing": signing}))
    allowed = tmp_path / "allowed"
    allowed.write_text(f"* {public}\n")
    for ref in (STATUS, NOTES):
        options = ["-c", f"gpg.ssh.allowedSignersFile={allowed}", "-c", "gpg.format=ssh"]
        done = subprocess.run(
            ["git", *options, "verify-commit", "-v", ref],
            cwd=stage.origin.bare, env=ENV, capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
        assert b'Good "git" signature' in done.stdout + done.stderr
    run_git(stage.origin.bare, "fsck", "--strict")


def test_what_is_written_is_signed_with_openpgp(staged: MakeStage, tmp_path: Path) -> None:
    need("gpg", present=bool(shutil.which("gpg")), how="apt-get install gnupg")
    stage = staged()
    gpg = Gpg(tmp_path / "gpg")
    try:
        gpg.make("bot")
        secret = gpg.run("--armor", "--export-secret-keys", "bot@example.com")
        signed = Signer("gpg", secret).signed(b"tree " + b"a" * 40 + b"\n\nmessage\n")
        assert signed.startswith(b"tree " + b"a" * 40 + b"\ngpgsig -----BEGIN PGP SIGNATURE-----")
        put_secret(stage, "key", git__asc=secret)
        first_commit(stage)
        signing = {"format": "gpg", "secretRef": {"name": "key"}}
        stage.play(lambda: run(stage, tmp_path, str(stage.origin.bare), {"signing": signing}))
        env = {**ENV, "GNUPGHOME": str(gpg.home)}
        done = subprocess.run(
            ["git", "verify-commit", STATUS], cwd=stage.origin.bare, env=env,
            capture_output=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()
    finally:
        gpg.close()


def test_a_key_that_was_changed_signs_from_then_on(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    keys = {name: ssh_key(tmp_path, name) for name in ("old", "new")}
    put_secret(stage, "key", identity=(tmp_path / "old").read_text())
    first_commit(stage)
    signing = {"signing": {"format": "ssh", "secretRef": {"name": "key"}}}
    options = options_for(tmp_path, str(stage.origin.bare), signing)
    newest = []

    async def script() -> None:
        async with controller(options, stage.wire, stage.clock):
            await stage.rest(20)
            newest.append(run_git(stage.origin.bare, "rev-parse", STATUS))
            put_secret(stage, "key", identity=(tmp_path / "new").read_text())
            await stage.rest(30)
            text = documents(config_map("settings", mode="y"))
            stage.origin.commit({"app.yaml": text}, "second")
            await stage.rest(20)
            newest.append(run_git(stage.origin.bare, "rev-parse", STATUS))
            put_secret(stage, "key", nothing="here")
            await stage.rest(30)
            stage.origin.commit({"app.yaml": documents(config_map("settings", mode="z"))}, "third")
            await stage.rest(20)
            newest.append(run_git(stage.origin.bare, "rev-parse", STATUS))

    stage.play(script)
    assert len(set(newest)) == 3
    for commit, name in zip(newest, ("old", "new", "new"), strict=True):
        allowed = tmp_path / "allowed"
        allowed.write_text(f"* {keys[name]}\n")
        options_ = ["-c", f"gpg.ssh.allowedSignersFile={allowed}", "-c", "gpg.format=ssh"]
        run_git(stage.origin.bare, *options_, "verify-commit", commit)


@pytest.mark.parametrize(
    ("format_", "keys", "error"),
    [
        ("ssh", None, ClusterFailed),
        ("ssh", {"git.asc": "x"}, UsageProblem),
        ("gpg", {"identity": "x"}, UsageProblem),
        ("ssh", {"identity": "no key"}, SourceFailed),
        ("gpg", {"git.asc": "no key"}, SourceFailed),
    ],
)
def test_a_key_that_cannot_sign_is_refused_at_the_start(
    staged: MakeStage, tmp_path: Path, format_: str, keys: dict[str, str] | None, error: Any
) -> None:
    stage = staged()
    if keys is not None:
        put_secret(stage, "key", **{k.replace(".", "__"): v for k, v in keys.items()})
    first_commit(stage)
    signing = {"format": format_, "secretRef": {"name": "key"}}
    with pytest.raises(error) as caught:
        asyncio.run(run(stage, tmp_path, f"file://{stage.origin.bare}", {"signing": signing}))
    text = repr(getattr(caught.value, "findings", ""))
    assert "PRIVATE" not in text


def test_another_key_writes_than_the_one_that_reads(staged: MakeStage, tmp_path: Path) -> None:
    """One of two people may read the repository, and the other may write it."""
    stage = staged()
    first_commit(stage)
    authority = issue("authority")
    word = "Basic " + base64.b64encode(b"writer:key").decode()
    put_secret(stage, "read", username="writer", password="key", ca__crt=authority.certificate)
    put_secret(stage, "write", username="writer", password="key", ca__crt=authority.certificate)
    put_secret(stage, "stranger", username="x", password="no", ca__crt=authority.certificate)
    tls = context(tmp_path, issue("server", authority))

    async def main(url: str, name: str) -> None:
        git = {"secretRef": {"name": name}}
        await run(stage, tmp_path, f"{url}/origin.git", git, secretRef={"name": "read"})

    async def refused(url: str) -> None:
        git = {"secretRef": {"name": "stranger"}}
        chosen = options_for(tmp_path, f"{url}/origin.git", git, secretRef={"name": "read"})
        async with controller(chosen, stage.wire, SystemClock()) as running:
            codes = {finding.code for finding in running.fleet.errors.values()}
            assert (codes, dict(running.reporters)) == ({"GK3102"}, {})

    with serve(tmp_path, word, tls=tls) as url:
        asyncio.run(refused(url))
        asyncio.run(main(url, "write"))
    assert "Done" in run_git(stage.origin.bare, "show", f"{STATUS}:units/shop/web/status.yaml")
    mirrors = sorted(p.name for p in (tmp_path / "state" / "mirrors").iterdir())
    assert len(mirrors) == 3  # nobody reads what another's Secret brought
