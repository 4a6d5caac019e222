"""A unit's values and keys come from the cluster, are followed there, and leak into nothing."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import msgspec
import pytest

from gitkruise.errors import Forbidden
from gitkruise.git.manifests.reader import Manifests
from gitkruise.git.manifests.substitute import Value
from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.build.builder import Builder
from gitkruise.gitops.build.post_build import NOTHING, PostBuild, offline, read_ahead, wants
from gitkruise.gitops.build.release import KnownData
from gitkruise.model.gitops.config import Unit, UnitSpec
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.feature_gates import Gates
from tests.git.sops import CANARY, ENCRYPTED, KEY, OTHER, PLAIN, stand_in
from tests.gitops.stage import MakeStage, Stage, config_map
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

SETTINGS = config_map("settings", region="${REGION}", size="x${N:=2}")
FROM_CLUSTER = {"substitute": {"vars": {"N": "3"}, "from": [{"configMap": "region"}]}}


def secret(name: str, **data: str) -> dict[str, Any]:
    encoded = {k.replace("_", "."): base64.b64encode(v.encode()).decode() for k, v in data.items()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": encoded}


def all_output(stage: Stage) -> str:
    """All that leaves the process but the objects themselves: records, branch, diary."""
    files = "".join(body.decode() for body in stage.branch.files().values())
    return files + repr(stage.offered) + "\n".join(stage.diary())


def test_values_come_from_the_unit_and_the_cluster(staged: MakeStage) -> None:
    stage = staged(render=FROM_CLUSTER)
    stage.meddle(config_map("region", REGION="eu", N="9"))

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            assert stage.state == "Done"
            assert stage.get("ConfigMap", "settings")["data"] == {"region": "eu", "size": "x3"}

    stage.play(script)


def test_a_changed_value_is_taken_within_an_interval_and_no_write_before(
    staged: MakeStage,
) -> None:
    stage = staged(render=FROM_CLUSTER, interval="1m")
    stage.meddle(config_map("region", REGION="eu"))

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            writes, records = len(stage.wire.writes()), len(stage.offered)
            await stage.rest(600)
            assert len(stage.wire.writes()) == writes
            assert len(stage.offered) == records
            stage.meddle(config_map("region", REGION="us"))
            await stage.rest(90)
            assert stage.get("ConfigMap", "settings")["data"]["region"] == "us"
            assert stage.state == "Done"

    stage.play(script)


def test_an_undefined_name_changes_nothing_until_it_is_defined(staged: MakeStage) -> None:
    stage = staged(render=FROM_CLUSTER, interval="1m")
    stage.meddle(config_map("region", REGION="eu"))

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            await stage.push(config_map("settings", region="${REGION}-${ZONE}"))
            await stage.rest()
            finding = stage.record.findings[0]
            assert (stage.record.state, finding.code) == (State.REJECTED, "GK1401")
            assert str(finding.places[0]).startswith("app.yaml:6:2")
            assert stage.get("ConfigMap", "settings")["data"]["region"] == "eu"
            records = len(stage.offered)
            await stage.rest(600)
            assert len(stage.offered) == records  # looked at again, told once
            stage.meddle(config_map("region", REGION="eu", ZONE="b"))
            await stage.rest(180)
            assert stage.get("ConfigMap", "settings")["data"]["region"] == "eu-b"
            assert stage.state == "Done"

    stage.play(script)


def test_a_value_that_is_put_back_ends_the_rejection_of_the_live_commit(staged: MakeStage) -> None:
    stage = staged(render=FROM_CLUSTER, interval="1m")
    stage.meddle(config_map("region", REGION="eu"))

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            stage.meddle(config_map("region", OTHER="x"))
            await stage.rest(90)
            assert [f.code for f in stage.record.findings] == ["GK1401"]
            assert stage.state == "Rejected"
            stage.meddle(config_map("region", REGION="eu"))
            await stage.rest(180)
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)


def test_a_start_that_cannot_build_what_is_live_says_that_it_is(staged: MakeStage) -> None:
    stage = staged(render=FROM_CLUSTER, interval="1m")
    stage.meddle(config_map("region", REGION="eu"))

    def unchanged() -> str:
        (finding,) = stage.record.findings
        assert finding.code == "GK1401"
        return dict(finding.notes)["unchanged"]

    async def script() -> None:
        async with stage.running():
            live = (await stage.push(SETTINGS))[:7]
            await stage.rest()
        stage.meddle(config_map("region", OTHER="x"))
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(5)
            assert unchanged() == f"what was applied of commit {live} before stays live"
            await stage.push({**SETTINGS, "data": {"region": "${REGION}", "size": "7"}})
            await stage.rest(5)
            assert unchanged() == f"commit {live} stays live; nothing of this commit was applied"

    stage.play(script)


def test_a_source_of_values_that_is_not_there_is_waited_for(staged: MakeStage) -> None:
    stage = staged(render=FROM_CLUSTER)

    async def script() -> None:
        async with stage.running():
            await stage.push(SETTINGS)
            await stage.rest()
            assert [f.code for f in stage.record.findings] == ["GK4203"]
            assert stage.wire.writes() == []
            stage.meddle(config_map("region", REGION="eu"))
            await stage.rest()
            assert stage.state == "Done"

    stage.play(script)


def test_a_secret_value_goes_into_secrets_alone_and_is_shown_nowhere(staged: MakeStage) -> None:
    stage = staged(render={"substitute": {"from": [{"secret": "tokens"}]}})
    stage.meddle(secret("tokens", TOKEN=CANARY))
    wanted = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "made"}}

    async def script() -> None:
        async with stage.running():
            await stage.push({**wanted, "stringData": {"token": "x-${TOKEN}"}})
            await stage.rest()
            data = stage.get("Secret", "made")["data"]
            assert base64.b64decode(data["token"]).decode() == f"x-{CANARY}"
            await stage.push(config_map("settings", token="${TOKEN}"))
            await stage.rest()
            assert stage.record.findings[0].code == "GK1403"

    stage.play(script)
    assert CANARY not in all_output(stage)


def test_encrypted_secrets_reach_the_cluster_and_nothing_else(
    staged: MakeStage, tmp_path: Path
) -> None:
    values = {"substitute": {"vars": {"SPACE": SPACE}}}
    stage = staged(
        render={**values, "decryption": {"provider": "sops", "secretRef": {"name": "age"}}},
        interval="20s",
    )
    reader = Builder(
        repository=stage.repository, unit=stage.unit.unit, gates=Gates(),
        cache=stage.unit._validator._reader.cache, search=stand_in(tmp_path / "bin"),
    )  # fmt: skip
    stage.unit._validator._reader = reader
    stage.meddle(secret("age", main_agekey=OTHER))

    async def script() -> None:
        async with stage.running():
            await stage.push(app=ENCRYPTED)
            await stage.rest(5)
            assert [f.code for f in stage.record.findings] == ["GK1503"]
            stage.meddle(secret("age", main_agekey=KEY))
            await stage.rest(30)
            assert stage.state == "Done", stage.record.findings
            data = stage.get("Secret", "database")["data"]
            assert base64.b64decode(data["password"]).decode() == PLAIN[0]  # not substituted
            assert stage.get("Secret", "token")["data"]["token"] == PLAIN[2]
            await stage.push(app=ENCRYPTED.replace("name: token", "name: tokn"))
            await stage.rest()
            assert [f.code for f in stage.record.findings] == ["GK1503"]

    stage.play(script)
    output = all_output(stage)
    assert CANARY not in output
    assert "SECRET-KEY" not in output


def test_ciphertext_is_refused_once_and_its_metadata_stays(staged: MakeStage) -> None:
    """A next step that takes `sops` out of the file would make it unreadable for ever."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(app=ENCRYPTED.replace("${SPACE}", "shop"))
            await stage.rest(5)
            assert [f.code for f in stage.record.findings] == ["GK1501"] * 2

    stage.play(script)


