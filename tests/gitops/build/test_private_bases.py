"""Remote bases that are read with a Secret of the unit's namespace: by https and by ssh."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import SourceFailed
from gitkruise.git.plumbing.process import GitCredentials
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.base_mirrors import BaseMirrors
from gitkruise.gitops.workers.pool import WorkerPool
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.record import BaseRecord
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import Obj
from tests.git.plumbing.test_ssh import sshd
from tests.git.repos import serve
from tests.git.tls import context, issue
from tests.gitops.build.test_charts import commit
from tests.gitops.build.test_post_build import all_output
from tests.gitops.build.test_remote_bases import BASE, Repositories, objects
from tests.gitops.stage import MakeStage
from tests.worlds import SPACE

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("kubectl")]

PASSWORD = "hunter2-hunter2"
BASIC = "Basic " + base64.b64encode(f"dana:{PASSWORD}".encode()).decode()


@pytest.fixture
def repositories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repositories]:
    made = Repositories(tmp_path)
    monkeypatch.setattr(BaseMirrors, "shared", made.mirrors)
    monkeypatch.setattr(BaseMirrors, "secrets", {})
    made.tag("v1", BASE)
    yield made
    made.mirrors.close()


def secret(data: dict[str, str]) -> Obj:
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "bases"}, "data": encoded}


def rendering(url: str) -> dict[str, Any]:
    return {"kustomize": {"remoteBases": [{"url": url, "secretRef": {"name": "bases"}}]}}


def test_a_base_behind_a_password_waits_for_the_right_secret(
    repositories: Repositories, staged: MakeStage, tmp_path: Path
) -> None:
    ca = issue("authority")
    tls = context(tmp_path, issue("server", ca))
    entries = {"username": "dana", "password": PASSWORD, "ca.crt": ca.certificate}
    steps = [
        ({"nothing": "x"}, "GK7025", f"the Secret {SPACE}/bases has no credentials for git"),
        ({**entries, "ca.crt": ""}, "GK3021", "is not one we trust"),
        ({**entries, "password": "wrong"}, "GK3102", "does not accept our credentials"),
    ]
    with serve(repositories.bases.bare.parent, BASIC, tls=tls) as address:
        url = f"{address}/origin.git"
        stage = staged(path="app", render=rendering(url), interval="1m")
        listing = f"resources: ['{url}//deploy?ref=v1']\n"

        async def script() -> None:
            async with stage.running():
                await commit(stage, {"app/kustomization.yaml": listing})
                (finding,) = stage.record.findings
                named = "which render.kustomize.remoteBases names, does not exist"
                assert (finding.code, finding.message) == (
                    "GK4203",
                    f"Secret {SPACE}/bases, {named}",
                )
                for data, code, message in steps:
                    stage.meddle(secret(data))
                    await stage.rest(130)
                    (finding,) = stage.record.findings
                    assert (finding.code, message in finding.message) == (code, True), finding
                    assert {"unchanged", "next"} <= dict(finding.notes).keys(), finding
                assert dict(finding.notes)["read with"] == f"Secret {SPACE}/bases"
                stage.meddle(secret(entries))
                await stage.rest(130)
                assert (stage.state, stage.record.findings) == ("Done", ())
                assert stage.get("ConfigMap", "web")["data"] == {"color": "blue"}

        stage.play(script)
    (base,) = stage.record.bases
    assert (base.url, base.ref) == (url, "v1")
    assert PASSWORD not in all_output(stage)


def test_a_base_is_read_by_ssh_from_a_known_host(
    repositories: Repositories, staged: MakeStage, tmp_path: Path
) -> None:
    with sshd(tmp_path / "sshd", repositories.bases) as host:
        stage = staged(path="app", render=rendering(host.url), interval="1m")
        listing = f"resources: ['{host.url}//deploy?ref=v1']\n"
        steps = [
            ({"identity": host.identity}, "no known_hosts"),
            (
                {"identity": host.identity, "known_hosts": "example.com " + host.host_key},
                "is not one we trust",
            ),
        ]

        async def script() -> None:
            async with stage.running():
                await commit(stage, {"app/kustomization.yaml": listing})
                for data, message in steps:
                    stage.meddle(secret(data))
                    await stage.rest(130)
                    (finding,) = stage.record.findings
                    assert (finding.code, message in finding.message) == ("GK3020", True), finding
                    assert "known_hosts" in dict(finding.notes)["next"]
                    assert str(finding.places[0]) == "app/kustomization.yaml:1:13"
                stage.meddle(secret({"identity": host.identity, "known_hosts": host.known()}))
                await stage.rest(130)
                assert (stage.state, stage.record.findings) == ("Done", ())

        stage.play(script)
    (base,) = stage.record.bases
    assert base == BaseRecord(url=host.url, ref="v1", commit=base.commit)


def test_what_a_secret_reads_is_not_read_without_it(
    repositories: Repositories, tmp_path: Path
) -> None:
    ca = issue("authority")
    tls = context(tmp_path, issue("server", ca))
    with serve(repositories.bases.bare.parent, BASIC, tls=tls) as address:
        repositories.url = f"{address}/origin.git"
        repositories.allowed = [repositories.url]
        read = repositories.overlay(f"{repositories.url}/deploy?ref=v1")
        repositories.secret = "bases"
        (finding,) = repositories.side(read).findings
        assert finding.code == "GK3420"
        assert "its Secret was not read in a cluster" in dict(finding.notes)["why"]
        assert "reads the Secret shop/bases and fetches it" in dict(finding.notes)["next"]
        given = {"username": "dana", "password": PASSWORD, "ca.crt": ca.certificate}
        repositories.give(GitCredentials.from_secret(given))
        assert objects(repositories.side(read)) != []
        repositories.secret = ""
        with pytest.raises(SourceFailed) as caught:
            repositories.side(read)
        assert dict(caught.value.findings[0].notes)["read with"].startswith("no Secret")
        BaseMirrors.shared = repositories.mirrors.kept
        (finding,) = repositories.side(read).findings
        assert finding.code == "GK3420"


def test_a_stranger_sees_no_base_that_a_secret_reads(
    repositories: Repositories, tmp_path: Path
) -> None:
    ca = issue("authority")
    rules = (load_catalog(), Gates())
    pool = WorkerPool(tmp_path / "state", 1)
    with serve(repositories.bases.bare.parent, tls=context(tmp_path, issue("server", ca))) as at:
        repositories.url = f"{at}/origin.git"
        repositories.allowed = [repositories.url]
        repositories.give(GitCredentials(ca=ca.certificate))
        head = repositories.overlay(f"{repositories.url}/deploy?ref=v1")
        config = repositories.config()
        try:
            with Repository.open(str(repositories.own.bare)) as repository:
                ours = asyncio.run(pool.side(repository, head, config, *rules))
                plan = pool.plan_text(repository, config, *rules, base="", head=head)
                theirs = asyncio.run(plan)
        finally:
            pool.close()
    assert len(objects(ours)) == 2
    (finding,) = theirs.findings
    assert finding.code == "GK3420"
    assert "does not show what a Secret reads" in dict(finding.notes)["why"]
