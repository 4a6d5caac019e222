"""The cache of live objects, which the workload controllers of the process share in part."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.revision import REVISION
from gitkruise.sandbox.controllers import alongside
from tests.gitops.programs import SOURCE, unit
from tests.gitops.stage import documents
from tests.observer.program import Program
from tests.worlds import cloneset

SHARED = ("pods", "controllerrevisions")


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    program = Program(tmp_path, SOURCE + unit("one") + unit("two"))
    web, shop = cloneset("web", 2, "app:v1"), cloneset("shop", 3, "app:v1")
    shop["metadata"]["namespace"] = "default"
    files: dict[str, str | bytes | None] = {
        "one/app.yaml": documents(web),
        "two/app.yaml": documents(shop),
    }
    program.origin.commit(files, "first")
    yield program
    program.stage.close()


def images(program: Program) -> list[str]:
    found = program.objects("", "Pod")
    return sorted(pod["spec"]["containers"][0]["image"] for pod in found)


@pytest.mark.slow
@pytest.mark.parametrize(("drives", "watches"), [(True, 1), (False, 2)])
def test_pods_and_revisions_are_followed_once(program: Program, drives: bool, watches: int) -> None:
    """Those of all namespaces where the process drives pods, otherwise those of each namespace."""

    async def script() -> None:
        async with program.up() as running:
            await program.stage.rest()
            assert images(program) == ["app:v1"] * 5
            watched = {plural: program.stage.wire.watched[plural] for plural in SHARED}
            assert watched == dict.fromkeys(SHARED, watches)
            assert {str(unit.record.state) for unit in running.reporters.values()} == {"Done"}

    program.play(script, inside=not drives)


@pytest.mark.slow
def test_units_see_what_the_controllers_wrote_before_a_watch_reports_it(program: Program) -> None:
    stage = program.stage

    async def script() -> None:
        async with program.up() as running:
            await stage.rest()
            stage.wire.muted = {"pods"}
            program.origin.commit({"one/app.yaml": documents(cloneset("web", 4, "app:v1"))}, "more")
            await stage.rest()
            assert len(running.live.store.pods("shop")) == 4

    program.play(script, inside=False)


def test_a_new_term_begins_with_new_lists(program: Program) -> None:
    """What another process wrote a moment ago is known before anything is decided."""
    wire, kinds = program.stage.wire, frozenset({POD, REVISION})

    def lists() -> int:
        return sum(r.verb == "list" and r.resource.plural in SHARED for r in wire.requests)

    async def script() -> None:
        async with program.up() as running:
            await program.stage.rest()
            before = lists()
            cache = running.live.share_workloads()
            assert not cache.synced(kinds)
            assert len(cache.pods("shop")) == 2
            await program.stage.rest(1)
            assert cache.synced(kinds)
            assert lists() == before + 2
            assert [wire.watched[plural] for plural in SHARED] == [1, 1]

    program.play(script, inside=False)


def test_a_unit_that_waits_for_a_list_waits_for_the_one_that_replaces_it(
    program: Program,
) -> None:
    stage, live = program.stage, program.stage.live

    async def script() -> None:
        await live.discover()
        waited = live.want_workloads({"shop": frozenset({REVISION})})
        live.share_workloads()
        async with alongside(live.run()):
            await live.ready(waited)
            assert live.store.synced(frozenset({POD, REVISION}))
            await stage.rest(1)
            assert [stage.wire.watched[plural] for plural in SHARED] == [1, 1]

    stage.play(script)
