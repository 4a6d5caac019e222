"""Completion of units and objects from the records and the configuration, without network."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from gitkruise.cli.root import cli
from gitkruise.model.gitops.record import ObjectRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from tests.cli.commands.test_wait import CONFIG, UNIT
from tests.cli.shop import CHECKOUT, Checkout, unit_record

MAP = ObjectKey("", "ConfigMap", "shop", "settings")
MESH = ObjectKey("apps.kruise.io", "SidecarSet", "", "mesh")


@pytest.fixture
def recorded(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A recorded unit, and one that only the configuration has."""
    checkout.commit(
        "one", {"gitkruise.yaml": CONFIG + UNIT.replace("name: shop,", "name: data,", 1)}
    )
    record = unit_record()
    more = (ObjectRecord(key=key, state=State.DONE, commit="", message="") for key in (MAP, MESH))
    checkout.record("sandbox", replace(record, objects=(*record.objects, *more)))
    monkeypatch.chdir(checkout.folder)
    return checkout


def completed(line: str) -> list[str]:
    *words, typed = line.split(" ")
    found = ShellComplete(cli, {}, "gitkruise", "_GITKRUISE_COMPLETE").get_completions(words, typed)
    return [item.value for item in found]


LINES = {
    "why ": ["cloneset/checkout", "deployment/web", "sidecarset/mesh"],
    "why d": ["deployment/web"],
    "why -n shop ": ["cloneset/checkout", "deployment/web"],
    "promote -n other ": [],
    "promote cs ": ["checkout"],
    "rollback cloneset/checkout ": [],
    "get unit": ["units"],
    "get pods d": ["deployment/web"],
    "get cloneset/": ["cloneset/checkout"],
    "wait ": ["shop/data", "shop/shop"],
    "sync shop/shop shop/d": ["shop/data"],
    "suspend ": ["unit/data", "unit/shop"],
    "reconcile -n other ": [],
}


@pytest.mark.parametrize("line", LINES)
def test_units_and_recorded_objects(recorded: Checkout, line: str) -> None:
    assert completed(line) == LINES[line], recorded.folder


def test_without_a_record_nothing_is_offered_and_nothing_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gitkruise.yaml").write_text("kind: [")
    assert [completed(line) for line in ("why ", "wait ", "suspend ")] == [[], [], []]
    assert capfd.readouterr() == ("", "")


def test_a_broken_record_costs_its_own_words_only(recorded: Checkout) -> None:
    recorded.record("sandbox", unit_record(), **{"units/shop/bad/objects.tsv": b"x\ny\n"})
    assert CHECKOUT.name in "".join(completed("why "))
    assert completed("wait ") == ["shop/bad", "shop/data", "shop/shop"]
