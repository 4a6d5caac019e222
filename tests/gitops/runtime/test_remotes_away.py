"""What cannot be opened at the start keeps only the units that need it from running."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from gitkruise.app import controller
from gitkruise.errors import SourceFailed, leaves
from gitkruise.gitops.resources.declared import ResourceRules
from gitkruise.kube.client.discovery import CRDS
from gitkruise.kube.serve.addresses import Listen
from gitkruise.wire.primitives.names import GroupKind, key_of
from gitkruise.wire.primitives.requests import ApiRequest
from tests.git.repos import Faults, make_origin, serve
from tests.git.tls import context, issue
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.source.test_repositories import put_secret
from tests.gitops.stage import MakeStage, Stage, config_map, documents

CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")
RECORDS: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: records, namespace: shop}}
spec:
  {{url: "REMOTE/origin.git", ref: {{branch: main}}, secretRef: {{name: git}}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: git, namespace: shop}}
spec: {{git: {{sourceRef: {{name: records}}}}}}
"""
CONFIG: Final = SOURCE + RECORDS + unit("one", ", sinkRef: {{name: git}}") + unit("two")


@pytest.mark.parametrize("acts", [True, False])
def test_a_status_branch_that_is_away_stops_no_other_unit(
    staged: MakeStage, tmp_path: Path, acts: bool
) -> None:
    stage = staged()
    stage.origin.commit({
        "one/a.yaml": documents(config_map("a", x="1")),
        "two/b.yaml": documents(config_map("b", x="1")),
    })  # fmt: skip
    folder = tmp_path / "elsewhere"
    make_origin(folder).commit({"README": "records"})
    faults = Faults(silent=True)
    authority = issue("authority")
    tls = context(tmp_path, issue("server", authority))
    put_secret(stage, "git", ca__crt=authority.certificate)

    async def script() -> None:
        async with controller(chosen, stage.wire, stage.clock):
            await stage.rest(20)
            there = [stage.get("ConfigMap", name) is not None for name in "ab"]
            assert there == [False, True]
            faults.silent = False
            await stage.rest(60)
            assert stage.get("ConfigMap", "a") is not None

    with serve(folder, tls=tls, faults=faults) as remote:
        chosen = options(stage, tmp_path, CONFIG.replace("REMOTE", remote), acts=acts)
        if acts:
            stage.play(script)
        else:
            with pytest.raises(ExceptionGroup) as caught:
                stage.play(script)
            (error,) = leaves(caught.value)
            assert isinstance(error, SourceFailed)
            assert error.findings[0].code == "GK3101"


LOCKED: Final = """---
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: locked, namespace: shop}}
spec: {{url: "REMOTE/origin.git", ref: {{branch: main}}, secretRef: {{name: late}}}}
"""
LOCKED_UNIT: Final = unit("one").replace("name: src", "name: locked")


def without_our_kinds(stage: Stage) -> None:
    """Let the cluster serve none of gitkruise's own kinds."""
    for name in [key_of(one).name for one in stage.world.objects(CRD)]:
        if name.endswith(".gitkruise.io"):
            stage.world.handle(
                ApiRequest(verb="delete", resource=CRDS, name=name), stage.clock.now()
            )
    stage.cluster.publish()