@pytest.mark.parametrize("rendered", [True, False])
def test_what_no_key_opens_is_refused_without_keys_too(
    staged: MakeStage, *, rendered: bool
) -> None:
    """A plan without the keys says what the controller would: it is not given ciphertext."""
    stage = staged()
    text = base64.b64encode(b"A=ENC[AES256_GCM,data:x]").decode()
    files = f"{ENCRYPTED}---\n{ENCRYPTED.replace('kind: Secret', 'kind: ConfigMap', 1)}"
    files += f"---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\ndata: {{a: {text}}}\n"
    documents = parse_file(files.encode(), "s.yaml").documents
    manifests = Manifests(
        commit="", path="", tree="", inputs=(), documents=documents, rendered=rendered
    )
    unit = _unit({"sourceRef": {"name": "src"}, "render": {"decryption": {"provider": "sops"}}})
    found = PostBuild(stage.repository, unit).finish(manifests, NOTHING)
    assert [f.code for f in found.findings] == ["GK1504"] * (1 + rendered)
    assert len(found.documents) == len(documents) - 1 - rendered
    assert not any("sops" in document.obj for document in found.documents)


def test_without_a_cluster_only_the_units_own_values_are_known() -> None:
    stage_spec = {"sourceRef": {"name": "src"}, "render": FROM_CLUSTER}
    unit = _unit(stage_spec)
    given = offline(unit)
    assert given.values is not None
    assert given.values.elsewhere == "ConfigMap shop/region"
    assert wants(unit)
    assert not wants(_unit({"sourceRef": {"name": "src"}, "render": {"substitute": {}}}))


def test_values_that_were_read_before_are_those_of_a_plan(
    staged: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KnownData, "shared", None)
    stage = staged()
    sources = [{"configMap": "region"}, {"secret": "token"}, {"secret": "gone"}, {"secret": "shut"}]
    unit = _unit({"sourceRef": {"name": "src"}, "render": {"substitute": {"from": sources}}})
    files = [{"configMap": "region", "key": "REGION"}, {"secret": "gone", "optional": True}]
    helm = _unit(
        {"sourceRef": {"name": "src"}, "render": {"kind": "helm", "helm": {"valuesFrom": files}}}
    )
    stage.meddle(config_map("region", REGION="eu"))
    stage.meddle(secret("token", TOKEN=CANARY))
    stage.wire.refuse = lambda r: Forbidden("no rights") if r.name == "shut" else None

    async def script() -> None:
        for one in (unit, helm):
            await read_ahead(one, stage.wire)

    stage.play(script)
    values, release = offline(unit).values, offline(helm).release
    assert values is not None
    assert values.known == {"REGION": Value(text="eu"), "TOKEN": Value(text=CANARY, secret=True)}
    assert values.elsewhere == "Secret shop/gone or Secret shop/shut"
    assert values.why.startswith("Secret shop/gone does not exist; ")
    assert "no rights" in values.why
    assert release is not None
    assert [one.text for one in release.values] == ["eu"]
    assert (release.assumed, release.unread) == (False, ())


def _unit(spec: dict[str, Any]) -> Unit:
    return Unit("shop", "web", msgspec.convert(spec, UnitSpec))
