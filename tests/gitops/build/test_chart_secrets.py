"""The login for a registry of charts, from the kinds of Secrets that people have for it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gitkruise.errors import Finding, SourceFailed, UsageProblem
from gitkruise.gitops.build.post_build import chart_of
from gitkruise.gitops.charts.fetcher import ChartAnswer
from gitkruise.gitops.http_get import Access
from gitkruise.model.gitops.analysis import SecretReference
from gitkruise.model.gitops.config import Helm, Reference, Render, Unit, UnitSpec
from tests.gitops.source.test_artifacts import Secrets

LOGIN = {"Authorization": "Basic YW5uOmh1bnRlcjI="}  # ann:hunter2
PULL = json.dumps({"auths": {"charts.example": {"username": "ann", "password": "hunter2"}}})


class Empty:
    """A registry without charts, which keeps how it was asked."""

    asked: Access | None = None

    async def fetched(self, unit: Unit, access: Access) -> ChartAnswer:
        self.asked = access
        raise SourceFailed(Finding(code="GK3404", message="it has no charts"))

    @property
    def kept(self) -> Empty:
        return self


def asked(repository: str, secret: dict[str, str]) -> Any:
    """The headers with which a chart is asked for."""
    helm = Helm(
        repository=repository, chart="web", version="1", secret_ref=SecretReference("charts")
    )
    spec = UnitSpec(source_ref=Reference("src"), render=Render(kind="helm", helm=helm))
    cluster, registry = Secrets(), Empty()
    cluster.data["charts"] = secret
    with pytest.raises(SourceFailed):
        asyncio.run(chart_of(Unit("shop", "web", spec), cluster, registry))  # type: ignore[arg-type]
    assert registry.asked is not None
    return registry.asked.headers()


def test_a_pull_secret_is_a_login_for_a_registry_of_charts() -> None:
    assert asked("oci://charts.example/team", {".dockerconfigjson": PULL}) == LOGIN
    assert asked("oci://x.example", {"username": "ann", "password": "hunter2"}) == LOGIN


@pytest.mark.parametrize("repository", ["oci://other.example/team", "https://charts.example"])
def test_a_pull_secret_for_something_else_is_no_login(repository: str) -> None:
    with pytest.raises(UsageProblem, match="no credentials for charts"):
        asked(repository, {".dockerconfigjson": PULL})
