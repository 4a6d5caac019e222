"""Delays of nodes and failing images, by rules that users can rely on."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest

from gitkruise.cli.commands.cluster.sandbox import up
from gitkruise.sandbox.server import SandboxOptions, parts_of
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.profiles import FAST, GENERAL, PROFILES, ImageFate

FATES = {
    "nginx": None,
    "nginx:1.27": None,
    "shop/web:v2-bad": ImageFate.PULL_FAILS,
    "registry.example.com:5000/web:missing": ImageFate.PULL_FAILS,
    "web:broken-3": ImageFate.PULL_FAILS,
    "web:v1-crash": ImageFate.CRASHES,
    "web:unready": ImageFate.NEVER_READY,
    "broken/bad:v1": None,  # only the tag counts
    "bad.example.com:5000/web": None,
    "web@sha256:bad": None,
    "web:bad@sha256:00": ImageFate.PULL_FAILS,
    "registry.invalid/web:v1": ImageFate.PULL_FAILS,  # RFC 2606
    "invalid:5000/web:v1": ImageFate.PULL_FAILS,
    "registry.example.com/invalid/web:v1": None,
}


@pytest.mark.parametrize(("image", "fate"), FATES.items())
def test_the_tag_of_an_image_decides_its_fate(image: str, fate: ImageFate | None) -> None:
    assert GENERAL.fate_of(image) is fate


def test_delays_are_divided_by_speed_and_spread_by_jitter() -> None:
    assert FAST.faster(4).delay_s(2, seed="x") == 0.5
    spread = [GENERAL.delay_s(10, seed=str(i)) for i in range(200)]
    assert all(7 <= delay < 13 for delay in spread)
    assert min(spread) < 8
    assert max(spread) > 12
    assert spread[0] == GENERAL.delay_s(10, seed="0")


@pytest.mark.parametrize("name", ["fast", "general", "chaos"])
def test_a_sandbox_works_by_the_profile_that_is_named(name: str) -> None:
    parts = parts_of(SandboxOptions(profile=name, speed=3))
    (kubelet,) = [part for part in parts if isinstance(part, Kubelet)]
    assert (kubelet.profile.name, kubelet.profile.speed) == (name, 3)


def test_profiles_on_the_command_line_are_those_there_are() -> None:
    (words,) = [p.type for p in up.params if p.name == "profile"]
    assert isinstance(words, click.Choice)
    assert list(words.choices) == [profile.name for profile in PROFILES.values()]


@pytest.mark.parametrize(("speed", "jitter", "chaos_rate"), [(0, 0, 0), (1, 1, 0), (1, 0, 1.5)])
def test_a_senseless_profile_is_refused(speed: float, jitter: float, chaos_rate: float) -> None:
    with pytest.raises(ValueError, match="no such cluster"):
        replace(FAST, speed=speed, jitter=jitter, chaos_rate=chaos_rate)
