"""Kustomizations with bases of other repositories: allowed, fetched by gitkruise, built as if the
base were a folder of the commit."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gitkruise.errors import Finding, SourceFailed
from gitkruise.git.kustomize.remote_bases import ListedBase
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.base_mirrors import BASES, BaseMirrors
from gitkruise.gitops.build.builder import Builder, BuildRequest
from gitkruise.gitops.build.post_build import NOTHING
from gitkruise.gitops.preview.inputs import PlanSide, read_side
from gitkruise.gitops.status.reader import read_units
from gitkruise.gitops.workers.pool import WorkerPool
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec, Unit, UnitSpec
from gitkruise.model.gitops.record import BaseRecord
from gitkruise.model.workloads.feature_gates import Gates
from tests.git.repos import make_origin, run_git, serve
from tests.git.tls import context, issue
from tests.gitops.build.test_charts import commit
from tests.gitops.stage import STATUS, MakeStage

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl")]

WEB = """apiVersion: v1
kind: ConfigMap
metadata:
  name: web
data:
  color: {color}
"""
BASE = {
    "deploy/kustomization.yaml": "resources: [web.yaml, ../common]\n",
    "deploy/web.yaml": WEB.format(color="blue"),
    "common/kustomization.yaml": "configMapGenerator:\n- name: settings\n  files: [a.txt]\n",
    "common/a.txt": "a",
}


class Repositories:
    """The repository of a unit, one with bases, and the mirrors of this test."""

    def __init__(self, folder: Path) -> None:
        for name in ("own", "bases"):
            (folder / name).mkdir()
        self.own, self.bases = make_origin(folder / "own"), make_origin(folder / "bases")
        self.url = f"file://{self.bases.bare}"
        self.mirrors = BaseMirrors(folder / "state" / BASES)
        self.allowed = [self.url]
        self.secret = ""  # of all that are allowed

    def tag(self, name: str, files: dict[str, Any], *options: str) -> str:
        commit = self.bases.commit(files)
        run_git(self.bases.work, "tag", "--force", *options, name)
        run_git(self.bases.work, "push", "--quiet", "--force", "origin", f"refs/tags/{name}")
        return commit

    def overlay(self, *resources: str, **more: str) -> str:
        listed = "".join(f"- {one}\n" for one in resources)
        text = f"namePrefix: prod-\nresources:\n{listed}"
        return self.own.commit({"app/kustomization.yaml": text, **more})

    def unit(self) -> Unit:
        named = {"secretRef": {"name": self.secret}} if self.secret else {}
        listed = [{"url": url, **named} for url in self.allowed]
        spec = {
            "sourceRef": {"name": "src"},
            "path": "app",
            "render": {"kustomize": {"remoteBases": listed}},
        }
        return Unit("shop", "web", msgspec.convert(spec, UnitSpec))

    def give(self, credentials: GitCredentials, secret: str = "bases") -> None:
        """Let the allowed repositories be read with a Secret, or with none by these rights."""
        self.secret = secret
        for url in self.allowed:
            BaseMirrors.secrets[ListedBase(url, f"shop/{secret}" if secret else "")] = credentials

    def config(self) -> Config:
        unit = self.unit()
        source = GitSource("shop", "src", GitSourceSpec(url="."))
        return Config({"shop/src": source}, {unit.id: unit})

    def side(self, commit: str) -> PlanSide:
        with Repository.open(str(self.own.bare)) as repository:
            return read_side(repository, commit, self.config(), load_catalog(), Gates())

    def finding(self, *resources: str, **more: str) -> Finding:
        (finding,) = self.side(self.overlay(*resources, **more)).findings
        return finding


@pytest.fixture
def repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repositories]:
    made = Repositories(tmp_path)
    monkeypatch.setattr(BaseMirrors, "shared", made.mirrors)
    monkeypatch.setattr(BaseMirrors, "secrets", {})
    yield made
    made.mirrors.close()


def objects(side: PlanSide) -> list[Any]:
    assert not side.findings, side.findings
    return [dict(desired.obj) for desired in side.objects]


def test_a_remote_base_gives_what_a_copy_of_it_gives(repositories: Repositories) -> None:
    commit = repositories.tag("v1", BASE, "--annotate", "-m", "one")
    copied = repositories.side(repositories.overlay("../deploy", **BASE))
    tagged, remote = (
        repositories.side(repositories.overlay(f"{repositories.url}//deploy?ref={ref}"))
        for ref in ("v1", commit)
    )
    assert objects(tagged) == objects(remote) == objects(copied) != []
    (base,) = remote.bases["shop/web"]
    assert base == BaseRecord(url=repositories.url, ref=commit, commit=commit)
    (web,) = (d for d in remote.objects if d.key.name == "prod-web")
    name = repositories.bases.bare.with_suffix("").as_posix().strip("/").replace("/", "-")
    place = web.document.place(("data", "color"))
    assert str(place) == f".remote-bases/{name}@{commit[:12]}/deploy/web.yaml:6:10"


def test_a_base_of_a_base_obeys_the_same_list(repositories: Repositories, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    far = make_origin(tmp_path / "far")
    far.commit({"kustomization.yaml": "resources: [web.yaml]\n", "web.yaml": WEB.format(color="x")})
    run_git(far.work, "tag", "v9")
    run_git(far.work, "push", "--quiet", "origin", "v9")
    nested = f"file://{far.bare}//?ref=v9"
    repositories.tag("v1", {"kustomization.yaml": f"resources: ['{nested}']\n"})
    base = f"{repositories.url}//?ref=v1"
    finding = repositories.finding(base)
    assert finding.code == "GK3402"
    assert finding.places[0].file.endswith("/kustomization.yaml")
    assert ".remote-bases/" in finding.places[0].file
    repositories.allowed.append(f"file://{far.bare}")
    (web,) = objects(repositories.side(repositories.overlay(base)))
    assert web["metadata"]["name"] == "prod-web"


def test_a_tag_is_what_it_was_when_it_was_fetched(
    repositories: Repositories, tmp_path: Path
) -> None:
    """Through a server, because a repository of this machine is read in place."""
    ca = issue("authority")
    tls = context(tmp_path, issue("server", ca))
    credentials = GitCredentials(ca=ca.certificate)
    asked: list[str] = []
    with serve(repositories.bases.bare.parent, tls=tls, asked=asked) as address:
        repositories.url = f"{address}/origin.git"
        repositories.allowed = [repositories.url]
        repositories.give(credentials)
        mirrors = BaseMirrors(tmp_path / "state" / BASES)
        BaseMirrors.shared = mirrors  # the fixture puts the former one back
        first = repositories.tag("v1", BASE)
        base = f"{repositories.url}/deploy?ref=v1"
        commit = repositories.overlay(base)
        before = objects(repositories.side(commit))
        count = len(asked)
        moved = repositories.tag("v1", {"deploy/web.yaml": WEB.format(color="red")})
        assert objects(repositories.side(commit)) == before
        assert len(asked) == count, asked[count:]
        by_id = repositories.overlay(f"{repositories.url}/deploy?ref={moved}")
        assert objects(repositories.side(by_id)) != before
        BaseMirrors.shared = mirrors.kept
        assert objects(repositories.side(commit)) == before
        never = repositories.overlay(f"{repositories.url}/deploy?ref=v2")
        (finding,) = repositories.side(never).findings
        assert finding.code == "GK3420"
        BaseMirrors.shared = mirrors
        for ref in ("v2", "0" * 40):
            (finding,) = repositories.side(
                repositories.overlay(f"{repositories.url}/deploy?ref={ref}")
            ).findings
            assert (finding.code, "it has no" in finding.message) == ("GK3419", True), finding
        mirrors.close()
    assert first != moved


REFUSED = [
    ("not listed", "file:///srv/other.git//deploy?ref=v1", "GK3402"),
    ("no ref", "{url}//deploy", "GK3419"),
    ("branch", "{url}//deploy?ref=main", "GK3419"),
    ("no such tag", "{url}//deploy?ref=v9", "GK3419"),
    ("no such commit", "{url}//deploy?ref=" + "0" * 40, "GK3419"),
    ("short commit", "{url}//deploy?ref=0123abc", "GK3419"),
    ("http", "http://127.0.0.1/origin.git//deploy?ref=v1", "GK3402"),
    ("outside", "{url}//deploy/../../x?ref=v1", "GK3010"),
    ("no folder", "{url}//nowhere?ref=v1", "GK3404"),
    ("a file", "{url}//deploy/web.yaml?ref=v1", "GK3404"),
    ("no kustomization", "{url}//plain?ref=v1", "GK3404"),
    ("symlink", "{url}//linked?ref=v1", "GK3011"),
    ("leaving", "{url}//leaving?ref=v1", "GK3404"),
    ("cycle", "{url}//cycle?ref=v1", "GK3403"),
    ("around", "../.remote-bases/x/deploy", "GK3404"),
]  # fmt: skip


def test_a_base_that_may_not_be_taken_is_refused_with_its_place(
    repositories: Repositories,
) -> None:
    (repositories.bases.work / "linked").mkdir()
    (repositories.bases.work / "linked" / "web.yaml").symlink_to("/etc/passwd")
    repositories.tag(
        "v1",
        {
            **BASE,
            "plain/a.txt": "a",
            "linked/kustomization.yaml": "resources: [web.yaml]\n",
            "leaving/kustomization.yaml": "resources: [../../../app]\n",
            "cycle/kustomization.yaml": f"resources: ['{repositories.url}//cycle?ref=v1']\n",
        },
    )
    repositories.side(repositories.overlay(f"{repositories.url}//deploy?ref=v1"))  # it is mounted
    found = {}
    for name, base, _ in REFUSED:
        finding = repositories.finding(base.format(url=repositories.url))
        found[name] = finding.code
        assert finding.places, name
        assert "/tmp/gitkruise" not in finding.message
    assert found == {name: code for name, _, code in REFUSED}


def test_only_bases_are_remote(repositories: Repositories) -> None:
    repositories.tag("v1", BASE)
    text = f"patches: [{{path: '{repositories.url}//deploy/web.yaml?ref=v1'}}]\n"
    (finding,) = repositories.side(
        repositories.own.commit({"app/kustomization.yaml": text})
    ).findings
    assert finding.code == "GK3402"
    assert finding.notes == (
        ("next", "commit a copy; only resources, bases and components may be remote"),
    )


def test_many_bases_are_beyond_a_limit(repositories: Repositories) -> None:
    names = [f"v{number}" for number in range(21)]
    repositories.tag("v0", BASE)
    for name in names:
        run_git(repositories.bases.bare, "tag", "--force", name, "main")
    bases = [f"{repositories.url}//common?ref={name}" for name in names]
    assert repositories.finding(*bases).code == "GK3406"


def test_a_worker_gets_bases_from_its_parent_and_a_stranger_only_known_ones(
    repositories: Repositories, tmp_path: Path
) -> None:
    repositories.tag("v1", BASE)
    repositories.tag("v2", {"deploy/web.yaml": WEB.format(color="red")})
    ca = issue("authority")
    tls = context(tmp_path, issue("server", ca))
    pool = WorkerPool(tmp_path / "state", 1)
    rules = (load_catalog(), Gates())
    with serve(repositories.bases.bare.parent, tls=tls) as address:
        repositories.url = f"{address}/origin.git"
        repositories.allowed = [repositories.url]
        repositories.give(GitCredentials(ca=ca.certificate), secret="")
        one, two = (
            repositories.overlay(f"{repositories.url}/deploy?ref={tag}") for tag in ("v1", "v2")
        )
        config = repositories.config()
        try:
            with Repository.open(str(repositories.own.bare)) as repository:
                ours = asyncio.run(pool.side(repository, one, config, *rules))
                known, new = (
                    asyncio.run(pool.plan_text(repository, config, *rules, base="", head=head))
                    for head in (one, two)
                )
                reader = Builder(
                    repository=repository, unit=repositories.unit(), gates=Gates(),
                    cache=ParseCache(),
                )  # fmt: skip
                request = BuildRequest(commit=two)
                read = asyncio.run(pool.read(reader, request, load_catalog(), NOTHING))
        finally:
            pool.close()
    assert [d.key.name.partition("-")[0] for d in ours.objects] == ["prod", "prod"]
    assert [base.ref for base in (*ours.bases["shop/web"], *read.bases)] == ["v1", "v2"]
    assert "prod-web" in known.plan
    assert [finding.code for finding in new.findings] == ["GK3420"]
    assert read.objects is not None
    assert {d.obj["data"].get("color") for d in read.objects} == {"red", None}


def test_a_server_that_fails_is_not_asked_by_each_unit(
    repositories: Repositories, tmp_path: Path
) -> None:
    repositories.tag("v1", BASE)
    with serve(tmp_path / "nothing", tls=context(tmp_path, issue("server"))) as address:
        repositories.url = f"{address}/origin.git"
        repositories.allowed = [repositories.url]
        commit = repositories.overlay(f"{repositories.url}/deploy?ref=v1")
        errors = []
        for _ in range(2):
            with pytest.raises(SourceFailed) as caught:
                repositories.side(commit)
            errors.append(caught.value.findings)
    assert errors[0][0].code == "GK3021"
    assert errors[0] == errors[1]
    assert str(errors[0][0].places[0]) == "app/kustomization.yaml:3:3"


def test_a_tag_that_is_pushed_later_is_found(repositories: Repositories, staged: MakeStage) -> None:
    repositories.tag("v1", BASE)
    bases = {"kustomize": {"remoteBases": [{"url": repositories.url}]}}
    stage = staged(path="app", render=bases)
    listing = f"resources: ['{repositories.url}//deploy?ref=%s']\n"

    async def script() -> None:
        async with stage.running():
            await commit(stage, {"app/kustomization.yaml": listing % "v1"})
            assert (stage.state, stage.record.findings) == ("Done", ())
            await commit(stage, {"app/kustomization.yaml": listing % "v2"})
            (finding,) = stage.record.findings
            assert (stage.state, finding.code) == ("Rejected", "GK3419")
            assert stage.get("ConfigMap", "web")["data"] == {"color": "blue"}
            repositories.tag("v2", {"deploy/web.yaml": WEB.format(color="red")})
            await stage.rest(130)
            assert (stage.state, stage.record.findings) == ("Done", ())
            assert stage.get("ConfigMap", "web")["data"] == {"color": "red"}

    stage.play(script)
    newest = run_git(repositories.bases.bare, "rev-parse", "v2^{commit}")
    named = BaseRecord(url=repositories.url, ref="v2", commit=newest)
    assert stage.record.bases == (named,)
    status = stage.status_file(f"units/{stage.record.unit}/status.yaml")
    assert f"  ref: v2\n  commit: {newest}\n" in status
    with Repository.open(str(stage.origin.bare)) as repository:
        (unit,) = read_units(repository, STATUS)
    assert unit.bases == (named,)
    body = run_git(stage.origin.bare, "log", "-1", "--format=%B", STATUS)
    assert f"base v2 at {newest[:7]} of {repositories.url}" in body
