"""50,000 mutated API calls: none is answered 500, none leaves control characters, none is slow."""

from __future__ import annotations

import json
import logging
import time
from random import Random  # noqa: TID251  drawn from the seed of the run
from typing import Any, Final

import pytest
from aiohttp import web

from gitkruise.admission.chain import admit
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.discovery.discovery import Discovery
from gitkruise.sandbox.discovery.openapi_v2 import OpenApiV2
from gitkruise.sandbox.discovery.openapi_v3 import CRD, OpenApiV3
from gitkruise.sandbox.handlers.app import SERVER_ARGS, App
from gitkruise.sandbox.handlers.resources import Objects
from gitkruise.sandbox.http.authentication import Tokens
from gitkruise.sandbox.initial_objects import bootstrap
from gitkruise.sandbox.server import SandboxOptions, parts_of
from gitkruise.sandbox.tables.tables import Shaper
from gitkruise.world.api.cluster import World
from tests.clock import ManualClock
from tests.conftest import NIGHT
from tests.fuzz.api_calls import HOST, TOKEN, call, starters
from tests.fuzz.in_memory import Answered, ask

SHARDS: Final = 10
CALLS: Final = 5_000 * (4 if NIGHT else 1)
WORLD_FOR: Final = 1_000  # calls, so that stored objects meet each other
CPU_MAX_S: Final = 2.0
# What a kube-apiserver 1.34 answers 500 itself (see tests/transcripts and tests/hooks).
AS_RECORDED: Final = (
    b"strconv.ParseUint: parsing",
    b"resourceVersion should not be set on objects to be created",
    b"failed to create typed patch object",
    b"failed calling webhook",
    b"This pod has more than one PodDisruptionBudget",
)
EXPECTED: Final = frozenset(
    {200, 201, 202, 204, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 421, 422, 429, 501, 504}
)


def _served(clock: ManualClock) -> tuple[web.Server, Cluster]:
    world = World(load_catalog(), admit=lambda request: admit(request, Gates()), start=clock.now())
    bootstrap(world, clock.now(), nodes=2)
    cluster = Cluster(world, clock.now)
    v3 = OpenApiV3(world.catalog, lambda: world.objects(CRD))
    tokens = Tokens(cluster, TOKEN)
    app = App(
        cluster=cluster,
        objects=Objects(cluster, Shaper(cluster.now), tokens),
        discovery=Discovery(world.catalog),
        openapi_v2=OpenApiV2(v3),
        openapi_v3=v3,
        tokens=tokens,
        hosts=frozenset({HOST}),
        ready=True,
    )
    logger = logging.getLogger("fuzz.http")  # of broken requests, which it answers
    logger.setLevel(logging.CRITICAL)
    return web.Server(app.handle, handler_cancellation=True, logger=logger, **SERVER_ARGS), cluster


def _problem(answer: Answered) -> str:
    """How an answer breaks the rules, or ""."""
    if answer.status == 500 and any(words in answer.body for words in AS_RECORDED):
        return ""
    if answer.status not in EXPECTED:
        return f"status {answer.status}"
    if answer.status >= 400 and answer.body.startswith(b"{"):
        status = json.loads(answer.body)
        if status.get("code") != answer.status or status.get("kind") != "Status":
            return "not a Status"
        if any(_controls(text) for text in _texts(status)):
            return "control characters in the Status"
    if _controls(answer.head.decode("latin-1").replace("\r\n", "")):
        return "control characters in the header"
    return ""


def _texts(status: Any) -> list[str]:
    causes = (status.get("details") or {}).get("causes") or ()
    return [status.get("message", ""), *(c.get("message", "") for c in causes)]


def _controls(text: str) -> bool:
    return any(not (c.isprintable() or c == "\n") for c in text)


async def _shard(draw: Random, calls: int, clock: ManualClock) -> list[str]:
    found: list[str] = []
    server, cluster = _served(clock)
    parts = parts_of(SandboxOptions(ephemeral=True))
    for number in range(calls):
        if number % WORLD_FOR == 0:
            server, cluster = _served(clock)
            parts = parts_of(SandboxOptions(ephemeral=True))
            for sent in starters():
                await ask(server, sent)
        sent = call(draw)
        began = time.process_time()
        answer = await ask(server, sent)
        spent = time.process_time() - began
        problem = _problem(answer) or (f"{spent:.1f} s of CPU" if spent > CPU_MAX_S else "")
        if problem:
            found.append(f"{problem}\n  {sent[:1500]!r}\n  {answer.body[:600]!r}")
        if number % 25 == 0:
            clock.advance(7)
            for part in parts:
                part.run(cluster.world, clock.now())
            cluster.publish()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_calls_are_answered_as_kube_apiserver_does(
    shard: int, fuzz_seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    clock = ManualClock()
    found = clock.run(_shard(Random(f"{fuzz_seed}/{shard}"), CALLS, clock))
    logged = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert not found, "\n\n".join(found[:20])
    assert not logged, "\n\n".join(
        str(record.exc_text or record.getMessage()) for record in logged[:20]
    )
