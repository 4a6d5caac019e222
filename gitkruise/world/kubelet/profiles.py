"""Profiles of the simulated kubelet: delays, jitter, and images that fail."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from hashlib import sha256
from types import MappingProxyType
from typing import Final


class ImageFate(Enum):
    """Fate of a container whose image tag contains one of the marker words."""

    PULL_FAILS = "the image cannot be pulled"
    CRASHES = "the container exits with 1 right after its start"
    NEVER_READY = "the container runs and never becomes ready"
    UNHEALTHY = "its liveness and startup probes fail"


TELLING_WORDS: Final[Mapping[str, ImageFate]] = MappingProxyType(
    {
        "bad": ImageFate.PULL_FAILS,
        "missing": ImageFate.PULL_FAILS,
        "broken": ImageFate.PULL_FAILS,
        "crash": ImageFate.CRASHES,
        "unready": ImageFate.NEVER_READY,
        "unhealthy": ImageFate.UNHEALTHY,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Delays of the simulated kubelet in seconds, before jitter and speed.

    `jitter` 0.2 spreads each delay over 0.8 to 1.2 times itself, derived from pod uid and stage,
    so that one pod always behaves the same. `speed` divides every delay, back-offs included.
    `chaos_rate` is the share of containers (0 to 1) that meet `chaos` once: an early crash.
    """

    name: str
    pull_s: float
    start_s: float
    ready_s: float  # of a container with a readiness probe, on top of its initialDelaySeconds
    stop_s: float  # from SIGTERM to exit, cut off by the grace period
    complete_s: float  # how long a container runs where the restart policy is not Always
    jitter: float = 0.0
    speed: float = 1.0
    chaos_rate: float = 0.0
    words: Mapping[str, ImageFate] = field(default_factory=lambda: TELLING_WORDS)

    def __post_init__(self) -> None:
        if not (self.speed > 0 and 0 <= self.jitter < 1 and 0 <= self.chaos_rate <= 1):
            raise ValueError(f"no such cluster can be: {self}")

    def faster(self, speed: float) -> Profile:
        """This profile at `speed` times its pace."""
        return replace(self, speed=self.speed * speed)

    def delay_s(self, seconds: float, *, seed: str) -> float:
        """`seconds` with this profile's jitter (drawn from `seed`) at its speed."""
        spread = 1 + self.jitter * (2 * draw(seed) - 1) if self.jitter else 1.0
        return seconds * spread / self.speed

    def fate_of(self, image: str) -> ImageFate | None:
        """Return the fate that the image's tag selects, if any. Digests are ignored.

        No registry is ever found below the domain `invalid` (RFC 2606).
        """
        host = image.partition("/")[0].partition(":")[0] if "/" in image else ""
        if host.rpartition(".")[2] == "invalid":
            return ImageFate.PULL_FAILS
        _, _, tag = image.partition("@")[0].rpartition("/")[2].partition(":")
        return next((fate for word, fate in self.words.items() if word in tag), None)


def draw(seed: str) -> float:
    """A number in [0, 1) derived from `seed`, the same on every machine."""
    return int.from_bytes(sha256(seed.encode()).digest()[:8], "big") / 2**64


FAST: Final = Profile(name="fast", pull_s=1, start_s=1, ready_s=1, stop_s=1, complete_s=1)
GENERAL: Final = Profile(
    name="general", pull_s=1.5, start_s=1, ready_s=2, stop_s=0.8, complete_s=4, jitter=0.3
)
CHAOS: Final = Profile(
    name="chaos", pull_s=3, start_s=2, ready_s=4, stop_s=3, complete_s=6, jitter=0.9, chaos_rate=0.1
)
PROFILES: Final[Mapping[str, Profile]] = MappingProxyType(
    {profile.name: profile for profile in (FAST, GENERAL, CHAOS)}
)
