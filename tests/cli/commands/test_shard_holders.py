"""status and get units name the shard of each unit and the replica that holds it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from gitkruise.model.gitops.shards import shard_of
from gitkruise.model.gitops.unit_state import State
from tests.cli.calls import Caller
from tests.cli.live import leases
from tests.cli.shop import Checkout, unit_record

pytestmark = pytest.mark.slow
COUNT: Final = 3
UNIT: Final = "shop/shop"
OWN: Final = shard_of(UNIT, COUNT)
ENDED: Final = "2026-01-02T03:04:05.000000Z"
LOST: Final = (
    f"shard {OWN} of {COUNT}: no replica holds it since 2026-01-02T03:04:05Z: "
    "its units are not reconciled"
)


def holders(*, but: int | None) -> dict[str, str]:
    held = {f"-shard-{n}": "" if n == but else f"box_{n}" for n in range(COUNT)}
    return {"": f"{COUNT} shards", **held}


@pytest.fixture
def env(checkout: Checkout, cluster: Path) -> dict[str, str]:
    checkout.commit("first", {"a.yaml": "# nothing\n"})
    checkout.record("sandbox", unit_record(state=State.DONE))
    return {"KUBECONFIG": str(cluster)}


def test_the_replica_that_has_a_unit_is_named(
    gk: Caller, checkout: Checkout, cluster: Path, env: dict[str, str]
) -> None:
    where = ["--repo", str(checkout.folder), "--cluster", "sandbox"]
    with leases(cluster, holders(but=None), ENDED):
        status = gk("status", *where, **env)
        answer = gk("status", *where, "-o", "json", **env).obj
        (line,) = gk("get", "units", "-A", *where, "-o", "jsonl", **env).out.splitlines()
        wide = gk("get", "units", "-A", *where, "-o", "wide", **env).out
    assert f"shard {OWN} of {COUNT}: box_{OWN}\n" in status.out
    (unit,) = answer["units"]
    wanted = {"shard": f"{OWN} of {COUNT}", "replica": f"box_{OWN}", "state": "Done"}
    assert wanted.items() <= unit.items()
    assert wanted.items() <= json.loads(line).items()
    assert f"box_{OWN}" in wide
    assert [one["problem"] for one in answer["shards"]] == [""] * COUNT


def test_a_unit_that_no_replica_has_is_unknown(
    gk: Caller, checkout: Checkout, cluster: Path, env: dict[str, str]
) -> None:
    where = ["--repo", str(checkout.folder), "--cluster", "sandbox"]
    with leases(cluster, holders(but=OWN), ENDED):
        status = gk("status", *where, "--fail-on", "unknown", **env)
        answer = gk("status", *where, "-o", "json", **env).obj
        (line,) = gk("get", "units", "-A", *where, "-o", "jsonl", **env).out.splitlines()
    assert status.code == 1
    assert f"{LOST}\n  1 unit: {UNIT}\n" in status.out
    for unit in (answer["units"][0], json.loads(line)):
        assert {"state": "Unknown", "message": LOST, "replica": ""}.items() <= unit.items()


def test_units_without_shards_have_none(
    gk: Caller, checkout: Checkout, cluster: Path, env: dict[str, str]
) -> None:
    where = ["--repo", str(checkout.folder), "--cluster", "sandbox"]
    answer = gk("status", *where, "-o", "json", **env).obj
    (line,) = gk("get", "units", "-A", *where, "-o", "jsonl", **env).out.splitlines()
    assert "shards" not in answer
    assert {"shard": "", "replica": "", "state": "Done"}.items() <= json.loads(line).items()


def test_units_of_a_controller_that_ended_without_giving_its_lease_back_are_unknown(
    gk: Caller, checkout: Checkout, cluster: Path, env: dict[str, str]
) -> None:
    where = ["--repo", str(checkout.folder), "--cluster", "sandbox"]
    with leases(cluster, {"": "box"}, ENDED, held_at=ENDED):
        status = gk("status", *where, "--fail-on", "unknown", **env)
        answer = gk("status", *where, "-o", "json", **env).obj
        (line,) = gk("get", "units", "-A", *where, "-o", "jsonl", **env).out.splitlines()
    lost = (
        "box has not renewed lease gitkruise-sync since 2026-01-02T03:04:05Z: no unit is reconciled"
    )
    assert status.code == 1
    assert f"{lost}\n  1 unit: {UNIT}\n" in status.out
    # After a table of thousands of objects the header is out of sight.
    assert status.out.endswith("\nNext: gitkruise doctor cluster --cluster sandbox\n")
    for unit in (answer["units"][0], json.loads(line)):
        assert {"state": "Unknown", "message": lost}.items() <= unit.items()
