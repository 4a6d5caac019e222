"""Values that a mutating webhook sets in place of those in git."""

from __future__ import annotations

import base64
import json
from typing import Final

import pytest

from gitkruise.admission.webhooks.matching import Webhook
from gitkruise.gitops.inspect.drift import compare
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.preview.preview import live_preview
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.change import ChangeKind
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec, Unit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.webhook_client import EndpointAddress, WebhookCalls
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.webhook.registration import MUTATING
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import UNIT, MakeStage, Stage, config_map, web

pytestmark = pytest.mark.slow

MIRROR: Final = "mirror.local/"
IMAGE: Final = ("spec", "template", "spec", "containers", 0, "image")
HOOK: Final[Obj] = {
    "metadata": {"name": "mirror"},
    "webhooks": [
        {
            "name": "mirror.example.com",
            "clientConfig": {"url": "https://127.0.0.1:1/"},
            "rules": [
                {"apiGroups": ["apps.kruise.io"], "apiVersions": ["*"], "resources": ["clonesets"],
                 "operations": ["CREATE", "UPDATE"]},
            ],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}  # fmt: skip


class Mirror(WebhookCalls):
    """A webhook in this process: images come from a mirror."""

    async def _post(
        self, place: EndpointAddress, webhook: Webhook, body: bytes
    ) -> tuple[int, bytes]:
        asked = json.loads(body)["request"]
        (container,) = asked["object"]["spec"]["template"]["spec"]["containers"]
        image = MIRROR + container["image"].removeprefix(MIRROR)
        patch = [{"op": "replace", "path": "/" + "/".join(map(str, IMAGE)), "value": image}]
        response = {"uid": asked["uid"], "allowed": True, "patchType": "JSONPatch"}
        response["patch"] = base64.b64encode(json.dumps(patch).encode()).decode()
        review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return 200, json.dumps({**review, "response": response}).encode()


@pytest.mark.parametrize("mode", ["correct", "detect"])
def test_a_value_of_a_webhook_is_no_drift(staged: MakeStage, mode: str) -> None:
    stage = staged(drift={"mode": mode})
    stage.cluster.webhooks = Mirror()

    async def script() -> None:
        create = ApiRequest(verb="create", resource=MUTATING, body=HOOK)
        await WorldTransport(stage.cluster).send(create)
        async with stage.running():
            await stage.push(web(), config_map("settings", a="1"))
            await stage.rest(100)
            assert stage.images() == [MIRROR + "app:v1"] * 4
        assert await differing(stage) == []
        assert await changes(stage) == []
        stage.start_over()
        async with stage.running():
            await stage.follower.check()
            await stage.rest(600)
            assert (stage.state, stage.record.drift) == ("Done", ())
        stage.meddle(config_map("settings", a="2"))
        assert await differing(stage) == ["data.a"]
        assert await changes(stage) == (["data.a"] if mode == "correct" else [])

    stage.play(script)


def config_of(stage: Stage) -> Config:
    source = GitSource("shop", "src", GitSourceSpec(url=str(stage.origin.bare), ref=stage.ref))
    return Config(sources={"shop/src": source}, units={UNIT: Unit("shop", "web", stage.spec)})


async def differing(stage: Stage) -> list[str]:
    seen = await compare(
        str(stage.origin.bare), "main", config_of(stage), load_catalog(),
        transport=stage.wire, charts=stage.around.charts, cluster="test",
    )  # fmt: skip
    return [row.field for row in seen.differing]


async def changes(stage: Stage) -> list[str]:
    catalog = load_catalog()
    head = stage.repository.named("main")
    side = read_side(stage.repository, head, config_of(stage), catalog, Gates())
    preview = await live_preview(
        side, side, catalog, Gates(), transport=stage.wire, now=stage.clock.now()
    )
    changed = [c for c in preview.changes if c.kind is not ChangeKind.UNCHANGED]
    return [".".join(map(str, field.path)) for change in changed for field in change.fields]
