"""An apply that another client's write overtakes: it goes on, unless that was another commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import pytest

from gitkruise.gitops.reconcile.applier import Applier, Sent
from gitkruise.model.gitops.config import Unit, UnitSpec
from gitkruise.model.gitops.document import GitCommit
from gitkruise.planner.sync.annotations import COMMIT, MANAGER, marked
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    MERGE_PATCH,
    ApiReply,
    ApiRequest,
    ResourceRef,
)
from tests.clock import ManualClock
from tests.gitops.stage import Wire
from tests.planner.sync.build import LABEL, desired, thing
from tests.worlds import SPACE, START, empty_world

MAPS: Final = ResourceRef("", "v1", "configmaps")
OLD, OURS, NEWER = "1" * 40, "2" * 40, "3" * 40
UNIT: Final = Unit(
    namespace=SPACE, name="web", spec=msgspec.convert({"sourceRef": {"name": "src"}}, UnitSpec)
)


class Overtaken(Wire):
    """Right before the first apply leaves, `happen` takes place in the cluster."""

    happen: Callable[[], object] = staticmethod(lambda: None)

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.content_type == APPLY_PATCH:
            happen, self.happen = self.happen, lambda: None
            happen()
        return await super().send(request)


class Scene:
    """A ConfigMap that commit `OLD` applied."""

    def __init__(self, *, present: bool) -> None:
        self.world, self.clock = empty_world(), ManualClock(START)
        self.wire = Overtaken(Cluster(self.world, self.clock.now))
        if present:
            self.applied(OLD, mode="old")

    def applied(self, commit: str, *, mode: str) -> None:
        """Another gitkruise applies a commit."""
        wanted = desired(thing("a", data={"mode": mode}))
        obj = marked(wanted, unit=UNIT.id, label=LABEL, commit=commit, path="a.yaml:1")
        self._patch(obj, APPLY_PATCH, fieldManager=MANAGER, force="true")

    def labelled(self) -> None:
        self._patch({"metadata": {"labels": {"of": "them"}}}, MERGE_PATCH)

    def _patch(self, body: Obj, content_type: str, **params: str) -> None:
        asked = ApiRequest(verb="patch", resource=MAPS, namespace=SPACE, name="a", body=body,
                           content_type=content_type, params=params)  # fmt: skip
        self.world.handle(asked, START)

    def delete(self) -> None:
        self.world.handle(
            ApiRequest(verb="delete", resource=MAPS, namespace=SPACE, name="a"), START
        )

    def live(self) -> Obj | None:
        return self.world.get(desired(thing("a")).key)

    def apply(self, *, dry_run: bool = False) -> Sent:
        """Apply `mode: new` of commit `OURS`, as decided on what is live now."""
        wanted, live = desired(thing("a", data={"mode": "new"})), self.live()
        applier = Applier(self.wire, UNIT, LABEL, GitCommit(id=OURS), clock=self.clock)
        there = {wanted.key: live} if live else {}
        work = applier.send([wanted], there, self.world.catalog, dry_run=dry_run)
        return self.clock.run(work)[0]


GOES_ON: Final[dict[str, Callable[[Scene], object]]] = {
    "nothing": lambda _: None,
    "a label of another client": Scene.labelled,
    "our own commit, whose answer was lost": lambda scene: scene.applied(OURS, mode="old"),
}


@pytest.mark.parametrize("happen", GOES_ON.values(), ids=GOES_ON)
def test_an_apply_is_made_again_on_the_present_version(happen: Callable[[Scene], object]) -> None:
    scene = Scene(present=True)
    scene.wire.happen = lambda: happen(scene)
    sent = scene.apply()
    assert sent.finding is None
    assert get(scene.live(), "data", "mode") == "new"
    assert get(scene.live(), "metadata", "annotations", COMMIT) == OURS


def test_an_apply_that_another_commit_overtook_is_refused_and_tried_later() -> None:
    scene = Scene(present=True)
    scene.wire.happen = lambda: scene.applied(NEWER, mode="newer")
    sent = scene.apply()
    assert sent.finding is not None
    assert sent.finding.code == "GK4102"
    assert f"commit {NEWER[:7]} was applied meanwhile" in sent.finding.message
    assert sent.retry
    assert get(scene.live(), "data", "mode") == "newer"


def test_an_object_that_was_deleted_meanwhile_is_not_brought_back() -> None:
    scene = Scene(present=True)
    scene.wire.happen = scene.delete
    assert scene.apply().retry
    assert scene.live() is None


def test_an_object_that_went_and_came_with_another_commit_is_left_alone() -> None:
    scene = Scene(present=True)

    def happen() -> None:
        scene.delete()
        scene.applied(NEWER, mode="newer")

    scene.wire.happen = happen
    assert scene.apply().retry
    assert get(scene.live(), "data", "mode") == "newer"


def test_a_dry_run_is_bound_to_no_version() -> None:
    scene = Scene(present=True)
    scene.wire.happen = lambda: scene.applied(NEWER, mode="newer")
    assert scene.apply(dry_run=True).finding is None
    assert len(scene.wire.requests) == 1


def test_an_undisturbed_apply_is_one_request() -> None:
    scene = Scene(present=True)
    scene.apply()
    assert len(scene.wire.requests) == 1
