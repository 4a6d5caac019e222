"""Charts are fetched once, verified, kept, and kept in use while their repository is away."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.errors import DiagnosticError, InvalidManifests, SourceFailed
from gitkruise.git.helm.release import FetchedChart
from gitkruise.gitops.charts import cache
from gitkruise.gitops.charts.cache import ChartCache
from gitkruise.gitops.charts.fetcher import ChartAnswer, ChartFetcher, LiveCharts
from gitkruise.gitops.http_get import Access
from gitkruise.model.gitops.analysis import SecretReference
from gitkruise.model.gitops.config import Helm, Reference, Render, Unit, UnitSpec
from gitkruise.model.gitops.record import ChartRecord
from tests.clock import ManualClock
from tests.gitops.analysis.endpoint import fetch_now
from tests.gitops.charts.hosts import Host, chart, serving

USER = Access({"username": "ann", "password": "hunter2-hunter2"})
BASIC = "Basic " + base64.b64encode(b"ann:hunter2-hunter2").decode()
pytestmark = pytest.mark.slow

ONE, TWO, NEXT = chart("1.0.0"), chart("1.1.0"), chart("2.0.0-rc.1")


@pytest.fixture
def host() -> Iterator[Host]:
    with serving() as found:
        found.publish(("1.0.0", ONE), ("2.0.0-rc.1", NEXT), ("1.1.0", TWO))
        yield found


def unit_of(
    host: Host, version: str, *, secret: str = "", name: str = "web", custom: bool = False
) -> Unit:
    helm = Helm(
        repository=host.url, chart=name, version=version,
        secret_ref=SecretReference(secret) if secret else None,
    )  # fmt: skip
    spec = UnitSpec(source_ref=Reference("src"), render=Render(kind="helm", helm=helm))
    return Unit("shop", "web", spec, custom=custom)


class Charts:
    """A fetcher with a folder of its own, asked in real time; its clock is moved by hand."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.cache = ChartCache(folder)
        self.fetcher = ChartFetcher(self.cache, self.clock, fetch_now)

    def answer(self, unit: Unit, access: Access | None = None) -> ChartAnswer:
        return asyncio.run(self._answer(unit, access or Access()))

    async def _answer(self, unit: Unit, access: Access) -> ChartAnswer:
        return await self.fetcher.fetched(unit, access)

    def version(self, unit: Unit, access: Access | None = None) -> str:
        return self.answer(unit, access).chart.version

    def refusal(self, unit: Unit, access: Access | None = None) -> str:
        with pytest.raises(DiagnosticError) as caught:
            self.answer(unit, access)
        (finding,) = caught.value.findings
        return "\n".join(map(str, (finding.code, finding.message, *finding.notes)))

    def wait(self, seconds: float) -> None:
        self.clock.run(self.clock.sleep(seconds))


@pytest.fixture
def charts(tmp_path: Path) -> Charts:
    return Charts(tmp_path)


# What a unit writes, and the version that it means.
MEANT = [
    ("1.0.0", "1.0.0"), ("v1.0.0", "1.0.0"), ("2.0.0-rc.1", "2.0.0-rc.1"), ("1.x", "1.1.0"),
    (">=1.0.0", "1.1.0"), ("*", "1.1.0"), (">=1.0.0-0", "2.0.0-rc.1"), ("~1.0", "1.0.0"),
]  # fmt: skip


@pytest.mark.parametrize(("written", "meant"), MEANT)
def test_a_version_is_exact_or_the_highest_of_a_range(
    host: Host, charts: Charts, written: str, meant: str
) -> None:
    assert charts.version(unit_of(host, written)) == meant


def test_an_exact_version_that_is_kept_needs_no_request(host: Host, charts: Charts) -> None:
    answer = charts.answer(unit_of(host, "1.0.0"))
    assert answer.chart.digest == hashlib.sha256(ONE).hexdigest()
    assert Path(answer.chart.archive).read_bytes() == ONE
    assert host.paths == ["/index.yaml", "/charts/web-1.0.0.tgz"]
    assert charts.answer(unit_of(host, "1.0.0")) == answer
    assert len(host.requests) == 2


def test_a_range_follows_new_versions(host: Host, charts: Charts) -> None:
    unit = unit_of(host, "1.x")
    assert charts.version(unit) == "1.1.0"
    charts.wait(60)
    assert charts.version(unit) == "1.1.0"
    assert host.paths == ["/index.yaml", "/charts/web-1.1.0.tgz", "/index.yaml"]
    host.publish(("1.0.0", ONE), ("1.2.0", chart("1.2.0")))
    assert charts.version(unit) == "1.1.0", "one answer is for all units of a moment"
    charts.wait(60)
    assert charts.version(unit) == "1.2.0"