@pytest.mark.parametrize("served", [True, False])
def test_a_source_without_its_secret_stops_no_other_unit(
    staged: MakeStage, tmp_path: Path, caplog: pytest.LogCaptureFixture, served: bool
) -> None:
    """Once the Secret is there its units run, also where the cluster serves none of our kinds."""
    stage = staged()
    stage.origin.commit({"two/b.yaml": documents(config_map("b", x="1"))})
    folder = tmp_path / "elsewhere"
    make_origin(folder).commit({"one/a.yaml": documents(config_map("a", x="1"))})
    authority = issue("authority")
    tls = context(tmp_path, issue("server", authority))
    if not served:
        without_our_kinds(stage)

    async def script() -> None:
        async with controller(chosen, stage.wire, stage.clock) as running:
            assert (running.custom is not None) is served
            await stage.rest(20)
            there = [stage.get("ConfigMap", name) is not None for name in "ab"]
            assert there == [False, True]
            put_secret(stage, "late", ca__crt=authority.certificate)
            await stage.rest(90)
            assert stage.get("ConfigMap", "a") is not None

    with serve(folder, tls=tls) as remote:
        text = SOURCE + LOCKED.replace("REMOTE", remote) + LOCKED_UNIT + unit("two")
        chosen = options(stage, tmp_path, text, custom=ResourceRules(local_sources=True))
        stage.play(script)
    messages = [r.getMessage() for r in caplog.records if "not-started" in r.getMessage()]
    assert [text.partition(" error=")[0] for text in messages] == [
        "event=not-started kind=GitSource name=shop/locked",
        "event=not-started kind=Unit name=shop/one",
    ]
    assert all("secret" in text.lower() for text in messages)


