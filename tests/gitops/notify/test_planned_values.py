"""The plan of a pull request has the values of ConfigMaps that its units are rendered with."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.gitops.build.test_post_build import secret
from tests.gitops.notify.harness import CHECK, ForgeHarness
from tests.gitops.stage import MakeStage, config_map, web

RENDER: Final = {"substitute": {"from": [{"configMap": "values"}, {"secret": "hidden"}]}}
TOKEN: Final = "canary-of-the-secret"
LOGIN: Final = {
    "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"},
    "stringData": {"token": "${TOKEN}"},
}  # fmt: skip
OBJECTS: Final = (config_map("of-${REGION}", region="${REGION}"), LOGIN)


def test_values_of_config_maps_are_read_and_those_of_secrets_are_not(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged(render=RENDER)
    stage.meddle(config_map("values", REGION="eu"))
    stage.meddle(secret("hidden", TOKEN=TOKEN))
    harness = ForgeHarness(stage, tmp_path)

    async def script() -> None:
        async with harness.open():
            await harness.push(web(), *OBJECTS, message="first")
            await stage.rest()
            assert stage.state == "Done"
            head = harness.branch(1, web("app:v2"), *OBJECTS)
            named = harness.branch(2, web(), *OBJECTS, secret("of-${TOKEN}", a="b"))
            await stage.rest(5)
            plan = harness.comment(1)
            assert "reject" not in plan
            assert "4 in place" in plan
            assert "of-" not in plan, "it is as it was"
            assert harness.status(head, CHECK)[0] == "success"
            assert "unit rejects" not in harness.status(head, CHECK)[1]
            assert harness.status(named, CHECK)[0] == "failure"
            assert TOKEN not in harness.comment(2)

    stage.play(script)
