"""Rules that hold without the webhooks of OpenKruise: selectors of its workloads stay."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gitkruise.gitops.reconcile.preflight import check_updates
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from tests.planner.statefulset.build import advanced
from tests.planner.sync.build import desired
from tests.worlds import SPACE, cloneset


@pytest.mark.parametrize("made", [cloneset(), advanced()], ids=["CloneSet", "StatefulSet"])
def test_a_moved_selector_is_rejected_before_anything_is_sent(made: Any) -> None:
    live = {**made, "metadata": {**made["metadata"], "namespace": SPACE}}
    own = f'"app":"{live["metadata"]["name"]}"'.encode()
    moved = msgspec.json.decode(msgspec.json.encode(live).replace(own, b'"app":"moved"'))
    new = desired(moved)
    found = check_updates([new], {new.key: live}, load_catalog(), Gates())
    assert [f.code for f in found] == ["GK2201"]
    assert check_updates([new], {new.key: moved}, load_catalog(), Gates()) == []
