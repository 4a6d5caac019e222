"""Objects of the cluster that do not run: each problem is reported once, and so is its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gitkruise.errors import Finding
from gitkruise.kube.serve.addresses import Listen
from tests.gitops.deliveries import KEY
from tests.gitops.objects import House, play
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import config_map

Report = tuple[str, str, str]  # kind, namespace/name, code


@pytest.mark.slow
def test_a_refused_source_and_its_units_are_reported(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")], gone=[config_map("b", x="1")])
    reports: list[Report] = []

    def report(name: tuple[str, str], finding: Finding | None) -> None:
        reports.append((*name, finding.code if finding else ""))

    async def script(hands: House) -> None:
        await hands.apply("GitSource", "src", url="http://example.com/x", ref={"branch": "main"})
        await hands.apply("GitSource", "gone", url="http://example.com/x", ref={"branch": "main"})
        await hands.unit("web")
        await hands.rest(120)
        assert sorted(reports) == [
            ("GitSource", "shop/gone", "GK7052"),
            ("GitSource", "shop/src", "GK7052"),
            ("Unit", "shop/web", "GK7007"),
        ]
        reports.clear()
        await hands.ask("delete", "GitSource", "gone")
        await hands.rest()
        assert reports == []  # it is gone, not well
        await hands.source()
        await hands.rest()
        assert reports == [("GitSource", "shop/src", ""), ("Unit", "shop/web", "")]
        assert hands.has("a") == [True]

    play(hands, script, replace(hands.program(), problems=report))


def test_a_source_that_cannot_be_opened_is_reported(hands: House) -> None:
    reports: list[Report] = []

    def report(name: tuple[str, str], finding: Finding | None) -> None:
        reports.append((*name, finding.code if finding else ""))

    async def script(hands: House) -> None:
        await hands.source(secretRef={"name": "missing"})
        await hands.unit("web")
        await hands.rest(120)
        assert [one[:2] for one in sorted(reports)] == [
            ("GitSource", "shop/src"),
            ("Unit", "shop/web"),
        ]
        assert all(code for _, _, code in reports)

    play(hands, script, replace(hands.program(), problems=report))


@pytest.mark.slow
def test_a_receiver_without_its_key_is_reported_until_it_is_served(hands: House) -> None:
    async def script(hands: House) -> None:
        put_secret(hands.stage, "one", token=KEY)
        await hands.source()
        await hands.apply("Receiver", "one", type="gitea", secretRef={"name": "one"})
        await hands.apply("Receiver", "two", type="gitea", secretRef={"name": "two"})
        for _ in range(3):  # every round looks again
            await hands.rest(60)
            assert hands.says("Receiver", "two") == ("False", "ApplyFailed")
            assert hands.says("Receiver", "one") == ("True", "Succeeded")
            assert [bool(hands.status("Receiver", n).get("url")) for n in ("one", "two")] == [
                True,
                False,
            ]
        put_secret(hands.stage, "two", token=KEY)
        await hands.rest(120)
        assert hands.says("Receiver", "two") == ("True", "Succeeded")
        assert hands.status("Receiver", "two")["url"]

    play(hands, script, replace(hands.program(), listen=Listen(port=0)))
