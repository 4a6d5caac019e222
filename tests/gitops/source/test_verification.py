"""Commits that are not signed as the source demands are not read, and what runs goes on."""

from __future__ import annotations

import base64
import re
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gitkruise.app import controller
from gitkruise.errors import Finding
from gitkruise.git.repository.repository import Repository
from gitkruise.git.signing.verify import Signers
from gitkruise.gitops.source.verification import FirstSeen, Trust, Trusted, seen_file
from gitkruise.model.gitops.config import GitRef, Verify
from tests.cli.forms import all_forms
from tests.git.keys import sign, ssh_key
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, Stage, config_map, documents

pytestmark = pytest.mark.slow

SETTINGS = config_map("settings", mode="fast")
Signed = Callable[..., Stage]


@pytest.fixture
def signed(staged: MakeStage, tmp_path: Path) -> Signed:
    """A stage whose source takes only what bo signed."""
    keys = tmp_path / "keys"
    keys.mkdir()
    bo = ssh_key(keys, "bo")
    ssh_key(keys, "mallory")

    def make(mode: str = "head", **ref: str) -> Stage:
        stage = staged()
        rules = msgspec.convert({"mode": mode, "secretRef": {"name": "keys"}}, Verify)
        signers = Signers.from_secret({"bo.sshpub": bo}, "shop/keys")

        def trusted(repository: Repository) -> Trusted:
            seen = FirstSeen(tmp_path / "seen" / "src", stage.clock.now)
            return Trust(repository, rules, signers, seen).check

        stage.trusted = trusted
        stage.ref = msgspec.convert(ref or {"branch": "main"}, GitRef)
        stage.start_over()
        return stage

    return make


def commit(stage: Stage, keys: Path, text: str, who: str) -> str:
    """Commit and push app.yaml, signed by `who`; "" signs nothing."""
    (stage.origin.work / "app.yaml").write_text(text)
    run_git(stage.origin.work, "add", "--all")
    words = ("commit", "--quiet", "--allow-empty", "-m", f"by {who or 'nobody'}")
    if who:
        sign(stage.origin, *words, "-S", ssh=keys / who)
    else:
        run_git(stage.origin.work, *words)
    run_git(stage.origin.work, "push", "--quiet", "--force", "origin", "HEAD:refs/heads/main")
    return run_git(stage.origin.work, "rev-parse", "HEAD")


def text_of(finding: Finding, good: str) -> str:
    """As a person reads it, without what differs from run to run."""
    text = all_forms([finding])
    text = re.sub(r"SHA256:[A-Za-z0-9+/]+", "SHA256:<key>", text)
    return re.sub(r"commit [0-9a-f]{7}", "commit <bad>", text.replace(good[:7], "<good>"))


@pytest.mark.parametrize(("who", "code"), [("mallory", "GK3301"), ("", "GK3302")])
def test_the_last_good_commit_goes_on_being_healed(
    signed: Signed, tmp_path: Path, golden: Callable[[str, str], None], who: str, code: str
) -> None:
    stage, keys = signed(), tmp_path / "keys"

    async def script() -> None:
        async with stage.running():
            good = commit(stage, keys, documents(SETTINGS), "bo")
            await stage.follower.check()
            await stage.rest()
            assert stage.state == "Done"
            commit(stage, keys, "{{ not even YAML", who)
            for _ in range(3):
                await stage.follower.check()
                await stage.rest(5)
            assert stage.state == "Rejected"
            (finding,) = stage.record.findings
            assert finding.code == code  # and no word of what it says
            golden(f"gitops/{code}-{who or 'nobody'}.txt", text_of(finding, good))
            assert stage.record.applied is not None
            assert stage.record.applied.id == good
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            assert stage.state == "Rejected"
            stage.meddle(config_map("settings", mode="slow"))
            await stage.rest(5)
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
            commit(stage, keys, documents(config_map("settings", mode="new")), "bo")
            await stage.follower.check()
            await stage.rest()
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("ConfigMap", "settings")["data"] == {"mode": "new"}

    stage.play(script)


