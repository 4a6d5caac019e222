"""why of a unit: what it waits for, and how it is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gitkruise.cli.commands.inspect.why_unit import reasons_of, unit_why_lines, unit_why_obj
from gitkruise.cli.console.style import Style
from gitkruise.gitops.status.reader import recorded_unit
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from tests.cli.calls import Caller
from tests.cli.shop import REJECTED, Checkout, cloneset, unit_record

PLAIN = Style(colour=False, unicode=True, width=100)
BEHIND = replace(unit_record(), state=State.WAITING, waits="approval (2 objects change; agree)")
UNITS: dict[str, tuple[UnitRecord, list[str]]] = {
    "done": (replace(unit_record(state=State.DONE), objects=()), []),
    "waits": (BEHIND, ["commit 2222222 waits for approval (2 objects change; agree)",
                       "deployment/web -n shop is Drifted: replicas 2 → 5"]),
    "rejected": (replace(unit_record(state=State.REJECTED, findings=(REJECTED,)), objects=()),
                 [f"GK1203 apps/checkout.yaml:24:3: {REJECTED.message}"]),
    "stuck": (replace(unit_record(state=State.STUCK), message="its cluster is away", objects=()),
              ["its cluster is away"]),
    "paused": (replace(unit_record(state=State.PAUSED), message="Rollout shop/web: StepPaused",
                       objects=()), ["Rollout shop/web: StepPaused"]),
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_why_of_a_unit(name: str) -> None:
    record, reasons = UNITS[name]
    news = recorded_unit(record)
    assert reasons_of(news) == reasons
    lines = list(unit_why_lines(news, PLAIN))
    assert lines[0].startswith("unit/shop -n shop is ")
    assert unit_why_obj(news)["reasons"] == reasons


@pytest.mark.slow
@pytest.mark.parametrize("words", [("unit/shop",), ("units", "shop"), ("gku/shop",)])
def test_a_unit_is_named_as_in_kubectl(
    gk: Caller, checkout: Checkout, cluster: Path, words: tuple[str, ...]
) -> None:
    checkout.commit("first", {"a.yaml": cloneset()})
    checkout.record("sandbox", BEHIND)
    flags = ("-n", "shop", "--kubeconfig", str(cluster), "--cluster", "sandbox")
    ended = gk("why", *words, *flags, cwd=checkout.folder)
    assert (ended.code, "commit 2222222 waits for approval" in ended.out) == (0, True), ended.err
    ended = gk("why", "unit/other", *flags, cwd=checkout.folder)
    assert (ended.code, "GK4010" in ended.err, "shop/shop" in ended.err) == (5, True, True)
