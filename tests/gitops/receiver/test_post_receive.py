"""gitkruise-hook tells a Receiver what was pushed to a bare repository, and fails no push."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gitkruise.gitops.receiver.server import ReceiverServer
from tests.gitops.deliveries import KEY
from tests.gitops.receiver.test_receiver import Looks, listening, receiver
from tests.gitops.source.test_repositories import configured, put_secret, source
from tests.gitops.stage import MakeStage


@pytest.mark.slow
def test_the_post_receive_hook_reports_and_never_fails(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    put_secret(stage, "hook", token=KEY)
    bare = stage.origin.bare
    config = configured(
        tmp_path,
        source("src", url=str(bare), ref={"branch": "main"}),
        receiver("bare", "generic-hmac"),
    )
    secret = tmp_path / "hook.key"
    secret.write_text(KEY + "\n")

    def push(url: str, file: Path, ref: str = "refs/heads/main") -> tuple[int, str]:
        words = [sys.executable, "-m", "gitkruise.cli.git_hook", "--url", url, "--secret-file"]
        root = str(Path(__file__).parents[3])
        line = f"{'0' * 40} {'1' * 40} {ref}\n"
        done = subprocess.run(
            [*words, str(file)], cwd=bare, env={"PYTHONPATH": root}, input=line, text=True,
            errors="surrogateescape", capture_output=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stderr.partition(":")[2]

    async def script(_: Any, server: ReceiverServer, looks: dict[str, Looks]) -> None:
        url = server.urls["shop/bare"]
        assert await asyncio.to_thread(push, url, secret, "refs/heads/other") == (0, "")
        assert looks["shop/src"].count == 0
        assert await asyncio.to_thread(push, url, secret, "refs/heads/\udcff") == (0, "")
        assert looks["shop/src"].count == 0
        assert await asyncio.to_thread(push, url, secret) == (0, "")
        assert looks["shop/src"].count == 1
        code, output = await asyncio.to_thread(push, url + "0", secret)
        assert (code, output) == (0, f" {url}0 answered 404\n")
        for bad, file in (("http://127.0.0.1:9/", secret), (url, tmp_path / "none"), ("x", secret)):
            code, output = await asyncio.to_thread(push, bad, file)
            assert code == 0
            assert output.startswith(f" could not notify {bad}: ")

    listening(stage, config, script)
