"""Revisions: which one is reused, raised or created, and which are forgotten."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

import pytest

from gitkruise.model.planning.plan import Create, Patch
from gitkruise.model.workloads.cloneset import cloneset_facts
from gitkruise.model.workloads.revision import REVISION, Revision, in_order, revision_of
from gitkruise.planner.revisions.registration import RevisionHistory
from gitkruise.planner.revisions.revisions import (
    next_revisions,
    template_of,
)
from gitkruise.wire.kruise.revision_data import default_template
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.names import Obj
from tests import worlds
from tests.planner.cloneset.build import cloneset, revision, template

NEW, OLD = template("nginx:1.26"), template("nginx:1.25")
DIFFERENT: Final = revision(OLD, 1)


def chosen(
    revisions: Sequence[Revision], others: dict[str, Revision] | None = None, **spec: Any
) -> RevisionHistory:
    owner = cloneset_facts(cloneset(template=NEW, **spec))
    return next_revisions(owner, in_order(revisions), others or {})


def step(history: RevisionHistory) -> dict[str, Any]:
    assert isinstance(history.action, Patch)
    return dict(history.action.steps[0].body)


# history, wanted number, wanted action: "create", None, or the patch
CHOICES: Final = {
    "empty": ([], 1, "create"),
    "a different one": ([DIFFERENT], 2, "create"),
    "the last is equal": ([DIFFERENT, revision(NEW, 2)], 2, None),
    "an older one without annotation": (
        [revision(NEW, 1, claims_hash=None), revision(OLD, 2)],
        3,
        {
            "revision": 3,
            "metadata": {"annotations": {"kruise.io/cloneset-volumeclaimtemplate-hash": ""}},
        },
    ),
    "an older one with the right claims": (
        [revision(NEW, 1), revision(OLD, 2)],
        3,
        {"revision": 3},
    ),
    "an older one with other claims": (
        [revision(NEW, 1, claims_hash="12"), revision(OLD, 2)],
        3,
        {
            "revision": 3,
            "metadata": {"annotations": {"kruise.io/cloneset-volumeclaimtemplate-hash": ""}},
        },
    ),
}


@pytest.mark.parametrize("row", CHOICES.values(), ids=CHOICES)
def test_update_revision(row: tuple[list[Revision], int, Any]) -> None:
    revisions, number, wanted = row
    history = chosen(revisions)
    assert history.update.number == number
    assert history.update.data == revision(NEW, 1).data
    if wanted == "create":
        assert isinstance(history.action, Create)
    elif wanted is None:
        assert history.action is None
    else:
        assert step(history) == wanted


@pytest.mark.parametrize(
    ("image", "wanted"),
    [("nginx:alpine", "sample-d4d4fb5bd"), ("nginx:mainline", "sample-56dfb978d4")],
)
def test_published_names(image: str, wanted: str) -> None:
    """The CloneSet examples of the OpenKruise documentation."""
    pull = {"imagePullPolicy": "Always"} if image == "nginx:mainline" else {}
    sample = {
        "metadata": {"labels": {"app": "sample"}},
        "spec": {"containers": [{"name": "nginx", "image": image, **pull}]},
    }
    raw = cloneset(template=default_template(sample), metadata={"name": "sample"})
    assert next_revisions(cloneset_facts(raw), (), {}).update.name == wanted


def test_created_object() -> None:
    history = chosen([], metadata={"annotations": {"gitkruise.io/commit": "4f2c9e1"}})
    assert isinstance(history.action, Create)
    obj = history.action.obj
    meta = obj["metadata"]
    assert meta["labels"]["controller.kubernetes.io/hash"] == history.update.short
    assert meta["labels"]["app"] == "web"
    assert meta["annotations"]["gitkruise.io/commit"] == "4f2c9e1"
    assert meta["ownerReferences"][0]["apiVersion"] == "apps.kruise.io/v1beta1"
    assert isinstance(obj["data"], RawJSON)
    assert obj["revision"] == 1


def test_current_revision_is_the_one_the_status_names() -> None:
    history = chosen([DIFFERENT], status={"currentRevision": DIFFERENT.name})
    assert history.current.name == DIFFERENT.name
    assert chosen([DIFFERENT]).current == chosen([DIFFERENT]).update


def test_a_taken_name_with_foreign_data_counts_a_collision() -> None:
    name = chosen([]).update.name
    foreign = Revision(name=name, number=1, data=b"{}")
    history = chosen([], {name: foreign})
    assert history.collision_count == 1
    assert history.update.name != name
    assert isinstance(history.action, Create)
    first_hash = name.rpartition("-")[2]
    assert history.action.obj["metadata"]["labels"]["controller.kubernetes.io/hash"] == first_hash


def test_a_taken_name_with_our_data_is_used_as_it_is() -> None:
    mine = revision(NEW, 4)
    history = chosen([], {mine.name: mine})
    assert history.action is None
    assert history.update == mine


def test_a_spelling_of_the_last_revision_restarts_nobody() -> None:
    """Another release may have written empty maps or other quantities."""
    raw = json.loads(revision(NEW, 1).data)
    spec = raw["spec"]["template"]["spec"]
    spec["containers"][0]["resources"] = {"requests": {"cpu": "1000m"}}
    spec["nodeSelector"] = {}
    spelled = revision(NEW, 1, data=json.dumps(raw).encode())
    wanted = template("nginx:1.26", container={"resources": {"requests": {"cpu": "1"}}})
    owner = cloneset_facts(cloneset(template=wanted))
    history = next_revisions(owner, (spelled,), {})
    assert history.action is None
    assert history.update == spelled


def test_a_real_difference_is_no_spelling() -> None:
    history = chosen([revision(template("nginx:1.26", hostNetwork=True), 1)])
    assert isinstance(history.action, Create)


def raw_revision(data: Any) -> Obj:
    meta = {"name": "web-x", "namespace": "shop", "labels": {}, "uid": "u", "resourceVersion": "1"}
    return {"metadata": meta, "data": data, "revision": 1}


def test_data_from_a_server_that_reordered_it_is_compacted() -> None:
    exact = revision(NEW, 1).data
    shuffled = {"spec": json.loads(exact)["spec"]}
    assert revision_of(raw_revision(shuffled)).data == exact
    assert revision_of(raw_revision(RawJSON(exact))).data == exact


@pytest.mark.parametrize(
    "data", [b"{", b"null", b'{"spec":{}}', b'{"spec":{"template":{"spec":7}}}']
)
def test_garbage_data_is_named(data: bytes) -> None:
    with pytest.raises(ValueError, match="revision data holds no pod template"):
        template_of(data)


def test_history_beyond_the_limit_is_forgotten_oldest_first() -> None:
    revisions = [revision(template(f"nginx:{n}"), n) for n in range(1, 13)]
    newest = revision(NEW, 13)
    history = chosen([*revisions, newest])
    owner = cloneset_facts(cloneset(template=NEW, revisionHistoryLimit=10))
    deleted = history.forget(owner.history_limit, owner.namespace, lambda _: False)
    assert [a.key.name for a in deleted] == [r.name for r in revisions[:2]]


def test_a_revision_in_use_is_not_forgotten() -> None:
    revisions = [revision(template(f"nginx:{n}"), n) for n in range(1, 4)]
    history = chosen([*revisions, revision(NEW, 4)])
    owner = cloneset_facts(cloneset(template=NEW, revisionHistoryLimit=0))
    deleted = history.forget(
        owner.history_limit, owner.namespace, lambda r: r.name == revisions[0].name
    )
    assert [a.key.name for a in deleted] == [r.name for r in revisions[1:]]


@pytest.mark.parametrize("policy", ["InPlaceIfPossible", "ReCreate"])
def test_rev_77_three_revisions_rest_after_the_fourth_template(policy: str) -> None:
    lab, web = worlds.Lab(), worlds.cloneset(replicas=2, podUpdatePolicy=policy)
    lab.apply({**web, "spec": {**web["spec"], "revisionHistoryLimit": 2}})
    lab.run()
    for image in ("app:v2", "app:v3", "app:v4"):
        lab.patch(web, {"spec": {"template": worlds.template(image)}})
        lab.run()
    found = lab.world.objects(REVISION, worlds.SPACE)
    assert sorted(r["revision"] for r in found) == [2, 3, 4]
