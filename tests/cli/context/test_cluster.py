"""A cluster that its reader may not see as a whole."""

from __future__ import annotations

import asyncio

import pytest

from gitkruise.cli.context.cluster import look
from gitkruise.errors import ApiError, Forbidden, NotFound
from gitkruise.gitops.inspect.cluster_view import Survey
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, CLONESET
from tests.gitops.inspect.test_survey import refusing


@pytest.mark.parametrize(
    ("error", "told"),
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
    error: ApiError, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    transport = refusing(ADVANCED_STATEFULSET, error)
    survey = Survey(transport, load_catalog(), (CLONESET, ADVANCED_STATEFULSET))
    asyncio.run(look(survey))
    assert capsys.readouterr() == ("", told)