def test_a_signed_head_stands_for_what_it_leads_from(signed: Signed, tmp_path: Path) -> None:
    """Also after a start, when only the older commit is known to be live."""
    stage, keys = signed(), tmp_path / "keys"
    older = commit(stage, keys, documents(SETTINGS), "")
    head = commit(stage, keys, documents(SETTINGS), "bo")
    newer = commit(stage, keys, documents(SETTINGS), "")

    def codes(trusted: Trusted) -> list[str]:
        found = [trusted(one) for one in (older, head, newer)]
        return [one.code if one else "" for one in found]

    assert stage.trust(older) is not None
    assert stage.trust(head, "refs/heads/main") is None
    assert codes(stage.trust) == ["", "", "GK3302"]
    assert codes(stage.trusted(stage.repository)) == ["", "", "GK3302"]  # a new process
    (tmp_path / "seen" / "src").unlink()
    assert stage.trusted(stage.repository)(older) is not None


WAYS: list[tuple[str, str, str]] = [
    # mode, code for an unsigned commit on the branch, code for one that a signed merge brings
    ("head", "", ""), ("firstParent", "GK3302", ""), ("range", "GK3302", "GK3302"),
]  # fmt: skip


@pytest.mark.parametrize("row", WAYS, ids=[row[0] for row in WAYS])
def test_how_far_back_commits_must_be_signed(
    signed: Signed, tmp_path: Path, row: tuple[str, str, str]
) -> None:
    mode, branch, merged = row
    stage, keys = signed(mode), tmp_path / "keys"
    work, main = stage.origin.work, "refs/heads/main"

    def code(name: str) -> str:
        found = stage.trust(name, main)
        return found.code if found else ""

    commit(stage, keys, documents(SETTINGS), "")
    first = commit(stage, keys, documents(SETTINGS), "bo")
    assert code(first) == ""  # the first stands alone
    for again in (False, True):  # also after a start, though the bad ones were seen
        if again:
            stage.trust = stage.trusted(stage.repository)
        run_git(work, "reset", "--hard", "-q", first)
        commit(stage, keys, documents(SETTINGS), "")
        assert code(commit(stage, keys, documents(SETTINGS), "bo")) == branch
        stage.trust = stage.trusted(stage.repository) if again else stage.trust
        assert code(commit(stage, keys, documents(SETTINGS), "bo")) == branch
        if branch:
            run_git(work, "reset", "--hard", "-q", first)
            run_git(work, "commit", "-q", "--allow-empty", "-m", "aside")
            aside = run_git(work, "rev-parse", "HEAD")
            run_git(work, "reset", "--hard", "-q", first)
            sign(
                stage.origin, "merge", "-q", "--no-ff", "-S", "-m", "merge", aside, ssh=keys / "bo"
            )
            run_git(work, "push", "-q", "--force", "origin", "HEAD:main")
            assert code(run_git(work, "rev-parse", "HEAD")) == merged


@pytest.mark.parametrize("mode", ["firstParent", "range"])
def test_a_new_state_directory_is_no_way_around(signed: Signed, tmp_path: Path, mode: str) -> None:
    """It is new with every pod (emptyDir): the commit on the live objects is the last good one."""
    stage, keys = signed(mode), tmp_path / "keys"
    main = "refs/heads/main"

    def fresh(*live: str) -> Trust:
        shutil.rmtree(tmp_path / "seen", ignore_errors=True)
        trust = stage.trusted(stage.repository).__self__  # type: ignore[attr-defined]
        assert isinstance(trust, Trust)
        assert trust.asks_for_live
        trust.start(frozenset(live))
        return trust

    def code(trust: Trust, name: str) -> str:
        found = trust.check(name, main)
        return found.code if found else ""

    commit(stage, keys, documents(SETTINGS), "")
    older = commit(stage, keys, documents(SETTINGS), "bo")
    live = commit(stage, keys, documents(SETTINGS), "bo")
    commit(stage, keys, documents(SETTINGS), "mallory")
    refused = commit(stage, keys, documents(SETTINGS), "bo")
    assert code(fresh(live), refused) == "GK3301"
    assert code(fresh(older, live), refused) == "GK3301"
    assert code(fresh(live), live) == ""
    assert code(fresh(older), live) == ""
    assert code(fresh(), older) == ""  # nothing is live: it is the first


