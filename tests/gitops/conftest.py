"""A stage for a test, cleared away after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.gitops.cluster.engine import HEEDS_CANARIES, LEASE_NAMESPACE, WORKLOADS_LEASE
from tests.gitops.objects import House
from tests.gitops.stage import MakeStage, Stage
from tests.worlds import START, create

LEASE: Final = {
    "apiVersion": "coordination.k8s.io/v1",
    "kind": "Lease",
    "metadata": {
        "name": WORKLOADS_LEASE,
        "namespace": LEASE_NAMESPACE,
        "annotations": {HEEDS_CANARIES: "true"},
    },
    "spec": {"holderIdentity": "sandbox"},
}


@pytest.fixture
def staged(tmp_path: Path) -> Iterator[MakeStage]:
    with ExitStack() as stack:

        def make(**spec: Any) -> Stage:
            return stack.enter_context(closing(Stage(tmp_path, **spec)))

        yield make


@pytest.fixture
def embedded(staged: MakeStage) -> MakeStage:
    """Stages of an embedded cluster, whose Deployment controller pauses at a canary."""

    def made(**more: Any) -> Stage:
        stage = staged(**more)
        stage.world.handle(create(stage.world, LEASE), START)
        return stage

    return made


@pytest.fixture
def hands(staged: MakeStage, tmp_path: Path) -> House:
    return House(staged(), tmp_path)
