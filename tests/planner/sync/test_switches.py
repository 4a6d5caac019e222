"""The annotations of gitkruise by which an object opts out: what the check takes has its effect."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gitkruise.planner.sync.annotations import (
    health_ignored,
    health_words,
    kept,
    replace_asked,
    untouched,
    wants_approval,
)
from gitkruise.wire.primitives.names import Obj


def noted(name: str, value: str) -> Obj:
    return {"metadata": {"name": "web", "annotations": {name: value}}}


@pytest.mark.parametrize("say", [str, str.lower, str.upper], ids=["as written", "lower", "upper"])
def test_a_switch_has_its_effect_in_every_case_that_is_accepted(say: Callable[[str], str]) -> None:
    off, confirm, on = say("Disabled"), say("Confirm"), say("Enabled")
    assert kept(noted("gitkruise.io/prune", off)) == f"annotation gitkruise.io/prune: {off}"
    assert untouched(noted("gitkruise.io/reconcile", off))
    assert kept(noted("gitkruise.io/reconcile", off))
    assert wants_approval(noted("gitkruise.io/prune", confirm)).endswith(confirm)
    assert replace_asked(noted("gitkruise.io/replace", on))
    assert not replace_asked(noted("gitkruise.io/replace", off))


def test_words_of_other_tools_count_as_those_tools_read_them() -> None:
    assert kept(noted("helm.sh/resource-policy", "keep"))
    assert not kept(noted("helm.sh/resource-policy", "KEEP"))
    assert not untouched(noted("argocd.argoproj.io/hook", "skip"))


@pytest.mark.parametrize("say", [str, str.lower, str.upper], ids=["as written", "lower", "upper"])
def test_health_is_ignored_in_every_case(say: Callable[[str], str]) -> None:
    obj = noted("gitkruise.io/health", say("Ignore"))
    assert health_ignored(obj)
    assert health_words(obj) == ""
    assert health_words(noted("gitkruise.io/health", "status.up")) == "status.up"
