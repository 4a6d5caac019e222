"""The dashboard of the commands that have a cluster: sandbox, run, and the demo on a terminal."""

from __future__ import annotations

import json
import re
import signal
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitkruise.kube.serve.certificates import new_authority, new_server
from gitkruise.kube.system.clock import SystemClock
from tests.cli.calls import Terminal
from tests.e2e.cluster import sandbox
from tests.e2e.program import environment, eventually, gitkruise, output, started

pytestmark = pytest.mark.e2e


def opens(url: str) -> bool:
    """Whether an address leads to a dashboard and its token opens a session there."""
    base, _, token = url.partition("/#token=")
    body = json.dumps({"token": token}).encode()
    with urllib.request.urlopen(f"{base}/") as page:
        assert b"gitkruise" in page.read()
    with urllib.request.urlopen(f"{base}/api/v1/session", data=body) as reply:
        return bool(reply.status == 204)


def answer(url: str, question: str) -> Any:
    """What a dashboard says to a browser that has opened its address; {} between two pushes."""
    base, _, token = url.partition("/#token=")
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    browser.open(f"{base}/api/v1/session", data=json.dumps({"token": token}).encode()).close()
    try:
        reply = browser.open(f"{base}/api/v1/{question}")
    except urllib.error.HTTPError as refusal:
        if refusal.code == 409:
            return {}
        raise AssertionError(refusal.read().decode()) from refusal
    with reply:
        return json.load(reply)


def test_sandbox_and_run_serve_one_of_their_own(tmp_path: Path) -> None:
    with sandbox(tmp_path / "state", "--dashboard", "0") as cluster:
        url = str(cluster.status()["dashboard"])
        assert opens(url)
        assert url in output(gitkruise("sandbox", "status"), cluster.env)
        words = gitkruise("run", "--sandbox", "--dashboard", "127.0.0.1:0", "--hooks", ":0")
        with started(words, cluster.env, tmp_path) as run:
            assert opens(run.until("^dashboard at ").removeprefix("dashboard at "))
            run.signal(signal.SIGTERM)
            assert run.ends() == 0


def test_users_of_the_embedded_cluster_sign_in_with_their_tokens(tmp_path: Path) -> None:
    now = SystemClock().now()
    authority = new_authority(now)
    pair = new_server(authority, now)
    (tmp_path / "tls.crt").write_bytes(pair.certificate)
    (tmp_path / "tls.key").write_bytes(pair.key)
    files = ("--tls-cert", str(tmp_path / "tls.crt"), "--tls-key", str(tmp_path / "tls.key"))
    trust = ssl.create_default_context(cadata=authority.certificate.decode())
    with sandbox(tmp_path / "state") as cluster:
        token = yaml.safe_load(cluster.kubeconfig.read_text())["users"][0]["user"]["token"]
        words = gitkruise("dashboard", "--sandbox", "--listen", "127.0.0.1:0", *files)
        with started(words, cluster.env, tmp_path) as command:
            session = command.until("^https://") + "api/v1/session"

            def status(token: str) -> int:
                headers = {"Authorization": f"Bearer {token}"}
                request = urllib.request.Request(session, headers=headers)
                try:
                    with urllib.request.urlopen(request, context=trust) as reply:
                        return int(reply.status)
                except urllib.error.HTTPError as error:
                    return error.code

            assert (status(token), status("wrong")) == (200, 401)
            command.signal(signal.SIGTERM)
            assert command.ends() == 0
        assert token not in "\n".join(command.lines)


@pytest.mark.parametrize("has_browser", [True, False])
def test_the_demo_opens_its_dashboard_on_a_key(tmp_path: Path, *, has_browser: bool) -> None:
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    opened, browser = tmp_path / "opened", tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\necho "$1" > {opened}\n')
    browser.chmod(0o755)
    chosen = f"{browser} %s &" if has_browser else "lynx"
    env = environment(tmp_path / "state", TMPDIR=str(scratch), TERM="xterm-256color",
                      BROWSER=chosen)  # fmt: skip
    with Terminal(["demo", "--speed", "20"], env, columns=160) as demo:
        printed = demo.read_until(r"dashboard +http://\S+ +\(o opens it\)")
        found = re.search(r"http://127\S+#token=\S+", printed)
        assert found
        demo.read_until("commit 1 ")
        demo.type("o")
        if has_browser:
            given = eventually(lambda: opened.read_text().strip() if opened.exists() else "")
            assert given.partition("#")[0] == found[0].partition("#")[0]
            assert given != found[0], "others can read the command line of a browser"
            assert opens(given)
        else:
            demo.read_until(rf"no browser was found; the address is {re.escape(found[0])}")
        commit = re.search(r"commit 2 +([0-9a-f]{7})", demo.read_until(r"commit 2 +[0-9a-f]{7}"))
        assert commit
        (planned,) = answer(found[0], f"plan/{commit[1]}")["entries"]
        assert "checkout" in planned["name"]
        assert answer(found[0], "drift")["compared"]
        question = "forecast/promote/cloneset/shop/checkout"
        assert eventually(lambda: answer(found[0], question))["at"]
        demo.signal(signal.SIGINT)
        assert demo.end() == 0
    assert list(scratch.iterdir()) == []
    assert not (tmp_path / "state").exists()