def test_a_source_without_its_secret_is_raised_where_nothing_else_runs(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()

    async def script() -> None:
        async with controller(chosen, stage.wire, stage.clock):
            raise AssertionError("nothing can run")

    text = LOCKED.replace("REMOTE", "https://127.0.0.1:9") + LOCKED_UNIT
    chosen = options(stage, tmp_path, text)
    with pytest.raises(ExceptionGroup) as caught:
        stage.play(script)
    (error,) = leaves(caught.value)
    assert "late" in str(error)


FORGE: Final = (
    "forge: {{type: gitea, url: 'https://127.0.0.1:9', repo: a/b, secretRef: {{name: late}}}}"
)
# A Sink that lacks its Secret, and the units that run before the Secret is there.
WITHOUT: Final = {
    "git": ("git: {{sourceRef: {{name: src}}, secretRef: {{name: late}}}}", "b"),
    "forge": (FORGE, "ab"),
    "notify": ("notify: [{{type: slack, secretRef: {{name: late}}}}]", "ab"),
    "revert": (f"git: {{{{sourceRef: {{{{name: src}}}}}}}}\n  {FORGE}", "ab"),
}


@pytest.mark.parametrize("name", WITHOUT)
def test_a_sink_without_its_secret_stops_no_other_unit(
    staged: MakeStage, tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    stage = staged()
    files = {"one/a.yaml": config_map("a", x="1"), "two/b.yaml": config_map("b", x="1")}
    stage.origin.commit({file: documents(obj) for file, obj in files.items()})
    spec, there = WITHOUT[name]
    sink = (
        "---\napiVersion: gitkruise.io/v1alpha1\nkind: Sink\n"
        f"metadata: {{{{name: out, namespace: shop}}}}\nspec:\n  {spec}\n"
    )
    more = ", onFailure: revert-pr" if name == "revert" else ""

    async def script() -> None:
        async with controller(chosen, stage.wire, stage.clock):
            await stage.rest(20)
            assert "".join(n for n in "ab" if stage.get("ConfigMap", n)) == there
            put_secret(stage, "late", token="x", address="https://127.0.0.1:9", password="x")
            await stage.rest(90)
            assert stage.get("ConfigMap", "a") is not None

    text = SOURCE + sink + unit("one", f", sinkRef: {{{{name: out}}}}{more}") + unit("two")
    chosen = options(stage, tmp_path, text)
    stage.play(script)
    messages = [r.getMessage() for r in caplog.records if "not-started" in r.getMessage()]
    assert "kind=Sink name=shop/out" in messages[0] or name == "revert"
    assert all("late" in text and "next=" in text for text in messages)


def test_a_sink_without_its_secret_is_raised_where_nothing_else_runs(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()

    async def script() -> None:
        async with controller(chosen, stage.wire, stage.clock):
            raise AssertionError("nothing can run")

    sink = (
        "---\napiVersion: gitkruise.io/v1alpha1\nkind: Sink\n"
        f"metadata: {{{{name: out, namespace: shop}}}}\nspec:\n  {WITHOUT['git'][0]}\n"
    )
    chosen = options(stage, tmp_path, SOURCE + sink + unit("one", ", sinkRef: {{name: out}}"))
    with pytest.raises(ExceptionGroup) as caught:
        stage.play(script)
    (error,) = leaves(caught.value)
    assert "late" in str(error)


RECEIVERS: Final = "".join(
    f"""---
apiVersion: gitkruise.io/v1alpha1
kind: Receiver
metadata: {{{{name: {name}, namespace: shop}}}}
spec: {{{{type: gitea, secretRef: {{{{name: {name}}}}}}}}}
"""
    for name in ("push", "late")
)


@pytest.mark.parametrize("data", [{}, {"token": "short"}])
def test_a_receiver_without_its_key_stops_nothing_else(
    staged: MakeStage, tmp_path: Path, caplog: pytest.LogCaptureFixture, data: dict[str, str]
) -> None:
    """Once the key is there the Receiver listens, and the log has its address."""
    stage = staged()
    stage.origin.commit({"two/b.yaml": documents(config_map("b", x="1"))})
    put_secret(stage, "push", token="k" * 16)
    if data:
        put_secret(stage, "late", **data)

    async def script() -> None:
        async with controller(chosen, stage.wire, stage.clock) as running:
            await stage.rest(20)
            assert stage.get("ConfigMap", "b") is not None
            assert running.hooks.keys() == {"shop/push"}
            put_secret(stage, "late", token="l" * 16)
            await stage.rest(90)
            served = f"event=receiver-served receiver=shop/late url={running.hooks['shop/late']}"
            assert [line for line in caplog.messages if "receiver-served" in line] == [served]

    text = SOURCE + RECEIVERS + unit("two")
    chosen = options(stage, tmp_path, text, custom=None, listen=Listen(port=0))
    stage.play(script)
    waiting = [line for line in caplog.messages if "not-started" in line]
    assert [line.partition(" error=")[0] for line in waiting] == [
        "event=not-started kind=Receiver name=shop/late"
    ]


@pytest.mark.parametrize("more", ["", FORGE])
def test_a_chat_without_its_secret_silences_no_other_channel(
    staged: MakeStage, tmp_path: Path, more: str
) -> None:
    """It gets messages as soon as the Secret is there; the other channels run on until then."""
    stage = staged()
    stage.origin.commit({"one/a.yaml": documents(config_map("a", x="1"))})
    put_secret(stage, "chat", address="https://127.0.0.1:9")
    rules = [f"{{{{type: slack, secretRef: {{{{name: {name}}}}}}}}}" for name in ("late", "chat")]
    sink = (
        "---\napiVersion: gitkruise.io/v1alpha1\nkind: Sink\n"
        "metadata: {{name: out, namespace: shop}}\n"
        f"spec:\n  notify: [{', '.join(rules)}]\n  {more}\n"
    )

    async def script() -> None:
        async with controller(chosen, stage.wire, stage.clock) as running:
            record = running.reporters["shop/one"].record
            assert [f.code for f in record.findings] == ["GK4203"]
            (chat,) = running.notifications.senders.values()
            await stage.rest(90)
            assert running.notifications.senders == {"shop/out/notify/1": chat}
            put_secret(stage, "late", address="https://127.0.0.1:9", token="x")
            await stage.rest(90)
            there = {"shop/out/forge"} if more else set()
            expected = there | {"shop/out/notify/0", "shop/out/notify/1"}
            assert running.notifications.senders.keys() == expected
            assert not running.fleet.errors

    chosen = options(stage, tmp_path, SOURCE + sink + unit("one", ", sinkRef: {{name: out}}"))
    stage.play(script)
