"""Objects that cannot change stay and are reported, or are replaced where that is asked for."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from tests.gitops.stage import MakeStage, Stage, config_map, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

IMMUTABLE: Final = {"apply": {"replace": "onImmutable"}}


def job(image: str, notes: dict[str, str] | None = None, **spec: Any) -> Obj:
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate", **({"annotations": notes} if notes else {})},
        "spec": {
            "template": {
                "spec": {"restartPolicy": "Never", "containers": [{"name": "m", "image": image}]}
            },
            **spec,
        },
    }


def claim(size: str, storage: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage,
            "resources": {"requests": {"storage": size}},
        },
    }


def frozen(value: str) -> Obj:
    return {**config_map("frozen", x=value), "immutable": True}


def binding(role: str) -> Obj:
    group = "rbac.authorization.k8s.io"
    return {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "binding"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
        "subjects": [],
    }


def service(**spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def let_go(stage: Stage, name: str) -> None:
    """Whoever kept the ConfigMap by a finalizer has done its work."""
    kind = stage.world.catalog.by_kind("", "v1", "ConfigMap")
    assert kind is not None
    request = ApiRequest(
        verb="patch",
        resource=kind.ref,
        namespace=SPACE,
        name=name,
        body={"metadata": {"finalizers": None}},
        content_type=MERGE_PATCH,
    )
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


ROWS: list[tuple[str, dict[str, Any], Obj, Obj]] = [
    # row, the unit, the object before, the object after
    ("a Job", IMMUTABLE, job("a:1"), job("a:2")),
    ("a frozen ConfigMap", IMMUTABLE, frozen("1"), frozen("2")),
    ("a RoleBinding", IMMUTABLE, binding("a"), binding("b")),
    ("our word", {}, job("a:1"), job("a:2", {"gitkruise.io/replace": "Enabled"})),
    ("Flux's", {}, job("a:1"), job("a:2", {"kustomize.toolkit.fluxcd.io/force": "Enabled"})),
    ("Argo's", {}, job("a:1"), job("a:2", {
        "argocd.argoproj.io/sync-options": "Prune=false, Replace=true"})),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_it_is_made_again(
    staged: MakeStage,
    caplog: pytest.LogCaptureFixture,
    row: tuple[str, dict[str, Any], Obj, Obj],
) -> None:
    _, spec, before, after = row
    stage = staged(**spec)
    kind, name = before["kind"], before["metadata"]["name"]
    group = before["apiVersion"].rpartition("/")[0]

    async def script() -> None:
        async with stage.running():
            await stage.push(before)
            await stage.rest(30)
            old = stage.get(kind, name, group)
            stage.wire.requests.clear()
            await stage.push(after)
            await stage.rest(30)
            new = stage.get(kind, name, group)
            assert new["metadata"]["uid"] != old["metadata"]["uid"]
            assert stage.wire.writes() == [f"patch {name}", f"delete {name}", f"patch {name}"]
            assert (stage.state, stage.record.findings) == ("Done", ())

    stage.play(script)
    text = "deleted, to be created again: git changes a field that cannot change"
    line = log_line("Replaced", unit="shop/web", object=f"{kind} shop/{name}", text=text)
    assert caplog.messages.count(line) == 1
    events = stage.world.objects(GroupKind("", "Event"), SPACE)
    found = [e["message"] for e in events if e["reason"] == "Replaced"]
    assert found == [f"unit shop/web: {text}"]


def test_a_cloneset_is_not_made_again(staged: MakeStage) -> None:
    """Without a webhook the server would change its selector, and orphan its pods."""
    stage = staged(**IMMUTABLE)
    moved = web()
    moved["spec"]["selector"]["matchLabels"]["app"] = "moved"
    moved["spec"]["template"]["metadata"]["labels"]["app"] = "moved"

    async def script() -> None:
        async with stage.running():
            await stage.push(web())
            await stage.rest(30)
            old = stage.get("CloneSet", "web", "apps.kruise.io")
            await stage.push(moved)
            await stage.rest(60)
            assert (stage.state, stage.record.findings[0].code) == ("Rejected", "GK2201")
            assert stage.get("CloneSet", "web", "apps.kruise.io")["spec"] == old["spec"]

    stage.play(script)


REFUSED: list[tuple[str, dict[str, Any], Obj, Obj, str]] = [
    # row, the unit, the object before, the object after, what to do next
    ("not asked for", {}, job("a:1"), job("a:2"), "apply.replace: onImmutable"),
    ("of a RoleBinding", {}, binding("a"), binding("b"), "apply.replace: onImmutable"),
    (
        "it holds data",
        IMMUTABLE,
        claim("1Gi", "slow"),
        claim("1Gi", "fast"),
        "create a second object",
    ),
]


@pytest.mark.parametrize("row", REFUSED, ids=[row[0] for row in REFUSED])
def test_it_stays_and_that_is_reported(
    staged: MakeStage, row: tuple[str, dict[str, Any], Obj, Obj, str]
) -> None:
    _, spec, before, after, words = row
    stage = staged(**spec)

    async def script() -> None:
        async with stage.running():
            await stage.push(before)
            await stage.rest(30)
            await stage.push(after)
            await stage.rest(30)
            finding = stage.record.findings[0]
            assert (stage.state, finding.code) == ("Rejected", "GK2203")
            assert words in dict(finding.notes)["next"]
            assert not [w for w in stage.wire.writes() if w.startswith("delete")]

    stage.play(script)


def test_a_field_is_named_as_git_has_it(staged: MakeStage) -> None:
    """The API server names spec.clusterIPs[0]."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(service())
            await stage.rest(30)
            await stage.push(service(clusterIP="None"))
            await stage.rest(30)
            message = "spec.clusterIP of Service shop/web cannot change after creation"
            assert stage.record.findings[0].message == message
            place = stage.record.findings[0].places[0]
            assert dict(place.snippet)[place.line].strip().startswith("clusterIP:")

    stage.play(script)


def test_another_mistake_beside_it_deletes_nothing(staged: MakeStage) -> None:
    stage = staged(**IMMUTABLE)

    async def script() -> None:
        async with stage.running():
            await stage.push(job("a:1"))
            await stage.rest(30)
            await stage.push(job("a:2", activeDeadlineSeconds=-1))
            await stage.rest(30)
            assert stage.state == "Rejected"
            assert not [w for w in stage.wire.writes() if w.startswith("delete")]

    stage.play(script)


def test_it_is_deleted_once_however_long_it_takes_and_made_when_it_is_gone(
    staged: MakeStage,
) -> None:
    stage = staged(**IMMUTABLE)
    kept: Obj = {**frozen("1"), "metadata": {"name": "frozen", "finalizers": ["example.com/kept"]}}
    changed: Obj = {**frozen("1"), "data": {"x": "2"}}

    async def script() -> None:
        async with stage.running():
            await stage.push(frozen("1"))
            await stage.rest(30)
            stage.meddle(kept)
            await stage.rest(30)
            stage.wire.requests.clear()
            await stage.push(changed, config_map("other", x="1"))
            await stage.rest(90)
            assert stage.wire.writes().count("delete frozen") == 1
            assert stage.state == "Waiting"
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(30)
            assert stage.wire.writes().count("delete frozen") == 1
            let_go(stage, "frozen")
            await stage.rest(30)
            assert stage.get("ConfigMap", "frozen")["data"] == {"x": "2"}
            assert stage.state == "Done"

    stage.play(script)
