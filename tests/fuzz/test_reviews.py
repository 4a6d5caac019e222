"""20,000 mutated reviews: each gets a well-formed verdict or a 400, and none takes long."""

from __future__ import annotations

import base64
import json
import time
from random import Random  # noqa: TID251  drawn from the seed of the run
from typing import Any, Final

import pytest

from gitkruise.errors import BadRequest
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.webhook.handler import AdmissionHandler, conversion
from gitkruise.webhook.review import read_conversion, read_review
from gitkruise.wire.patch.json_patch import json_patch
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.api.cluster import World
from tests.conftest import NIGHT
from tests.fuzz.mutations import BROKEN, corrupted, mutated, nested, written
from tests.webhook.hooked import review, sidecarset
from tests.worlds import START, cloneset, container, create, deployment, empty_world, pod

SHARDS: Final = 4
REVIEWS: Final = 5_000 * (4 if NIGHT else 1)
CPU_MAX_S: Final = 2.0
VERSIONS: Final = ("v1alpha1", "v1beta1", "v2", "")
OPERATIONS: Final = ("CREATE", "UPDATE", "DELETE", "CONNECT")


def _world() -> World:
    world = empty_world()
    world.handle(create(world, sidecarset()), START)
    return world


def _objects() -> list[Obj]:
    labelled = {**pod("p", container("a"), container("b")), "metadata": {
        "name": "p", "namespace": "shop", "labels": {"app": "web"},
        "annotations": {"apps.kruise.io/container-launch-priority": "Ordered"},
    }}  # fmt: skip
    full = cloneset()
    spec = {
        **full["spec"],
        "lifecycle": {"preDelete": {"labelsHandler": {"a": "b"}}},
        "scaleStrategy": {"podsToDelete": ["p"], "maxUnavailable": "20%"},
        "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["x"]}}],
    }
    return [labelled, full, {**full, "spec": spec}, sidecarset(), deployment(),
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}]  # fmt: skip


def _admission(draw: Random) -> bytes:
    obj = draw.choice(_objects())
    if draw.random() < 0.6:
        obj = mutated(draw, obj)
    asked = review(draw.choice(_objects()))
    request = {**asked["request"], "object": obj, "operation": draw.choice(OPERATIONS)}
    if isinstance(obj, dict) and draw.random() < 0.8:
        group, _, version = str(obj.get("apiVersion")).rpartition("/")
        request["kind"] = {"group": group, "version": version, "kind": str(obj.get("kind"))}
    if draw.random() < 0.5:
        request["oldObject"] = mutated(draw, draw.choice(_objects()))
    return _text(draw, {**asked, "request": request})


def _converted(draw: Random) -> bytes:
    objects = [mutated(draw, one) if draw.random() < 0.7 else one for one in _objects()]
    asked = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {
            "uid": "c",
            "desiredAPIVersion": f"apps.kruise.io/{draw.choice(VERSIONS)}",
            "objects": draw.choices(objects, k=draw.randint(0, 3)),
        },
    }
    return _text(draw, asked)


def _text(draw: Random, document: Any) -> bytes:
    luck = draw.random()
    if luck < 0.02:
        return draw.choice(BROKEN)
    if luck < 0.03:
        return nested(draw)
    data = written(draw, mutated(draw, document) if luck < 0.25 else document)
    return corrupted(draw, data) if luck < 0.06 else data


def _judged(handler: AdmissionHandler, world: World, data: bytes, *, mutate: bool) -> None:
    try:
        asked = read_review(data)
    except BadRequest as error:
        _readable(str(error.as_status()["message"]))
        return
    decide = handler.mutation if mutate else handler.validation
    answer = json.loads(decide(asked, world, START))["response"]
    assert answer["uid"] == asked.uid
    assert answer["allowed"] in {True, False}
    if not answer["allowed"]:
        assert answer["status"]["message"]
        assert 400 <= answer["status"]["code"] < 600
        assert all(_readable(text) for text in _texts(answer["status"]))
    if "patch" in answer:
        json_patch(asked.obj, json.loads(base64.b64decode(answer["patch"])))


def _convert(data: bytes) -> None:
    try:
        asked = read_conversion(data)
        answer = json.loads(b"".join(conversion(asked, load_catalog())))["response"]
    except BadRequest:
        return
    assert answer["uid"] == asked.uid
    if answer["result"]["status"] == "Success":
        assert len(answer["convertedObjects"]) == len(asked.objects)
    else:
        assert _readable(answer["result"]["message"])


def _texts(status: Any) -> list[str]:
    causes = (status.get("details") or {}).get("causes") or ()
    return [status["message"], *(cause.get("message", "") for cause in causes)]


def _readable(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_reviews_get_a_verdict(
    shard: int, fuzz_seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    draw, world = Random(f"{fuzz_seed}/{shard}"), _world()
    judge = AdmissionHandler(catalog=load_catalog(), gates=Gates())
    for number in range(REVIEWS):
        data = _converted(draw) if number % 4 == 0 else _admission(draw)
        began = time.process_time()
        if number % 4 == 0:
            _convert(data)
        else:
            _judged(judge, world, data, mutate=number % 2 == 0)
        assert time.process_time() - began < CPU_MAX_S, data[:2000]
        assert not caplog.records, (data[:2000], caplog.text)
    assert judge.faults == 0
