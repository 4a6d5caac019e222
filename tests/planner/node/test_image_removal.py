"""Images that the agent removes: only its own, once nothing names or uses them."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.node.containers import HeldImage
from gitkruise.model.node.node_image import NodeImage, node_image
from gitkruise.planner.node.image_removal import (
    Fate,
    fate,
    pulled_images,
    removed_later,
    unwanted,
)
from gitkruise.planner.node.pull_agent import open_tasks

APP, DIGEST = "registry.example.com/app", "sha256:" + "a" * 64


def wanted(*tags: str, asks: object = "true", name: str = APP) -> NodeImage:
    sandbox = {"annotations": {"gitkruise.io/remove-image": asks}} if asks else {}
    entry: dict[str, Any] = {"tags": [{"tag": t} for t in tags], "sandboxConfig": sandbox}
    return node_image({"metadata": {"name": "n"}, "spec": {"images": {name: entry}}})


def test_only_a_job_that_asks_has_its_image_removed() -> None:
    """IMG-40."""
    for asks, expected in (("true", [f"{APP}:v1"]), ("false", []), ("", [])):
        image = wanted("v1", asks=asks)
        assert [t.image for t in removed_later(image, open_tasks(image))] == expected


UNWANTED = {
    "a tag that is named stays": (wanted("v1"), f"{APP}:v1", False),
    "another tag goes": (wanted("v1"), f"{APP}:v2", True),
    "the familiar name is the same": (
        wanted("1", name="nginx"),
        "docker.io/library/nginx:1",
        False,
    ),
    "a digest that is named stays": (wanted(DIGEST), f"{APP}@{DIGEST}", False),
    "nothing is named": (wanted(), f"{APP}:v1", True),
    "an entry that somebody broke": (wanted("v1"), "///", True),
}


@pytest.mark.parametrize("row", UNWANTED)
def test_an_image_is_unwanted_once_no_tag_names_it(row: str) -> None:
    spec, image, expected = UNWANTED[row]
    assert unwanted(spec, (image,)) == ((image,) if expected else ())


def test_the_annotation_lists_images_apart_by_spaces() -> None:
    noted = {"gitkruise.io/pulled-images": f"{APP}:v1 nginx:1"}
    assert pulled_images({"metadata": {"annotations": noted}}) == (f"{APP}:v1", "nginx:1")
    assert pulled_images({"metadata": {}}) == ()


V1 = HeldImage("sha256:1", (f"{APP}:v1",), (f"{APP}@{DIGEST}",))
TWO = HeldImage("sha256:1", (f"{APP}:v1", f"{APP}:stable"), ())
FATES = {
    "unused": ([V1], (), (f"{APP}:v1",), Fate.REMOVE),
    "a container names it by id": ([V1], ("sha256:1",), (f"{APP}:v1",), Fate.KEEP),
    "a container names it by tag": ([V1], (f"{APP}:v1",), (f"{APP}:v1",), Fate.KEEP),
    "a container names it by digest": ([V1], (f"{APP}@{DIGEST}",), (f"{APP}:v1",), Fate.KEEP),
    "a container of another image": ([V1], ("sha256:2",), (f"{APP}:v1",), Fate.REMOVE),
    "another tag shares it": ([TWO], (), (f"{APP}:v1",), Fate.KEEP),
    "the other tag goes as well": ([TWO], (), (f"{APP}:v1", f"{APP}:stable"), Fate.REMOVE),
    "not held": ([], (), (f"{APP}:v1",), Fate.FORGET),
}


@pytest.mark.parametrize("row", FATES)
def test_fate_of_an_unwanted_image(row: str) -> None:
    """IMG-42."""
    store, used, removable, expected = FATES[row]
    assert fate(f"{APP}:v1", store, used, removable) is expected


def test_an_entry_that_names_no_image_is_forgotten() -> None:
    assert fate("///", [V1], (), ("///",)) is Fate.FORGET
