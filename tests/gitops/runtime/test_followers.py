"""Followers of a repository, while the units of others come and go."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.runtime.followers import FollowerDeps, follow
from gitkruise.gitops.source.repositories import Renewal
from gitkruise.model.gitops.config import GitSource, GitSourceSpec, Reference, Unit, UnitSpec
from tests.clock import ManualClock
from tests.worlds import START


def test_a_unit_that_comes_while_others_are_confirmed_stops_no_source(tmp_path: Path) -> None:
    """Units that are objects of the cluster are opened while sources are already followed."""
    units: dict[str, UnitReconciler] = {}
    confirmed: list[str] = []

    def add(name: str) -> None:
        async def confirm() -> None:
            confirmed.append(name)
            if "shop/late" not in units:
                add("late")

        spec = Unit("shop", name, UnitSpec(source_ref=Reference("src")))
        stub = SimpleNamespace(unit=spec, confirm=confirm)
        units[f"shop/{name}"] = cast("UnitReconciler", stub)

    add("one")
    add("two")
    nothing: Any = None
    deps = FollowerDeps(
        tmp_path, "prod", ManualClock(START), Renewal(nothing), lambda _: None, nothing, nothing
    )
    source = GitSource("shop", "src", GitSourceSpec(url="https://git.example/shop.git"))
    repository = cast("Repository", SimpleNamespace(local=False))
    found = follow({"shop/src": source}, {"shop/src": (repository, nothing)}, units, deps)
    renew = found.by_source["shop/src"]._policy.renew
    assert renew is not None

    async def body() -> None:
        await renew()

    asyncio.run(body())
    assert confirmed == ["one", "two"]
