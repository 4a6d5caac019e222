"""An object is named `TYPE/NAME` or, as kubectl allows, `TYPE NAME`, in every command."""

from __future__ import annotations

import re
from typing import Final

import pytest

from gitkruise.cli.context.resource_args import parse_resource_arg, parse_workload
from gitkruise.errors import UsageProblem
from gitkruise.gitops.inspect.cluster_view import WORKLOADS
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    STATEFULSET,
)
from gitkruise.wire.primitives.names import GroupKind, noun
from tests.cli.calls import Caller
from tests.cli.shop import Checkout, cloneset, unit_record

COMMANDS: Final = (
    ("history",), ("drift",), ("why", "--sandbox"), ("hold", "--print"), ("pause", "--print"),
    ("resume", "--print"), ("promote", "--updated", "30%", "--print"), ("rollback", "--print"),
    ("prepull", "--dry-run", "--sandbox"),
)  # fmt: skip


@pytest.fixture
def recorded(checkout: Checkout) -> Checkout:
    checkout.commit("first release", {"apps/checkout.yaml": cloneset()})
    checkout.record("sandbox", unit_record())
    return checkout


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
def test_one_object_in_one_word_or_two(
    gk: Caller, recorded: Checkout, words: tuple[str, ...]
) -> None:
    verb, *options = words
    names = ("cloneset/checkout",), ("cloneset", "checkout")
    one, two = (gk(verb, *name, *options, "-n", "shop", cwd=recorded.folder) for name in names)
    assert (two.code, _without_ids(two.out), two.err) == (one.code, _without_ids(one.out), one.err)
    assert "Usage:" not in two.err


def _without_ids(text: str) -> str:
    """`text` without ids of planned commits, which depend on the second they are made in."""
    return re.sub(r"\b[0-9a-f]{7}\b", "…", text)


@pytest.mark.parametrize("words", [("suspend", "unit"), ("reconcile", "unit"), ("resume", "unit")])
def test_a_unit_in_one_word_or_two(gk: Caller, words: tuple[str, str]) -> None:
    verb, noun = words
    one, two = gk(verb, f"{noun}/web", "--sandbox"), gk(verb, noun, "web", "--sandbox")
    assert (two.code, two.err) == (one.code, one.err)
    assert two.code not in {0, 2}


@pytest.mark.parametrize("extra", [("cs/web", "api"), ("cs", "web", "api"), ("cs", "web/api")])
def test_more_than_one_object_is_a_usage_error(gk: Caller, extra: tuple[str, ...]) -> None:
    ended = gk("history", *extra)
    assert ended.code == 2
    assert f"one object is expected, not: {' '.join(extra)}" in ended.err


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("web.v2", CLONESET),
        ("rollout/web", CLONESET),
        ("statefulsets/web", STATEFULSET),
        ("statefulset.apps/web", STATEFULSET),
        ("statefulset.apps.kruise.io/web", ADVANCED_STATEFULSET),
        ("Deployment.v1.apps/web.v2", DEPLOYMENT),
        ("ds.apps/web", DAEMONSET),
        ("jobs.batch/web", GroupKind("batch", "Job")),
    ],
)
def test_the_group_of_a_type_counts(text: str, kind: GroupKind) -> None:
    assert parse_workload(text) == (kind, text.rpartition("/")[2])


@pytest.mark.parametrize(
    ("text", "noun"),
    [
        ("deploy.apps", "deployments"),
        ("Deployments.v1.apps", "deployments"),
        ("sts.apps", "statefulsets"),
        ("sts.apps.kruise.io", "advancedstatefulsets"),
        ("statefulsets.v1beta1.apps.kruise.io", "advancedstatefulsets"),
        ("cs.apps.kruise.io", "clonesets"),
    ],
)
def test_lists_know_types_with_groups(text: str, noun: str) -> None:
    assert parse_resource_arg((text,)).noun == noun


@pytest.mark.parametrize(
    "text", ["deploy.example.com", "cs.apps", "rollouts.argoproj.io", "x.apps"]
)
def test_a_type_of_another_group_is_unknown(text: str) -> None:
    with pytest.raises(UsageProblem, match="unknown type"):
        parse_resource_arg((text,))


@pytest.mark.parametrize("kind", WORKLOADS)
def test_why_knows_every_kind_that_status_advises_to_ask_for(kind: GroupKind) -> None:
    assert parse_workload(f"{noun(kind)}/web") == (kind, "web")


@pytest.mark.parametrize(
    "word", ["ads", "daemonsets.apps.kruise.io", "DaemonSet.v1beta1.apps.kruise.io"]
)
def test_a_daemon_set_of_openkruise_is_named_with_its_group(word: str) -> None:
    """The first word is the one that `status` prints: a DaemonSet is another kind."""
    assert parse_workload(f"{word}/web") == (GroupKind("apps.kruise.io", "DaemonSet"), "web")


@pytest.mark.parametrize("text", ["pod/web", "service/web", "deployment.example.com/web", "sts/"])
def test_what_is_no_workload_is_refused_with_what_is_one(text: str) -> None:
    with pytest.raises(UsageProblem, match="not a workload") as caught:
        parse_workload(text)
    (known,) = (text for name, text in caught.value.findings[0].notes if name == "known")
    assert "pods" not in known
    for one in known.split(", "):
        parse_workload(f"{one}/web")
    (following,) = (text for name, text in caught.value.findings[0].notes if name == "next")
    assert ("kubectl describe" in following) == (not text.endswith("/"))
