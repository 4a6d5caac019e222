"""The NodeImage of a node: pulls, logins, failures, and what is reported of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gitkruise.agent.pull import NODE_IMAGES, SECRETS
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.system.clock import SystemClock
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest
from tests.agent.cri_server import MemoryRuntime
from tests.agent.scenes import HANG_S, NODE, Scene, play, scene
from tests.worlds import SPACE

pytestmark = pytest.mark.slow

APP = "registry.example.com/app"


def tag(name: str, *, version: int = 0, **more: Any) -> Obj:
    found = {"tag": name, "createdAt": "2026-11-24T10:00:00Z", "version": version}
    return {**found, "pullPolicy": {"backoffLimit": 0}, **more}


def entry(*tags: Obj, secrets: tuple[str, ...] = ()) -> Obj:
    named = [{"namespace": SPACE, "name": name} for name in secrets]
    return {"tags": [*tags], "pullSecrets": named}


async def wanted(here: Scene, images: Obj) -> None:
    """Create the NodeImage."""
    body = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "NodeImage",
        "metadata": {"name": NODE},
        "spec": {"images": images},
    }
    await here.transport.send(ApiRequest(verb="create", resource=NODE_IMAGES, body=body))


async def changed(here: Scene, images: Obj) -> None:
    await here.transport.send(
        ApiRequest(
            verb="patch",
            resource=NODE_IMAGES,
            name=NODE,
            body={"spec": {"images": images}},
            content_type=MERGE_PATCH,
        )
    )


async def reported(here: Scene, pleased: Callable[[Obj], object]) -> Obj:
    """The status once it pleases."""
    clock = SystemClock()
    found: Obj = {}
    try:
        async with clock.timeout(HANG_S):
            while True:
                ask = ApiRequest(verb="get", resource=NODE_IMAGES, name=NODE)
                found = thaw((await here.transport.send(ask)).body).get("status", {})
                if pleased(found):
                    return found
                await clock.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"still waiting: {found}; {here.memory.asked}") from None


def tags_of(status: Obj, name: str = APP) -> dict[str, Obj]:
    found = status.get("imageStatuses", {}).get(name, {}).get("tags", [])
    return {t["tag"]: t for t in found}


def over(status: Obj) -> bool:
    done = status.get("succeeded", 0) + status.get("failed", 0)
    return bool(status.get("desired")) and status["desired"] == done


async def secret(here: Scene, name: str, login: str, registry: str) -> None:
    text = json.dumps({"auths": {registry: dict(zip(("username", "password"), login.split(":"),
                                                    strict=True))}})  # fmt: skip
    body = {
        "metadata": {"name": name, "namespace": SPACE},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": base64.b64encode(text.encode()).decode()},
    }
    await here.transport.send(
        ApiRequest(verb="create", resource=SECRETS, namespace=SPACE, body=body)
    )


def test_tags_are_pulled_and_reported(tmp_path: Path) -> None:
    async def body() -> None:
        memory = MemoryRuntime(registry={f"{APP}:v1": ""})
        async with scene(tmp_path, memory) as here, here.agent():
            await wanted(here, {APP: entry(tag("v1"), tag("missing"))})
            status = await reported(here, over)
            good, bad = tags_of(status)["v1"], tags_of(status)["missing"]
            assert (good["phase"], good["progress"]) == ("Succeeded", 100)
            assert good["imageID"] == f"{APP}@sha256:{APP}:v1"
            assert bad["phase"] == "Failed"
            assert bad["message"].startswith(f"Failed to pull image {APP}:missing: PullImage: no")
            assert good["startTime"]
            assert bad["completionTime"]
            assert (status["desired"], status["succeeded"], status["failed"]) == (2, 1, 1)

    play(body)


def test_the_login_that_fits_is_used(tmp_path: Path) -> None:
    """Credentials of another registry are not offered; the first that works ends the attempt."""

    async def body() -> None:
        memory = MemoryRuntime(registry={f"{APP}:v1": "right:word"})
        async with scene(tmp_path, memory) as here:
            await secret(here, "elsewhere", "other:word", "other.example.com")
            await secret(here, "wrong", "wrong:word", "registry.example.com/app")
            await secret(here, "right", "right:word", "registry.example.com")
            names = ("elsewhere", "wrong", "right", "absent")
            await wanted(here, {APP: entry(tag("v1"), secrets=names)})
            async with here.agent():
                status = await reported(here, over)
            assert tags_of(status)["v1"]["phase"] == "Succeeded"
            pulls = [asked[1:] for asked in memory.asked if asked[0] == "pull"]
            assert pulls == [(f"{APP}:v1", "wrong:word"), (f"{APP}:v1", "right:word")]

    play(body)


def test_an_image_that_is_present_is_not_pulled(tmp_path: Path) -> None:
    async def body() -> None:
        memory = MemoryRuntime(held={f"{APP}:v1"})
        async with scene(tmp_path, memory) as here, here.agent():
            await wanted(here, {APP: entry(tag("v1", imagePullPolicy="IfNotPresent"))})
            status = await reported(here, over)
            assert tags_of(status)["v1"]["phase"] == "Succeeded"
            assert memory.asked == []

    play(body)


@pytest.mark.slow
def test_a_new_version_pulls_again_and_a_dropped_tag_is_forgotten(tmp_path: Path) -> None:
    async def body() -> None:
        memory = MemoryRuntime(registry={f"{APP}:v1": "", f"{APP}:v2": ""})
        async with scene(tmp_path, memory) as here, here.agent():
            await wanted(here, {APP: entry(tag("v1"), tag("v2"))})
            await reported(here, over)
            await changed(here, {APP: entry(tag("v1", version=3))})
            status = await reported(here, lambda s: over(s) and s["desired"] == 1)
            assert tags_of(status).keys() == {"v1"}
            assert tags_of(status)["v1"]["version"] == 3
            assert len(memory.asked) == 3

    play(body)


@pytest.mark.slow
def test_an_agent_that_starts_again_reports_what_is_there(tmp_path: Path) -> None:
    """A final status is kept; a pull that was not reported is repeated."""

    async def body() -> None:
        memory = MemoryRuntime(registry={f"{APP}:v1": "", f"{APP}:v2": ""})
        async with scene(tmp_path, memory) as here:
            await wanted(here, {APP: entry(tag("v1"))})
            async with here.agent():
                first = await reported(here, over)
            await changed(here, {APP: entry(tag("v1"), tag("v2"))})
            async with here.agent():
                second = await reported(here, lambda s: over(s) and s["desired"] == 2)
            assert tags_of(second)["v1"] == tags_of(first)["v1"]
            assert [asked[1] for asked in memory.asked] == [f"{APP}:v1", f"{APP}:v2"]

    play(body)


ASKING = {"sandboxConfig": {"annotations": {"gitkruise.io/remove-image": "true"}}}


async def noted(here: Scene, *tags: str) -> None:
    """Wait until the annotation names these tags of APP."""
    clock, found = SystemClock(), [""]
    async with clock.timeout(HANG_S):
        while found != sorted(f"{APP}:{name}" for name in tags):
            await clock.sleep(0.01)
            ask = ApiRequest(verb="get", resource=NODE_IMAGES, name=NODE)
            meta = thaw((await here.transport.send(ask)).body)["metadata"]
            notes = meta.get("annotations") or {}
            found = sorted(notes.get("gitkruise.io/pulled-images", "").split())


@pytest.mark.slow
def test_images_go_with_the_jobs_that_asked_for_it(tmp_path: Path) -> None:
    """IMG-40 to IMG-42: what was present, is in use or has another tag stays."""

    async def body() -> None:
        names = ("v1", "used", "shared", "present")
        memory = MemoryRuntime(
            registry={f"{APP}:{name}": "" for name in names}, held={f"{APP}:present"},
            digests={f"{APP}:shared": "sha256:one", f"{APP}:other": "sha256:one"},
        )  # fmt: skip
        async with scene(tmp_path, memory) as here:
            async with here.agent():
                tags = [tag(name, imagePullPolicy="IfNotPresent") for name in names]
                await wanted(here, {APP: {**entry(*tags), **ASKING}})
                await reported(here, over)
                await noted(here, "v1", "used", "shared")
            memory.held.add(f"{APP}:other")
            memory.create("a", "app")
            memory.containers[-1].image = f"{APP}:used"
            async with here.agent():  # one that was not there when the images were pulled
                await changed(here, {APP: None})
                await noted(here, "used", "shared")
            removals = [asked for asked in memory.asked if asked[0] == "remove"]
            assert removals == [("remove", f"{APP}:v1")]
            assert memory.held == {f"{APP}:{n}" for n in ("used", "shared", "present", "other")}

    play(body)


@pytest.mark.slow
def test_an_image_that_a_job_does_not_ask_to_remove_stays(tmp_path: Path) -> None:
    async def body() -> None:
        memory = MemoryRuntime(registry={f"{APP}:v1": ""})
        async with scene(tmp_path, memory) as here, here.agent():
            await wanted(here, {APP: entry(tag("v1"))})
            await reported(here, over)
            await changed(here, {APP: None})
            await reported(here, lambda status: status.get("desired") == 0)
            assert memory.held == {f"{APP}:v1"}

    play(body)
