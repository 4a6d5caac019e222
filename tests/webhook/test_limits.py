"""A webhook that many ask slowly, or for much: small reviews pass, and memory is bounded."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from gitkruise.webhook.server import AT_ONCE_MAX
from tests.webhook.hooked import Hooked, play, review
from tests.worlds import pod

LIMIT_MIB = 512  # of deploy/webhook/deployment.yaml
CONVERT = """
import json, re
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.webhook.handler import conversion
from gitkruise.webhook.review import read_conversion
from tests.worlds import cloneset
obj = {**cloneset("web"), "metadata": {"name": "web", "annotations": {"a": "x" * 2_000}}}
text = json.dumps(obj)
count = 60 * 1024 * 1024 // len(text)
head = '{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", '
data = (head + '"request": {"uid": "u", "desiredAPIVersion": "apps.kruise.io/v1alpha1", '
        + '"objects": ['
        + ",".join([text] * count) + "]}}").encode()
del text
pieces = conversion(read_conversion(data), load_catalog())
assert sum(map(len, pieces)) > 50 << 20, pieces[0][:300]
# The peak of this program; ru_maxrss would count the process that started it as well.
status = open("/proc/self/status").read()
print(int(re.search(r"VmHWM:\\s*(\\d+)", status)[1]) // 1024)
"""


def test_slow_bodies_take_no_place(tmp_path: Path) -> None:
    async def script(hooks: Hooked) -> None:
        trust = ssl.create_default_context(cafile=str(hooks.folder / "ca.crt"))
        port = hooks.serving.port
        head = b"POST /validate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        with ExitStack() as stack:

            def slow() -> None:
                plain = socket.create_connection(("127.0.0.1", port), timeout=20)
                tls = trust.wrap_socket(plain, server_hostname="127.0.0.1")
                stack.enter_context(tls)
                tls.sendall(head + b"Content-Length: 1000\r\n\r\n{")

            for _ in range(AT_ONCE_MAX + 6):
                await asyncio.to_thread(slow)
            answer = await hooks.ask("/validate", review(pod("p")))
            assert answer["allowed"]
            assert hooks.serving.handler.inside == 0

    play(tmp_path, script)


def test_who_comes_on_top_is_asked_to_come_again(tmp_path: Path) -> None:
    async def script(hooks: Hooked) -> None:
        hooks.serving.handler.inside = AT_ONCE_MAX
        body = json.dumps(review(pod("p"))).encode()
        async with hooks.session.post(
            hooks.url + "/validate", data=body, headers={"Content-Type": "application/json"}
        ) as answer:
            assert (answer.status, answer.headers["Retry-After"]) == (503, "1")
        hooks.serving.handler.inside = 0

    play(tmp_path, script)


@pytest.mark.slow
def test_a_conversion_of_60_mib_fits() -> None:
    """One at a time is in memory: the lists are read, converted and written object by object."""
    done = subprocess.run(
        [sys.executable, "-c", CONVERT], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < LIMIT_MIB * 0.7
