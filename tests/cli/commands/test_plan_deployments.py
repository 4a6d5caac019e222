"""A plan of a Deployment: pods replaced wave by wave, and where its canary holds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from tests.cli.calls import Caller
from tests.cli.deployments import web
from tests.cli.shop import Checkout, nowhere

Golden = Callable[[str, str], None]

# before → after, by what the change teaches
CHANGES: Final[dict[str, tuple[str, str]]] = {
    "canary": (web("v1"), web("v2", "3")),
    "all": (web("v1"), web("v2")),
    "no-gate": (web("v1"), web("v2", "100%")),
    "canary-zero": (web("v1"), web("v2", "0")),
    "recreate": (
        web("v1", strategy="type: Recreate"),
        web("v2", strategy="type: Recreate"),
    ),
    "paused": (web("v1"), web("v2", paused=True)),
    "stuck": (web("v1"), nowhere(web("v2"))),
    "scaled": (web("v1"), web("v1", replicas=12)),
    "scaled-and-changed": (web("v1"), web("v2", "50%", replicas=8)),
    "canary-alone": (web("v1", "3"), web("v1", "50%")),
    "pause-alone": (web("v1"), web("v1", paused=True)),
}
# Words that make images fail on simulated nodes; a registry may have such a tag.
HARMLESS: Final = "fix-crash-of-bad-gateway"
QUICK: Final = ("canary", "recreate", "canary-alone")


def test_a_tag_foretells_nothing_of_an_image(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("before", {"web.yaml": web("v1")})
    checkout.commit("after", {"web.yaml": web(HARMLESS)})
    assert "STUCK" not in gk("plan", cwd=checkout.folder).out


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in CHANGES]
)
def test_text(gk: Caller, checkout: Checkout, golden: Golden, name: str) -> None:
    before, after = CHANGES[name]
    checkout.commit("before", {"web.yaml": before})
    checkout.commit(name, {"web.yaml": after})
    ended = gk("plan", cwd=checkout.folder, COLUMNS="100")
    assert (ended.code, ended.err) == (0, "")
    assert max(map(len, ended.out.splitlines())) <= 100
    golden(f"cli-plan/deployment-{name}.txt", ended.out)


def test_json_counts_the_pods_of_each_wave(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("before", {"web.yaml": web("v1")})
    checkout.commit("after", {"web.yaml": web("v2", "3")})
    document = gk("plan", "-o", "json", cwd=checkout.folder).obj
    (rollout,) = document["rollouts"]
    assert (rollout["kind"], rollout["hold"], rollout["canary"]) == (
        "Deployment", "CanaryReached", "3",
    )  # fmt: skip
    assert [step["pods"] for step in rollout["steps"]] == [
        {"new": 3, "old": 9, "available": 9},
        {"new": 3, "old": 7, "available": 10},
    ]
    assert (rollout["maxSurge"], rollout["maxUnavailable"], rollout["partition"]) == (2, 1, 7)


@pytest.mark.slow
def test_markdown_and_html_say_it_too(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("before", {"web.yaml": web("v1")})
    checkout.commit("after", {"web.yaml": web("v2", "3")})
    for form in ("markdown", "html"):
        text = gk("plan", "-o", form, cwd=checkout.folder).out
        assert "3 of 10 pods REPLACED" in text
        assert "3 new, 9 old, 1 unavailable" in text
        assert "gitkruise promote deployment/web -n shop" in text
