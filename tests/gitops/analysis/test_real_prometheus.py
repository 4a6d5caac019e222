"""A real Prometheus scrapes a real server; its rising error rate rolls a promotion back."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.gitops.status.codecs import PROMOTION
from gitkruise.gitops.status.parser import read_yaml
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.analysis import AnalysisPhase, AnalysisRun
from gitkruise.model.gitops.record import UnitRecord
from tests.conftest import need
from tests.forge.fleet import PATIENCE_S, living
from tests.git.repos import run_git
from tests.gitops.programs import options
from tests.gitops.stage import MakeStage, documents, web

pytestmark = pytest.mark.slow

REQUESTS: Final = 100  # between two scrapes
QUERY: Final = 'sum(rate(http_errors_total{job="shop"}[4s])) / sum(rate(http_requests_total[4s]))'
CONFIG: Final = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: src, namespace: shop}}
spec: {{url: {url}, ref: {{branch: main}}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: out, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}, coalesce: 1s, branch: gitkruise/status/test}}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: web, namespace: shop}}
spec: UNIT
"""


class Shop:
    """A server with the metrics of a shop: at each scrape it has served 100 requests more, of which
    `errors` failed."""

    def __init__(self) -> None:
        self.errors, self.scrapes = 0, 0
        self._requests = self._failed = 0
        shop = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = shop.metrics().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def metrics(self) -> str:
        self.scrapes += 1
        self._requests += REQUESTS
        self._failed += self.errors
        return (
            "# TYPE http_requests_total counter\n"
            f"http_requests_total {self._requests}\n"
            "# TYPE http_errors_total counter\n"
            f"http_errors_total {self._failed}\n"
        )


@pytest.fixture
def shop() -> Iterator[Shop]:
    server = Shop()
    thread = threading.Thread(target=server.server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.server.shutdown()
        server.server.server_close()
        thread.join()


@pytest.fixture
def prometheus(shop: Shop, tmp_path: Path) -> Iterator[str]:
    """The address of a Prometheus of its own that scrapes the shop five times a second."""
    program = shutil.which("prometheus")
    need("prometheus", present=bool(program), how="apt-get install prometheus")
    assert program is not None
    file = tmp_path / "prometheus.yml"
    scrape = {"job_name": "shop", "static_configs": [{"targets": [shop.address]}]}
    every = {"scrape_interval": "200ms", "scrape_timeout": "200ms"}
    file.write_text(json.dumps({"global": every, "scrape_configs": [scrape]}))
    words = [program, f"--config.file={file}", f"--storage.tsdb.path={tmp_path / 'tsdb'}",
             "--web.listen-address=127.0.0.1:0", "--log.format=json"]  # fmt: skip
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        assert process.stderr is not None
        drain: threading.Thread | None = None
        try:
            yield f"http://{_address(process.stderr)}"
        finally:
            drain = threading.Thread(target=process.stderr.read)
            drain.start()
            process.terminate()
            process.wait()
            drain.join()


def _address(log: Any) -> str:
    for line in log:
        entry = json.loads(line)
        if entry.get("msg") == "Listening on":
            return str(entry["address"])
    pytest.fail("Prometheus ended before it listened")


def unit_of(address: str) -> str:
    """A unit whose canary of two pods is measured before the others follow."""
    metric = {
        "name": "error-rate", "interval": "1s", "count": 1000, "failureLimit": 2,
        "consecutiveErrorLimit": 100, "successCondition": "result[0] < 0.05",
        "provider": {"prometheus": {"address": address, "query": QUERY}},
    }  # fmt: skip
    steps = [{"partition": "50%", "analysis": ["error-rate"]}, {"partition": 0}]
    promotion = {"workload": {"kind": "CloneSet", "name": "web"}, "steps": steps, "via": "commit",
                 "metrics": [metric]}  # fmt: skip
    spec = {"sourceRef": {"name": "src"}, "sinkRef": {"name": "out"}, "onFailure": "revert-push",
            "promotion": promotion}  # fmt: skip
    return json.dumps(spec).replace("{", "{{").replace("}", "}}")


class News:
    """The records of the unit, as they come."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[UnitRecord] = asyncio.Queue()
        self._last: UnitRecord | None = None
        self.listen = self._queue.put_nowait

    async def until(self, holds: Callable[[UnitRecord], bool]) -> UnitRecord:
        """Return the first record of which it holds, beginning with the last one."""
        while self._last is None or not holds(self._last):
            self._last = await self._queue.get()
        return self._last


def analysis(record: UnitRecord) -> AnalysisRun | None:
    return record.promotion.analysis if record.promotion is not None else None


def successful(record: UnitRecord) -> int:
    run = analysis(record)
    return run.metrics[0].successful if run is not None else 0


def test_a_rising_error_rate_rolls_the_promotion_back_and_counts_its_pods(
    staged: MakeStage, tmp_path: Path, shop: Shop, prometheus: str
) -> None:
    stage, news = staged(), News()
    bare = stage.origin.bare

    async def published() -> str:
        ref = "gitkruise/status/test:units/shop/web/status.yaml"
        while True:
            listed = await asyncio.to_thread(run_git, bare, "branch", "--list", "gitkruise/*")
            text = await asyncio.to_thread(run_git, bare, "show", ref) if listed else ""
            if "phase: Failed" in text and "state: Done" in text:
                return text
            await asyncio.to_thread(time.sleep, 0.1)

    def push(message: str, **rolling: Any) -> str:
        return stage.origin.commit({"app.yaml": documents(web(**rolling))}, message)

    async def main() -> None:
        text = CONFIG.replace("UNIT", unit_of(prometheus))
        program = options(stage, tmp_path, text, listeners=(news.listen,))
        good = await asyncio.to_thread(push, "first")
        async with (
            asyncio.timeout(PATIENCE_S),
            living(stage),
            controller(program, stage.wire, SystemClock()),
        ):
            await news.until(lambda r: str(r.state) == "Done")
            bad = await asyncio.to_thread(push, "canary", image="app:v2", partition="50%")
            await news.until(lambda r: str(r.state) == "Held" and successful(r) >= 5)
            assert stage.images() == ["app:v1"] * 2 + ["app:v2"] * 2
            shop.errors = 40
            back = await news.until(
                lambda r: str(r.state) == "Done" and r.causal is not None and r.causal.id != bad
            )
            assert back.causal is not None
            assert back.causal.subject == f"web: roll back to {good[:7]}"
            assert stage.images() == ["app:v1"] * 4
            text = await published()
        measured = PROMOTION.read(read_yaml(text.encode())["promotion"]).analysis
        assert measured is not None
        assert (measured.phase, measured.pods) == (AnalysisPhase.FAILED, 2)
        (result,) = measured.metrics
        assert (result.failed, result.successful >= 5) == (3, True)
        assert float(result.measurements[-1].value) >= 0.05

    asyncio.run(main())
    log = run_git(bare, "log", "--reverse", "--format=%s%n%(trailers:only,unfold)", "main")
    assert re.findall(r"^(first|canary|web: .*)$", log, re.MULTILINE)[:2] == ["first", "canary"]
    assert "Gitkruise-Analysis: error-rate Failed" in log
    assert "Gitkruise-Pods: 2" in log
    assert shop.scrapes > 5
