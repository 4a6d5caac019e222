"""The lines of `get --watch` where no terminal is."""

from __future__ import annotations

import pytest

from gitkruise.cli.console.style import Style
from gitkruise.cli.views.resources import rollouts
from gitkruise.cli.views.watch import LineOutput
from gitkruise.gitops.inspect.cluster_view import Managed
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.labels import ADVANCED_DAEMONSET, DEPLOYMENT
from gitkruise.wire.primitives.names import ObjectKey
from tests.cli.shop import START

PLAIN = Style(colour=False, unicode=True, width=100)


def test_workloads_of_one_name_have_a_line_each(capsys: pytest.CaptureFixture[str]) -> None:
    found = [
        Managed(
            key=ObjectKey(*kind, "shop", "web"), obj={}, state=state, message="", unit="",
            commit="", path="",
        )
        for kind, state in ((DEPLOYMENT, State.DONE), (ADVANCED_DAEMONSET, State.ROLLING))
    ]  # fmt: skip
    output = LineOutput("rollouts", PLAIN, json=False)
    for seen in (found, found, found[1:]):
        output.show(seen, rollouts(seen), START)
    lines = [line.partition(" ")[2] for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "deployment/web -n shop state=Done",
        "ads/web -n shop state=Rolling",
        "deployment/web -n shop gone",
    ]