def test_a_version_that_is_published_again_is_fetched_by_a_range(
    host: Host, charts: Charts
) -> None:
    before = charts.answer(unit_of(host, "1.x")).chart
    host.publish(("1.1.0", chart("1.1.0", template="")))
    charts.wait(60)
    after = charts.answer(unit_of(host, "1.x")).chart
    assert (before.version, after.version) == ("1.1.0", "1.1.0")
    assert before.digest != after.digest


def test_a_missing_chart_or_version_names_what_there_is(host: Host, charts: Charts) -> None:
    error = charts.refusal(unit_of(host, "1.0.0", name="databse"))
    assert error.startswith("GK3414\nthere is no chart databse")
    assert "'close to it', 'database'" in error
    error = charts.refusal(unit_of(host, "3.x"))
    assert "has no version 3.x" in error
    assert "'newest', '2.0.0-rc.1, 1.1.0, 1.0.0'" in error


def test_a_repository_that_is_away_leaves_the_last_version_in_use(
    host: Host, charts: Charts, tmp_path: Path
) -> None:
    unit = unit_of(host, "1.x")
    charts.version(unit)
    host.replies.clear()
    charts.wait(60)
    answer = charts.answer(unit)
    assert answer.chart.version == "1.1.0"
    assert answer.stale is not None
    assert answer.stale.code == "GK3417"
    assert not answer.stale.is_error
    assert "has not been readable since 20" in answer.stale.message
    assert "chart web 1.1.0 stays in use" in answer.stale.message
    again = Charts(tmp_path).answer(unit)  # another process
    assert again.chart == answer.chart
    assert again.stale is not None
    charts.wait(60)
    assert charts.answer(unit).stale == answer.stale, "since when does not move"
    host.publish(("1.2.0", chart("1.2.0")))
    charts.wait(60)
    assert charts.answer(unit).stale is None


@pytest.mark.parametrize(("asked", "waits"), [("", 20), ("5", 20), ("90", 90), ("999999", 3600)])
def test_a_repository_is_left_alone_for_as_long_as_it_asks(
    host: Host, charts: Charts, asked: str, waits: int
) -> None:
    unit = unit_of(host, "1.x")
    host.replies["/index.yaml"] = (429, {"Retry-After": asked}, b"")
    charts.refusal(unit)
    before = len(host.requests)
    charts.wait(waits - 1)
    charts.refusal(unit)
    assert len(host.requests) == before
    charts.wait(2)
    charts.refusal(unit)
    assert len(host.requests) > before


def test_a_refusal_ends_the_time_that_a_repository_was_away(host: Host, charts: Charts) -> None:
    unit = unit_of(host, "1.x")
    charts.version(unit)
    host.replies.clear()
    charts.wait(60)
    first = charts.answer(unit).stale
    host.publish(("3.0.0", chart("3.0.0")))
    charts.wait(60)
    assert "GK3414" in charts.refusal(unit)
    host.replies.clear()
    charts.wait(60)
    again = charts.answer(unit).stale
    assert first is not None
    assert again is not None
    assert again.message != first.message


def test_a_chart_that_is_live_is_found_by_its_digest(host: Host, charts: Charts) -> None:
    unit, data = unit_of(host, "1.x"), chart("1.0.0", template="")
    digest = hashlib.sha256(data).hexdigest()
    charts.version(unit_of(host, "1.0.0"))  # as it was published first

    def live(written: str, version: str, digest: str) -> FetchedChart:
        record = ChartRecord(repository=host.url, name="web", version=version, digest=digest)
        asked = LiveCharts(charts.fetcher, charts.cache, {"shop/web": record})
        return asyncio.run(asked.fetched(unit_of(host, written), Access())).chart

    for written, meant in (("1.x", "1.0.0"), ("1.0.0", "1.0.0"), ("1.1.0", "1.1.0")):
        assert live(written, "1.0.0", hashlib.sha256(ONE).hexdigest()).version == meant
    with pytest.raises(SourceFailed) as caught:
        live("1.x", "1.0.0", digest)
    assert "chart web 1.0.0 that is live is not kept here" in caught.value.findings[0].message
    host.publish(("1.0.0", data))
    charts.wait(60)
    charts.version(unit)
    assert live("1.0.0", "1.0.0", digest).digest == digest


def test_a_repository_that_was_never_there_is_an_error(host: Host, charts: Charts) -> None:
    host.replies.clear()
    error = charts.refusal(unit_of(host, "1.0.0"))
    assert error.startswith(f"GK3413\nchart web cannot be read from {host.url}: index.yaml")
    charts.refusal(unit_of(host, "1.1.0"))
    assert len(host.requests) == 1, "all units of a moment share one failure"


