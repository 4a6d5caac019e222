"""Random histories of units that are objects of the cluster: conditions and Events as well."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import yaml

from tests.gitops.objects import GROUP, House
from tests.observer.histories import Player
from tests.observer.program import Program
from tests.observer.statements import condition_lies
from tests.observer.truth import Seen


class DeclaredPlayer(Player):
    """Plays one history of units that somebody applied with kubectl, before the first start."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.house: Final = House(self.program.stage, folder)

    def _program(self, folder: Path) -> Program:
        return Program(folder, "")

    def _first(self) -> dict[str, Any]:
        return self.copy.files()

    async def _script(self, steps: int) -> None:
        url = self.program.origin.bare
        for obj in yaml.safe_load_all(self.config.format(url=url)):
            await self.house.apply(obj["kind"], obj["metadata"]["name"], **obj["spec"])
        await super()._script(steps)

    async def _rest(self) -> Seen:
        seen = await super()._rest()
        if not self.lies:
            units = {f"shop/{u['metadata']['name']}": u for u in self._objects(GROUP, "Unit")}
            self.lies += condition_lies(self.expected, units, self._objects("", "Event"))
        return seen

    def _objects(self, group: str, kind: str) -> list[Any]:
        return self.program.objects(group, kind)