@pytest.mark.parametrize("mode", ["firstParent", "range"])
def test_a_restart_without_its_state_still_refuses_what_was_refused(
    signed: Signed, tmp_path: Path, mode: str
) -> None:
    stage, keys = signed(mode), tmp_path / "keys"
    secret = {"bo.sshpub": base64.b64encode((keys / "bo.pub").read_bytes()).decode()}
    text = (
        f"{SOURCE.rstrip()[:-2]}, verify: {{{{mode: {mode}, secretRef: {{{{name: keys}}}}}}}}}}}}\n"
    )

    async def run(state: str) -> None:
        program = options(stage, tmp_path, text + unit("web").replace("path: web", "path: ."))
        program = replace(program, state_dir=tmp_path / state)
        async with controller(program, stage.wire, stage.clock):
            await stage.rest(60)

    async def script() -> None:
        meta = {"name": "keys"}
        stage.meddle({"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": secret})
        commit(stage, keys, documents(SETTINGS), "bo")
        await run("one")
        assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}
        commit(stage, keys, documents(config_map("settings", mode="bad")), "mallory")
        commit(stage, keys, documents(config_map("settings", mode="worse")), "bo")
        await run("two")
        assert stage.get("ConfigMap", "settings")["data"] == {"mode": "fast"}

    stage.play(script)


def tag(stage: Stage, name: str, *words: str, keys: Path) -> None:
    sign(stage.origin, "tag", *words, name, ssh=keys / "bo")
    run_git(stage.origin.work, "push", "--quiet", "origin", f"refs/tags/{name}")


ROWS: list[tuple[str, str, str, str]] = [
    # mode, who signed the commit, how the tag is made, code
    ("tag", "", "signed", ""),
    ("tag", "bo", "light", "GK3302"),
    ("tag", "bo", "annotated", "GK3302"),
    ("tag", "", "renamed", "GK3305"),
    ("tagAndHead", "bo", "signed", ""),
    ("tagAndHead", "", "signed", "GK3302"),
    ("tagAndHead", "bo", "light", "GK3302"),
    ("head", "bo", "light", ""),
]


@pytest.mark.parametrize("row", ROWS, ids=[" ".join(row[:3]) for row in ROWS])
def test_what_must_be_signed_of_a_release(
    signed: Signed, tmp_path: Path, row: tuple[str, str, str, str]
) -> None:
    mode, who, how, code = row
    stage, keys = signed(mode, semver=">=1.0.0"), tmp_path / "keys"

    async def script() -> None:
        async with stage.running():
            commit(stage, keys, documents(SETTINGS), who)
            made: dict[str, Any] = {"annotated": ("-a", "-m", "x"), "light": ()}
            tag(stage, "v1.0.0", *made.get(how, ("-s", "-m", "x")), keys=keys)
            if how == "renamed":
                run_git(stage.origin.bare, "update-ref", "refs/tags/v2.0.0", "refs/tags/v1.0.0")
            await stage.follower.check()
            await stage.rest()
            assert [f.code for f in stage.record.findings] == ([code] if code else [])
            assert (stage.get("ConfigMap", "settings") is not None) == (not code)

    stage.play(script)


def test_first_sight_outlives_the_process(tmp_path: Path, staged: MakeStage) -> None:
    stage = staged()
    path = tmp_path / "seen" / "src"
    first = FirstSeen(path, stage.clock.now).time("a" * 40)
    path.write_text(path.read_text() + "junk\n")
    later = FirstSeen(path, stage.clock.now)
    assert later.time("a" * 40) == first
    later.time("b" * 40)
    assert later.newest(1) == ["b" * 40]


def test_what_a_source_saw_has_not_passed_for_another_one(
    tmp_path: Path, staged: MakeStage
) -> None:
    """Whoever may create a GitSource chooses its name, and commits that it sees."""
    clock = staged().clock
    FirstSeen(seen_file(tmp_path, "shop/src.passed"), clock.now).time("a" * 40)
    passed = FirstSeen(seen_file(tmp_path, "shop/src"), clock.now).beside(".passed")
    assert passed.newest(1) == []


def test_sources_of_one_namespace_do_not_share_a_file(tmp_path: Path, staged: MakeStage) -> None:
    now, paths = staged().clock.now, [tmp_path / "seen" / f"shop.{name}" for name in "ab"]

    def look(path: Path) -> None:
        seen = FirstSeen(path, now)
        for number in range(200):
            seen.time(f"{path.name}-{number}")

    with ThreadPoolExecutor() as threads:
        assert list(threads.map(look, paths)) == [None, None]
    for path in paths:
        assert {line.split("-")[0] for line in path.read_text().splitlines()} == {path.name}


def test_a_disk_without_room_refuses_no_commit(tmp_path: Path, staged: MakeStage) -> None:
    clock = staged().clock
    seen = FirstSeen(tmp_path / "seen" / "src", clock.now)
    (tmp_path / "seen").write_text("no folder")
    first = seen.time("a" * 40)
    clock.advance(60)
    assert seen.time("a" * 40) == first
