"""A cluster that is restored from a backup while a controller runs."""

from __future__ import annotations

import pytest

from gitkruise.sandbox.backend.cluster import Cluster
from tests.gitops.stage import MakeStage, config_map

pytestmark = pytest.mark.slow
OUTAGE_S = 90  # longer than the API server needs for a bookmark


@pytest.mark.parametrize("ahead", [0, 1_000], ids=["older-versions", "raised-versions"])
def test_what_git_says_holds_after_a_restore(staged: MakeStage, ahead: int) -> None:
    """The backup lacks what was created since, has what was deleted since, and old contents.

    `ahead`: resourceVersions that were added by the restore.
    """
    stage = staged(prune={"propagation": "Background"})
    kept, old, new = config_map("kept", k="1"), config_map("old"), config_map("new")

    async def script() -> None:
        async with stage.running():
            await stage.push(kept, old)
            await stage.rest()
            backup, version = [*stage.world.state.everything()], stage.world.version
            await stage.push(config_map("kept", k="2"), new)
            await stage.rest()
            assert (stage.state, stage.get("ConfigMap", "old")) == ("Done", None)

            stage.wire.cut = True
            await stage.rest(OUTAGE_S)
            stage.world = stage.world.fork()
            stage.world.restore(backup, version + ahead)
            stage.wire.cluster = stage.cluster = Cluster(stage.world, stage.clock.now)
            stage.wire.cut = False
            await stage.rest(OUTAGE_S)
            assert stage.state == "Done"
            assert stage.get("ConfigMap", "kept")["data"] == {"k": "2"}
            assert stage.get("ConfigMap", "new") is not None
            assert stage.get("ConfigMap", "old") is None

    stage.play(script)
