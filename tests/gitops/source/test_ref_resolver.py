"""Which commit a source means: precedence, ranges, pins; one question and one fetch for all."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from gitkruise.errors import DiagnosticError
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.source.follower import SourceFollower
from gitkruise.gitops.source.poller import Polling, pause_after
from gitkruise.gitops.source.ref_resolver import ResolvedRef, look
from gitkruise.model.gitops.config import GitRef, GitSource, GitSourceSpec
from gitkruise.sandbox.controllers import alongside
from tests.clock import ManualClock
from tests.git.repos import Origin, make_origin, run_git, serve
from tests.gitops.stage import Inline, MakeStage, config_map, documents
from tests.worlds import START

pytestmark = pytest.mark.slow


class RevisionOwner:
    """A repository whose refs all lead elsewhere."""

    def __init__(self, folder: Path) -> None:
        self.origin = make_origin(folder)
        names = ("commit", "refs/x/name", "v1.2.0", "v1.1.0", "other", "main")
        self.ids = {name: self.origin.commit({"a": name}, name) for name in names}
        for name in ("v1.2.0", "v1.1.0"):
            run_git(self.origin.work, "tag", "-a", "-m", name, name, self.ids[name])
        run_git(self.origin.work, "tag", "v9.0.0-rc.1", self.ids["main"])
        pushed = [f"{self.ids['refs/x/name']}:refs/x/name", f"{self.ids['other']}:refs/heads/other"]
        run_git(self.origin.work, "push", "--quiet", "--tags", "origin", *pushed)


def source(**ref: str) -> GitSource:
    return GitSource("shop", "src", GitSourceSpec(url="x", ref=msgspec.convert(ref, GitRef)))


def targets(repository: Repository, *sources: GitSource) -> list[str]:
    """The commit each means, or the code of what is wrong."""
    found = look(repository, sources)
    return [x.commit if isinstance(x, ResolvedRef) else x.findings[0].code for x in found]


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> RevisionOwner:
    return RevisionOwner(tmp_path_factory.mktemp("shelf"))


ALL = {"name": "refs/x/name", "semver": "1.x", "tag": "v1.1.0", "branch": "other"}


@pytest.mark.parametrize("far", [False, True], ids=["in place", "mirrored"])
def test_the_strongest_of_several_refs_counts(
    shelf: RevisionOwner, tmp_path: Path, *, far: bool
) -> None:
    refs: list[dict[str, str]] = [{"commit": shelf.ids["commit"], **ALL}]
    refs += [{key: ALL[key] for key in list(ALL)[at:]} for at in range(len(ALL) + 1)]
    names = ["commit", "refs/x/name", "v1.2.0", "v1.1.0", "other", "main"]
    with serve(shelf.origin.bare.parent) as base:
        url = f"{base}/origin.git" if far else str(shelf.origin.bare)
        with Repository.open(url, mirrors=tmp_path, protocols={"http", "file"}) as repository:
            found = targets(repository, *(source(**ref) for ref in refs))
            assert found == [shelf.ids[name] for name in names]


@pytest.mark.parametrize(
    ("ref", "code"),
    [
        ({"branch": "gone"}, "GK3201"),
        ({"tag": "v3"}, "GK3201"),
        ({"branch": "-x"}, "GK3201"),
        ({"semver": ">=2"}, "GK3207"),
        ({"commit": "0" * 40}, "GK3201"),
    ],
)
def test_what_is_not_there_is_reported_without_harm_to_others(
    shelf: RevisionOwner, ref: dict[str, str], code: str
) -> None:
    with Repository.open(str(shelf.origin.bare)) as repository:
        found = targets(repository, source(**ref), source(branch="main"))
    assert found == [code, shelf.ids["main"]]


def test_a_pin_outside_the_branch_is_asked_for_by_its_id(
    shelf: RevisionOwner, tmp_path: Path
) -> None:
    run_git(shelf.origin.bare, "config", "uploadpack.allowAnySHA1InWant", "true")
    with (
        serve(shelf.origin.bare.parent) as base,
        Repository.open(f"{base}/origin.git", mirrors=tmp_path, protocols={"http"}) as repository,
    ):
        tree = repository.tree_id(repository.fetch("main"))
        lonely = run_git(shelf.origin.bare, "commit-tree", tree, "-m", "on no branch")
        assert targets(repository, source(commit=lonely)) == [lonely]


def test_sources_of_one_repository_share_question_and_fetch(tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    asked: list[str] = []
    commits: dict[str, list[str]] = {"main": [], "other": [], "1.x": []}
    clock = ManualClock(START)

    def follower(repository: Repository, name: str, **ref: str) -> SourceFollower:
        return SourceFollower(
            source(**ref), repository, on_commit=commits[name].append,
            on_problem=lambda *_: None, live=lambda: (),
        )  # fmt: skip

    with (
        serve(tmp_path, asked=asked) as base,
        Repository.open(f"{base}/origin.git", mirrors=tmp_path / "m", protocols={"http"}) as far,
    ):
        polling = Polling(
            far,
            [
                follower(far, "main", branch="main"),
                follower(far, "other", branch="other"),
                follower(far, "1.x", semver="1.x"),
            ],
            clock,
        )
        first = _release(origin, "1.0.0")
        clock.run(polling.check())
        assert _conversations(asked) == 2  # ls-remote, and one fetch for three refs
        asked.clear()
        clock.run(polling.check())
        assert len(asked) == 1  # nothing moved: nothing is fetched
        second = _release(origin, "1.1.0")
        asked.clear()
        clock.run(polling.check())
        assert _conversations(asked) == 1  # the fetch; the listing starts no git
    assert commits == {name: [first, second] for name in commits}


def test_a_known_branch_is_asked_for_and_fetched_in_one_conversation(tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    asked: list[str] = []
    with (
        serve(tmp_path, asked=asked) as base,
        Repository.open(f"{base}/origin.git", mirrors=tmp_path / "m", protocols={"http"}) as far,
    ):
        counts, pushed = [], ""
        for message in ("first", "second", "", "fourth"):
            pushed = origin.commit({"a": message}, message) if message else pushed
            asked.clear()
            assert look(far, [source(branch="main")]) == [ResolvedRef("refs/heads/main", pushed)]
            counts.append(_conversations(asked))
        assert counts == [2, 1, 0, 1]  # the third is a listing without git
        run_git(origin.bare, "update-ref", "-d", "refs/heads/main")
        assert targets(far, source(branch="main")) == ["GK3201"]


def _release(origin: Origin, version: str) -> str:
    commit = origin.commit({"a": version})
    run_git(origin.work, "tag", "-a", "-m", version, version)
    run_git(origin.work, "push", "--quiet", "--tags", "origin", "HEAD:refs/heads/other")
    return commit


def _conversations(asked: list[str]) -> int:
    return sum("/info/refs?" in line for line in asked)


@pytest.mark.parametrize(
    ("failures", "interval", "pause"),
    [(0, 5, 5), (1, 5, 1), (2, 5, 2), (5, 5, 16), (10, 5, 300), (10, 900, 512), (0, 900, 900)],
)
def test_pauses_grow_while_nothing_answers(failures: int, interval: int, pause: int) -> None:
    assert pause_after(failures, timedelta(seconds=interval)) == timedelta(seconds=pause)


def _looks(polling: Polling, clock: ManualClock, seconds: float) -> None:
    """Let it poll by itself for so long."""

    async def script() -> None:
        asyncio.get_running_loop().set_default_executor(Inline())
        async with alongside(polling.run()):
            await clock.sleep(seconds)

    clock.run(script())


def _quiet(repository: Repository) -> SourceFollower:
    return SourceFollower(
        source(branch="main"), repository, on_commit=lambda _: None, on_problem=lambda *_: None,
        live=lambda: (),
    )  # fmt: skip


def test_a_server_is_asked_every_interval(tmp_path: Path) -> None:
    make_origin(tmp_path).commit({"a": "1"})
    asked: list[str] = []
    clock = ManualClock(START)
    with (
        serve(tmp_path, asked=asked) as base,
        Repository.open(f"{base}/origin.git", mirrors=tmp_path / "m", protocols={"http"}) as far,
    ):
        look(far, [source(branch="main")])
        asked.clear()
        _looks(Polling(far, [_quiet(far)], clock), clock, 32)
    assert 7 <= len(asked) <= 9  # one at once, and then every 4 s to 5 s


def test_a_silent_server_is_asked_ever_less(tmp_path: Path) -> None:
    clock = ManualClock(START)
    url = "http://127.0.0.1:9/origin.git"
    with Repository.open(url, mirrors=tmp_path, protocols={"http"}) as far:
        _looks(Polling(far, [_quiet(far)], clock), clock, 1000)
        with pytest.raises(DiagnosticError) as caught:
            far.tip("main")
    tries = dict(caught.value.findings[0].notes)["git said"].rpartition(", ")[2]
    assert 10 <= int(tries.split()[0]) <= 13  # 1 s, 2 s, 4 s, … 300 s, 300 s


def test_releases_are_followed_wherever_they_were_made(staged: MakeStage) -> None:
    stage = staged()
    stage.ref = GitRef(semver="1.x")
    stage.start_over()
    work, bare = stage.origin.work, stage.origin.bare

    def release(version: str, start: str) -> None:
        run_git(work, "checkout", "--quiet", start)
        text = documents(config_map("settings", version=version))
        stage.origin.commit({"app.yaml": text}, version, branch=f"made-{version}")
        run_git(work, "tag", version)
        run_git(work, "push", "--quiet", "--force", "origin", f"refs/tags/{version}")

    def version() -> str:
        return str(stage.get("ConfigMap", "settings")["data"]["version"])

    async def look_again() -> None:
        await stage.follower.check()
        await stage.rest()

    async def script() -> None:
        async with stage.running():
            stage.origin.commit({"README": "x"})
            release("1.0.0", "main")
            await look_again()
            assert version() == "1.0.0"
            release("1.1.0-rc.1", "HEAD")
            await look_again()
            assert version() == "1.0.0"
            release("1.0.1", "HEAD~2")  # not made on top of 1.0.0
            await look_again()
            assert (stage.state, version()) == ("Done", "1.0.1")
            run_git(bare, "tag", "-d", "1.0.1")
            await look_again()
            assert (stage.state, version()) == ("Rejected", "1.0.1")
            assert stage.record.findings[0].code == "GK3204"
            release("1.2.0", "HEAD")  # on top of what is live
            await look_again()
            assert (stage.state, version()) == ("Done", "1.2.0")

    stage.play(script)
    assert isinstance(look(stage.repository, [source(branch="gone")])[0], DiagnosticError)
