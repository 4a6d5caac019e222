"""Reviews over HTTPS: the embedded cluster's own admission, and an answer to any bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.admission.conversion.registry import convert
from gitkruise.admission.pods.defaults import fill_spec
from gitkruise.errors import BadRequest
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.webhook.handler import AdmissionHandler, conversion
from gitkruise.webhook.review import Conversion, read_conversion, read_review
from gitkruise.webhook.server import REVIEW_MAX
from gitkruise.wire.kruise.go_round_trip import settle
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import drop, put
from gitkruise.world.api.cluster import World
from tests.clock import ManualClock
from tests.webhook.hooked import JSON, Hooked, patched, play, review, sidecarset
from tests.worlds import SPACE, START, Lab, cloneset, container, create, empty_world, pod

KEY = ObjectKey("", "Pod", SPACE, "p")
ORDERED = {"apps.kruise.io/container-launch-priority": "Ordered"}


def labelled(name: str = "p") -> dict[str, Any]:
    made = pod(name, container("a"), container("b"))
    return {**made, "metadata": {"name": name, "labels": {"app": "web"}, "annotations": ORDERED}}


def with_mesh() -> World:
    world = empty_world()
    world.handle(create(world, sidecarset()), START)
    return world


def test_a_pod_becomes_what_the_embedded_cluster_makes_of_it(tmp_path: Path) -> None:
    """A server gives its defaults before it asks, and again after: so does the World."""
    world = with_mesh()
    inside = world.fork()
    meta = {**labelled()["metadata"], "namespace": SPACE}
    inside.handle(create(inside, {**labelled(), "metadata": meta}), START)
    stored = inside.get(KEY)
    assert stored is not None
    asked = put(stored, ("spec", "containers"), stored["spec"]["containers"][1:])
    asked = put(asked, ("metadata", "annotations"), ORDERED)
    for at in range(2):
        env = [
            e for e in asked["spec"]["containers"][at].get("env") or () if "KRUISE" not in e["name"]
        ]
        asked = (
            put(asked, ("spec", "containers", at, "env"), env)
            if env
            else drop(asked, ("spec", "containers", at, "env"))
        )

    async def script(hooks: Hooked) -> None:
        hooks.serving.handler.clock = ManualClock(START)
        first = await hooks.ask("/mutate", review(asked))
        made = patched(asked, first)
        spec = settle("PodSpec", made["spec"])
        fill_spec(spec, is_pod=True)
        made = {**made, "spec": spec}
        assert [c["name"] for c in made["spec"]["containers"]] == ["mesh", "a", "b"]
        assert made["spec"]["containers"] == stored["spec"]["containers"]
        again = await hooks.ask("/mutate", review(asked))
        assert again["patch"] == first["patch"], "same request, same answer"

    play(tmp_path, script, world)


def test_a_pod_that_nothing_concerns_is_let_through_as_it_is(tmp_path: Path) -> None:
    async def script(hooks: Hooked) -> None:
        answer = await hooks.ask("/mutate", review(pod("p", container("a"))))
        assert answer == {"uid": "review-1", "allowed": True}

    play(tmp_path, script)


def test_our_kinds_are_defaulted_checked_and_converted(tmp_path: Path) -> None:
    async def script(hooks: Hooked) -> None:
        alpha = convert(cloneset(), "v1alpha1")
        made = patched(alpha, await hooks.ask("/mutate", review(alpha)))
        assert made["spec"]["revisionHistoryLimit"] == 10
        assert (await hooks.ask("/validate", review(made)))["allowed"] is True
        wrong = put(made, ("spec", "selector"), {"matchLabels": {"app": "else"}})
        answer = await hooks.ask("/validate", review(wrong))
        assert answer["allowed"] is False
        assert answer["status"]["code"] == 422
        causes = [cause["field"] for cause in answer["status"]["details"]["causes"]]
        assert causes == ["spec.template.metadata.labels"]
        asked = {"uid": "c", "desiredAPIVersion": "apps.kruise.io/v1beta1", "objects": [made]}
        body = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "ConversionReview",
            "request": asked,
        }
        answer = await hooks.ask("/convert", body)
        assert (answer["uid"], answer["result"]) == ("c", {"status": "Success"})
        assert answer["convertedObjects"] == [convert(made, "v1beta1")]

        raw = patched(sidecarset(), await hooks.ask("/mutate", review(sidecarset())))
        assert raw["spec"]["updateStrategy"]["type"] == "RollingUpdate"
        assert len(raw["metadata"]["annotations"]["kruise.io/sidecarset-hash"]) == 64
        empty = put(raw, ("spec", "selector"), {})
        assert (await hooks.ask("/validate", review(empty)))["allowed"] is False

    play(tmp_path, script)


def test_pods_that_a_cloneset_wants_deleted_are_read_live(tmp_path: Path) -> None:
    world = empty_world()
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web",
             "uid": "u-web", "controller": True}  # fmt: skip
    one = pod("web-1")
    meta = {"name": "web-1", "namespace": SPACE, "ownerReferences": [owner]}
    world.handle(create(world, {**one, "metadata": meta}), START)

    def wanting(name: str) -> Any:
        alpha = convert(cloneset(), "v1alpha1")
        alpha = {**alpha, "metadata": {**alpha["metadata"], "uid": "u-web"}}
        return put(alpha, ("spec", "scaleStrategy"), {"podsToDelete": [name]})

    async def script(hooks: Hooked) -> None:
        for name, well in (("web-1", True), ("web-2", False)):
            made = patched(wanting(name), await hooks.ask("/mutate", review(wanting(name))))
            assert (await hooks.ask("/validate", review(made)))["allowed"] is well

    play(tmp_path, script, world)


def test_a_request_for_containers_is_completed_from_its_pod_and_node(tmp_path: Path) -> None:
    lab = Lab(nodes=1)
    lab.apply(pod("web-1"))
    lab.run(30)
    request = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ContainerRecreateRequest",
        "metadata": {"generateName": "web-1-", "namespace": SPACE},
        "spec": {"podName": "web-1", "containers": [{"name": "app"}]},
    }

    async def script(hooks: Hooked) -> None:
        made = patched(request, await hooks.ask("/mutate", review(request)))
        assert made["metadata"]["labels"]["crr.apps.kruise.io/node-name"] == "node-0"
        assert made["spec"]["containers"][0]["statusContext"]["restartCount"] == 0
        lost = put(request, ("spec", "podName"), "web-2")
        denied = await hooks.ask("/mutate", review(lost))
        assert denied["status"]["message"] == "no found Pod named web-2"
        job = {**request, "kind": "ImagePullJob", "spec": {"image": "nginx"}}
        denied = await hooks.ask("/mutate", review(job))
        assert denied["status"]["message"] == "feature-gate ImagePullJobGate is not enabled"

    play(tmp_path, script, lab.world)


def hostile() -> dict[str, bytes]:
    good = review(pod("p"))

    def changed(**changes: Any) -> bytes:
        return json.dumps({**good, "request": {**good["request"], **changes}}).encode()

    return {
        "nothing": b"",
        "no JSON": b"{",
        "yaml": b"apiVersion: admission.k8s.io/v1\nkind: AdmissionReview\n",
        "a list": b"[]",
        "deep": b"[" * 100_000,
        "another kind": json.dumps({**good, "kind": "Pod"}).encode(),
        "v1beta1": json.dumps({**good, "apiVersion": "admission.k8s.io/v1beta1"}).encode(),
        "no request": json.dumps({**good, "request": None}).encode(),
        "only a response": json.dumps({**good, "request": None, "response": {}}).encode(),
        "no uid": changed(uid=""),
        "a long uid": changed(uid="x" * 1000),
        "a number for a uid": changed(uid=7),
        "no object": changed(object=None),
        "a text for an object": changed(object="pod"),
        "no metadata": changed(object={"kind": "Pod"}),
        "numbers for labels": changed(object={"metadata": {"labels": {"a": 1}}}),
        "an unknown operation": changed(operation="PUNCH"),
        "a number for a kind": changed(kind=3),
    }


@pytest.mark.parametrize("body", hostile().values(), ids=hostile())
def test_what_is_no_review_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        read_review(body)


ODD: dict[str, dict[str, Any]] = {
    "an unknown resource": review({"apiVersion": "x.io/v1", "kind": "Else", "metadata": {}}),
    "an unknown version": review({"apiVersion": "v9", "kind": "Pod", "metadata": {}}),
    "a subresource": review(pod("p"), subResource="status"),
    "a connect": review(None, operation="CONNECT"),
    "a deletion": review(None, cloneset(), operation="DELETE"),
    "request and response": {**review(pod("p")), "response": {"allowed": False}},
    "a dry run": review(pod("p"), dryRun=True),
}


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_what_is_not_ours_is_let_through_untouched(tmp_path: Path, path: str) -> None:
    async def script(hooks: Hooked) -> None:
        for name, asked in ODD.items():
            answer = await hooks.ask(path, asked)
            assert answer == {"uid": "review-1", "allowed": True}, name

    play(tmp_path, script)


def test_what_no_api_server_sends_is_refused_before_it_is_read(tmp_path: Path) -> None:
    async def script(hooks: Hooked) -> None:
        good = json.dumps(review(pod("p"))).encode()
        assert (await hooks.post("/else", good))[0] == 404
        assert (await hooks.post("/mutate", good, {"Content-Type": "text/plain"}))[0] == 415
        zipped = {**JSON, "Content-Encoding": "gzip"}
        assert (await hooks.post("/mutate", good, zipped))[0] == 415
        assert (await hooks.post("/mutate", b"x" * (REVIEW_MAX + 1)))[0] == 413
        assert (await hooks.post("/mutate", b"{}"))[0] == 400
        for path, status in (("/mutate", 405), ("/healthz", 200), ("/readyz", 200)):
            async with hooks.session.get(hooks.url + path) as answer:
                assert answer.status == status, path
        hooks.serving.handler.inside = 10_000
        assert (await hooks.post("/mutate", good))[0] == 503
        assert hooks.serving.handler.counts.busy == 1
        hooks.serving.handler.inside = 0
        assert (await hooks.post("/mutate", good))[0] == 200

    play(tmp_path, script)


JUDGE = AdmissionHandler(catalog=load_catalog(), gates=Gates())
_leaf = st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3)
_any = st.recursive(
    _leaf,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["name", "env", "value", "image", "containers", "template", "spec",
                         "selector", "updateStrategy", "partition"]), inner, max_size=4),
    max_leaves=15,
)  # fmt: skip


@given(st.sampled_from([labelled(), cloneset(), sidecarset()]), _any)
def test_law_any_spec_gets_a_verdict(base: Obj, spec: Any) -> None:
    world = _law_world()
    for obj in ({**base, "spec": spec}, put(base, ("spec", "template"), spec)):
        asked = read_review(json.dumps(review(obj)).encode())
        for decide in (JUDGE.mutation, JUDGE.validation):
            answer = json.loads(decide(asked, world, START))["response"]
            assert answer["uid"] == "review-1"
            assert answer["allowed"] in {True, False}


_WORLDS: list[World] = []


def _law_world() -> World:
    if not _WORLDS:
        _WORLDS.append(with_mesh())
    return _WORLDS[0]


@given(st.binary(max_size=40))
def test_law_any_bytes_are_a_bad_request(data: bytes) -> None:
    for read in (read_review, read_conversion):
        with pytest.raises(BadRequest):
            read(data)


def test_a_conversion_that_cannot_be_says_why() -> None:
    other = {"apiVersion": "x.io/v1", "kind": "Else", "metadata": {"name": "a"}}
    pieces = conversion(Conversion("c", "x.io/v2", [json.dumps(other).encode()]), load_catalog())
    answer = json.loads(b"".join(pieces))["response"]
    assert (answer["uid"], answer["result"]["status"]) == ("c", "Failure")
    assert "Else.x.io" in answer["result"]["message"]
