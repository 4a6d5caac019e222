"""Objects of the cluster that do not run: each problem is reported once, and so is its end."""

from __future__ import annotations

from dataclasses import replace

from gitkruise.errors import Finding
from tests.gitops.objects import House, play
from tests.gitops.stage import config_map

Report = tuple[str, str, str]  # kind, namespace/name, code


def test_a_refused_source_and_its_units_are_reported(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")], gone=[config_map("b", x="1")])
    told: list[Report] = []

    def hear(name: tuple[str, str], finding: Finding | None) -> None:
        told.append((*name, finding.code if finding else ""))

    async def script(hands: House) -> None:
        await hands.apply("GitSource", "src", url="http://example.com/x", ref={"branch": "main"})
        await hands.apply("GitSource", "gone", url="http://example.com/x", ref={"branch": "main"})
        await hands.unit("web")
        await hands.rest(120)
        assert sorted(told) == [
            ("GitSource", "shop/gone", "GK7052"),
            ("GitSource", "shop/src", "GK7052"),
            ("Unit", "shop/web", "GK7007"),
        ]
        told.clear()
        await hands.ask("delete", "GitSource", "gone")
        await hands.rest()
        assert told == []  # it is gone, not well
        await hands.source()
        await hands.rest()
        assert told == [("GitSource", "shop/src", ""), ("Unit", "shop/web", "")]
        assert hands.has("a") == [True]

    play(hands, script, replace(hands.program(), problems=hear))


def test_a_source_that_cannot_be_opened_is_reported(hands: House) -> None:
    told: list[Report] = []

    def hear(name: tuple[str, str], finding: Finding | None) -> None:
        told.append((*name, finding.code if finding else ""))

    async def script(hands: House) -> None:
        await hands.source(secretRef={"name": "missing"})
        await hands.unit("web")
        await hands.rest(120)
        assert [one[:2] for one in sorted(told)] == [
            ("GitSource", "shop/src"),
            ("Unit", "shop/web"),
        ]
        assert all(code for _, _, code in told)

    play(hands, script, replace(hands.program(), problems=hear))
