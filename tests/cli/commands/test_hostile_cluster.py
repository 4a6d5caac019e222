"""Commands on a cluster whose objects carry hostile text: none of it reaches a terminal raw."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from gitkruise.printable import UNPRINTABLE
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, PODS, ApiRequest, ResourceRef
from tests.cli.calls import Caller, Ended
from tests.cli.console.test_hostile_text import EVIL, bare
from tests.cli.live import CLONESETS, applied, send
from tests.cli.shop import cloneset

pytestmark = pytest.mark.slow

NAME: Final = "hostile"
ALL: Final = "x".join(EVIL)
FORGED: Final = "Summary nothing changes"
EVENTS: Final = ResourceRef("", "v1", "events")


def hostile() -> str:
    """A CloneSet whose image cannot be pulled, and whose every free text is hostile."""
    body = yaml.safe_load(cloneset(name=NAME, replicas=2))
    (container,) = body["spec"]["template"]["spec"]["containers"]
    container["image"] = f"registry.example.com/no-such{ALL}broken"
    body["spec"]["template"]["metadata"]["annotations"] = {"note": ALL}
    return yaml.safe_dump(body, allow_unicode=True)


def event(owner: Obj) -> Obj:
    meta = owner["metadata"]
    about = {"apiVersion": owner["apiVersion"], "kind": "CloneSet", "namespace": "shop",
             "name": NAME, "uid": meta["uid"]}  # fmt: skip
    return {"apiVersion": "v1", "kind": "Event", "involvedObject": about, "message": ALL,
            "metadata": {"name": f"{NAME}.1", "namespace": "shop"}, "type": "Warning",
            "reason": f"Because{ALL}", "source": {"component": f"they{ALL}"},
            "firstTimestamp": "2026-11-21T10:00:00Z", "lastTimestamp": "2026-11-21T10:00:00Z",
            "count": 1}  # fmt: skip


@pytest.fixture(scope="module")
def pod(own_cluster: Path) -> Iterator[str]:
    """A pod of the CloneSet, with a message and a condition of its own."""
    marks = {"commit": ALL, "path": ALL, "unit-ref": ALL, "rollout": ALL}
    with applied(own_cluster, hostile(), **marks):
        get = ApiRequest(verb="get", resource=CLONESETS, namespace="shop", name=NAME)
        (owner,) = send(own_cluster, get)
        create = ApiRequest(verb="create", resource=EVENTS, namespace="shop", body=event(owner))
        pods = ApiRequest(verb="list", resource=PODS, namespace="shop",
                          params={"labelSelector": f"app={NAME}"})  # fmt: skip
        found: list[Obj] = []
        while len(found) < 2:
            found = send(own_cluster, pods)[0]["items"]
        name: str = found[0]["metadata"]["name"]
        condition = {"type": "example.com/x", "status": "False", "reason": "Because",
                     "message": ALL, "lastTransitionTime": "2026-11-21T10:00:00Z"}  # fmt: skip
        status = {"message": ALL, "reason": ALL, "conditions": [condition]}
        patch = ApiRequest(verb="patch", resource=PODS, namespace="shop", name=name,
                           subresource="status", body={"status": status},
                           content_type=MERGE_PATCH)  # fmt: skip
        send(own_cluster, create, patch)
        yield name


def ask(gk: Caller, own_cluster: Path, *words: str) -> Ended:
    return gk(*words, KUBECONFIG=str(own_cluster))


COMMANDS: Final = [
    f"get {NAME} -n shop",
    f"get {NAME} -n shop -o wide",
    f"get rollout {NAME} -n shop",
    "get pods -n shop",
    "get events -n shop",
    "get revisions -n shop",
    "get units -n shop",
    f"why cloneset/{NAME} -n shop",
    "trace POD -n shop",
    "status",
    "drift",
    "doctor cluster",
]


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("colour", ["never", "always"])
def test_a_terminal_gets_no_control_character_and_no_forged_line(
    gk: Caller, own_cluster: Path, pod: str, words: str, colour: str
) -> None:
    ended = ask(gk, own_cluster, "--color", colour, *words.replace("POD", pod).split())
    for text in (ended.out, ended.err):
        assert UNPRINTABLE.search(bare(text)) is None
        assert not any(line.startswith(FORGED) for line in text.splitlines())


@pytest.mark.parametrize("words", [w for w in COMMANDS if "wide" not in w and "doctor" not in w])
def test_json_is_one_document_without_raw_control_characters(
    gk: Caller, own_cluster: Path, pod: str, words: str
) -> None:
    ended = ask(gk, own_cluster, *words.replace("POD", pod).split(), "-o", "json")
    if ended.out:
        json.loads(ended.out)
    assert UNPRINTABLE.search(ended.out.replace("\n", "")) is None


def test_the_hostile_texts_are_in_what_the_commands_read(
    gk: Caller, own_cluster: Path, pod: str
) -> None:
    events = ask(gk, own_cluster, "get", "events", "-n", "shop").out
    why = ask(gk, own_cluster, "why", f"cloneset/{NAME}", "-n", "shop").out
    trace = ask(gk, own_cluster, "trace", pod, "-n", "shop").out
    for text in (events, why, trace):
        assert FORGED in text
