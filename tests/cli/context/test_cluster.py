"""A cluster that its reader may not see as a whole."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gitkruise.cli.context.cluster import look
from gitkruise.cli.views.dashboard import ClusterSource
from gitkruise.errors import ApiError, Forbidden, NotFound
from gitkruise.gitops.inspect.cluster_view import Survey
from gitkruise.kube.auth.connection import Connection
from gitkruise.kube.client.connection_errors import cluster_failed
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET
from tests.clock import ManualClock
from tests.gitops.inspect.test_survey import refusing
from tests.worlds import START


@pytest.mark.parametrize(
    ("error", "output"),
    [
        (
            Forbidden("not yours"),
            "not known, as this account may not list them: statefulsets.apps.kruise.io\n",
        ),
        (NotFound("not served"), ""),
    ],
    ids=["forbidden", "not served"],
)
def test_a_reader_hears_what_the_account_may_not_list(
    error: ApiError, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    transport = refusing(ADVANCED_STATEFULSET, error)
    survey = Survey(transport, load_catalog(), (CLONESET, ADVANCED_STATEFULSET))
    asyncio.run(look(survey))
    assert capsys.readouterr() == ("", output)


def test_a_command_goes_on_without_all_of_what_it_can_do_without() -> None:
    transport = refusing(ADVANCED_STATEFULSET, Forbidden("not yours"))
    survey = Survey(transport, load_catalog(), (ADVANCED_STATEFULSET,))
    asyncio.run(look(survey, dispensable=True))
    assert survey.left_out == {"statefulsets.apps.kruise.io"}


def test_a_dashboard_notices_which_kinds_its_account_may_not_list() -> None:
    """A right that is taken away changes no object, and the note has to come all the same."""
    transport = refusing(ADVANCED_STATEFULSET, Forbidden("not yours"))
    survey = Survey(transport, load_catalog(), (CLONESET, ADVANCED_STATEFULSET))
    unread: Any = None
    source = ClusterSource(survey, ManualClock(START), "prod", "", unread, unread)
    assert source.head()["unread"] == []
    asyncio.run(survey.look())
    source.look()
    assert source.changed.is_set()
    assert source.head()["unread"] == ["statefulsets.apps.kruise.io"]
    source.changed.clear()
    source.look()
    assert not source.changed.is_set()


@pytest.mark.parametrize("fix", ["", "name a namespace with -n"])
def test_a_reader_is_not_advised_to_take_the_rights_of_the_controller(fix: str) -> None:
    connection = Connection(server="https://10.0.0.1", context="prod")
    (finding,) = cluster_failed(connection, Forbidden("not yours"), fix).findings
    notes = dict(finding.notes)
    assert notes["next"] == "give this account the right that is named above"
    assert notes.get("or", "") == fix