def test_an_archive_is_the_one_that_the_index_names(host: Host, charts: Charts) -> None:
    host.has("/charts/web-1.0.0.tgz", TWO)
    error = charts.refusal(unit_of(host, "1.0.0"))
    assert error.startswith("GK3416")
    assert hashlib.sha256(ONE).hexdigest() in error
    assert not [*charts.cache.folder.glob("*.tgz")]


def test_an_index_that_is_none_is_an_error(host: Host, charts: Charts) -> None:
    host.has("/index.yaml", b"{\n")
    assert "its index.yaml cannot be read" in charts.refusal(unit_of(host, "1.0.0"))


# Credentials ------------------------------------------------------------------------------------


def test_credentials_are_sent_to_the_repository_alone(host: Host, charts: Charts) -> None:
    host.user = BASIC
    assert "none were sent" in charts.refusal(unit_of(host, "1.0.0"))
    with serving() as other:
        other.has("/web.tgz", ONE)
        host.publish(("1.0.0", ONE), urls=[f"{other.url}/web.tgz"])
        error = charts.refusal(unit_of(host, "1.0.0", secret="charts"), USER)
        assert "only https:// is followed" in error
        host.publish(("1.0.0", ONE))
        host.replies["/charts/web-1.0.0.tgz"] = (302, {"Location": f"{other.url}/web.tgz"}, b"")
        charts.wait(60)
        error = charts.refusal(unit_of(host, "1.0.0", secret="charts"), USER)
        assert "only https:// is followed" in error
        assert other.requests == []
    host.replies["/charts/web-1.0.0.tgz"] = (302, {"Location": "/elsewhere.tgz"}, b"")
    host.has("/elsewhere.tgz", ONE)
    charts.wait(60)
    assert charts.version(unit_of(host, "1.0.0", secret="charts"), USER) == "1.0.0"
    assert host.requests[-1] == ("/elsewhere.tgz", BASIC)


def test_redirects_end(host: Host, charts: Charts) -> None:
    host.replies["/index.yaml"] = (302, {"Location": "/index.yaml"}, b"")
    assert "redirects more than 5 times" in charts.refusal(unit_of(host, "1.0.0"))


def test_a_secret_is_in_no_message(host: Host, charts: Charts) -> None:
    host.user = "Basic other"
    host.challenge = f'Basic realm="{USER.data["password"]}"'
    assert "hunter2" not in charts.refusal(unit_of(host, "1.0.0", secret="charts"), USER)


def test_a_chart_that_one_secret_read_is_not_shared(host: Host, charts: Charts) -> None:
    host.user = BASIC
    charts.version(unit_of(host, "1.0.0", secret="charts"), USER)
    with pytest.raises(SourceFailed):
        charts.answer(unit_of(host, "1.0.0"))
    with pytest.raises(SourceFailed):
        charts.answer(unit_of(host, "1.0.0", secret="other"), Access({"password": "x"}))


def test_an_object_of_the_cluster_is_led_to_no_other_namespace(host: Host, charts: Charts) -> None:
    host.publish(("1.0.0", ONE), urls=["https://web.other.svc/web.tgz"])
    error = charts.refusal(unit_of(host, "1.0.0", custom=True))
    assert "it is a Service of namespace other" in error


# Cache ------------------------------------------------------------------------------------------


def test_the_cache_is_bounded(host: Host, charts: Charts, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "ARCHIVES_MAX", 2)
    monkeypatch.setattr(cache, "NOTES_MAX", 2)
    for version in ("1.0.0", "1.1.0", "2.0.0-rc.1"):
        charts.version(unit_of(host, version))
    assert len([*charts.cache.folder.glob("*.tgz")]) == 2
    assert len([*charts.cache.folder.iterdir()]) == 4
    assert charts.version(unit_of(host, "1.0.0")) == "1.0.0", "it is fetched again"


def test_a_broken_cache_is_filled_again(host: Host, charts: Charts) -> None:
    charts.version(unit_of(host, "1.0.0"))
    for path in charts.cache.folder.glob("*.json"):
        path.write_text("{")
    assert charts.version(unit_of(host, "1.0.0")) == "1.0.0"


def test_kept_charts_are_taken_without_a_request(host: Host, charts: Charts) -> None:
    async def kept() -> ChartAnswer:
        return await charts.fetcher.kept.fetched(unit_of(host, "1.x"), Access())

    with pytest.raises(SourceFailed, match="was not fetched yet"):
        asyncio.run(kept())
    assert host.requests == []
    charts.version(unit_of(host, "1.x"))
    host.replies.clear()
    assert asyncio.run(kept()).chart.version == "1.1.0"


def test_a_content_error_is_no_reason_to_go_on(host: Host, charts: Charts) -> None:
    charts.version(unit_of(host, "1.x"))
    host.publish(("2.0.0", chart("2.0.0")))
    charts.wait(60)
    with pytest.raises(InvalidManifests):
        charts.answer(unit_of(host, "1.x"))
