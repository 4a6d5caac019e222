"""Rollback as a commit: the old template, and a partition that lets every pod return."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gitkruise.errors import InvalidManifests, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.rollback import (
    Rollback,
    compute_rollback,
    file_at,
    rollback_target,
)
from tests.git.repos import Origin, make_origin, run_git
from tests.gitops.stage import WEB, MakeStage, documents, web
from tests.worlds import cloneset

NOTE = "# 12 of 40 first\n"


def fleet(image: str, partition: Any = None, version: str = "v1beta1") -> dict[str, Any]:
    """Forty pods; `partition` where the version keeps it."""
    obj = cloneset("web", 40, image)
    if version == "v1alpha1":
        obj["apiVersion"] = "apps.kruise.io/v1alpha1"
        obj["spec"]["updateStrategy"] = {"type": "InPlaceIfPossible"}
    where = obj["spec"]["updateStrategy"]
    where = where if version == "v1alpha1" else where["rollingUpdate"]
    if partition is not None:
        where["partition"] = partition
    return obj


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return make_origin(tmp_path)


def back(origin: Origin, now: str, to: str) -> Rollback:
    with Repository.open(str(origin.bare)) as repository:
        return compute_rollback(repository, WEB, now=now, to=to)


@pytest.mark.parametrize("version", ["v1alpha1", "v1beta1"])
def test_12_of_40_at_partition_28_all_return(origin: Origin, version: str) -> None:
    good = origin.commit({"web.yaml": documents(fleet("app:v1", version=version))})
    text = NOTE + documents(fleet("app:v2", 28, version))
    bad = origin.commit({"web.yaml": text})
    found = back(origin, bad, good)
    changed = {".".join(map(str, c.path)): (c.before, c.after) for c in found.fields}
    inner = "" if version == "v1alpha1" else "rollingUpdate."
    assert changed == {
        "spec.template.spec.containers.0.image": ("app:v2", "app:v1"),
        f"spec.updateStrategy.{inner}partition": (28, 0),
    }
    assert found.file == "web.yaml"
    expected = text.replace("app:v2", "app:v1").replace("partition: 28", "partition: 0")
    assert found.data.decode() == expected


def test_a_partition_that_cannot_be_edited_is_explained_as_part_of_the_rollback(
    origin: Origin,
) -> None:
    good = origin.commit({"web.yaml": documents(fleet("app:v1"))})
    shared = "partition: &all 28\n      maxUnavailable: *all"
    text = documents(fleet("app:v2", 28)).replace("partition: 28", shared)
    bad = origin.commit({"web.yaml": text})
    with pytest.raises(InvalidManifests) as caught:
        back(origin, bad, good)
    (finding,) = caught.value.findings
    assert finding.message == (
        "a rollback lets every pod go back, so it changes partition, too: cannot change only "
        "spec.updateStrategy.rollingUpdate.partition of CloneSet shop/web"
    )
    assert finding.notes == (
        ("unchanged", "the file"), ("next", "edit this line by hand, commit, and roll back again"),
    )  # fmt: skip


@pytest.mark.parametrize("partition", [None, 0, "0%"])
def test_a_partition_that_holds_nobody_is_left_as_written(origin: Origin, partition: Any) -> None:
    good = origin.commit({"web.yaml": documents(fleet("app:v1"))})
    bad = origin.commit({"web.yaml": documents(fleet("app:v2", partition))})
    found = back(origin, bad, good)
    assert [c.after for c in found.fields] == ["app:v1"]


@pytest.mark.parametrize("partition", ["lots", "0", "28"])
def test_a_partition_that_means_nothing_is_replaced(origin: Origin, partition: str) -> None:
    good = origin.commit({"web.yaml": documents(fleet("app:v1"))})
    bad = origin.commit({"web.yaml": documents(fleet("app:v2", partition))})
    assert [c.after for c in back(origin, bad, good).fields] == ["app:v1", 0]


def test_replicas_and_other_files_stay_as_they_are_now(origin: Origin) -> None:
    good = origin.commit({"web.yaml": documents({**fleet("app:v1")})})
    grown = fleet("app:v2")
    grown["spec"]["replicas"] = 60
    bad = origin.commit({"web.yaml": None, "moved/web.yaml": documents(grown)})
    found = back(origin, bad, good)
    assert found.file == "moved/web.yaml"
    assert yaml.safe_load(found.data)["spec"]["replicas"] == 60


def test_fields_that_were_not_there_are_taken_out_again(origin: Origin) -> None:
    good = origin.commit({"web.yaml": documents(fleet("app:v1"))})
    more = fleet("app:v2")
    more["spec"]["template"]["spec"]["hostNetwork"] = True
    bad = origin.commit({"web.yaml": NOTE + documents(more)})
    assert back(origin, bad, good).data.decode() == NOTE + documents(fleet("app:v1"))


def test_an_object_that_is_not_there_is_named(origin: Origin) -> None:
    empty = origin.commit({"README": "x"})
    with pytest.raises(UsageProblem, match="GK7020: CloneSet shop/web is not in git at"):
        back(origin, empty, empty)


@pytest.mark.slow
def test_a_plain_revert_strands_pods_and_the_computed_one_does_not(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            good = await stage.push(web())
            await stage.rest()
            await stage.push(web("app:v2", partition=2))
            await stage.rest()
            reverted = await stage.push(web("app:v1", partition=2))
            await stage.rest()
            assert stage.images() == ["app:v1"] * 2 + ["app:v2"] * 2
            assert stage.state == "Stuck"
            assert "AbandonedRevisionRunning" in stage.rollout.message
            found = compute_rollback(stage.repository, WEB, now=reverted, to=good)
            await stage.push(app=found.data.decode())
            await stage.rest()
            assert (stage.state, stage.images()) == ("Done", ["app:v1"] * 4)

    stage.play(script)


# versions and partitions in git, oldest first; the commit to go back to, by its place
CHOICES = {
    "the-one-before": ([("v1", 0), ("v2", 28)], 0),
    "its-last-commit": ([("v1", 10), ("v1", 0), ("v2", 28), ("v2", 20)], 1),
    "the-newest-of-several": ([("v1", 0), ("v2", 0), ("v3", 28)], 1),
    "not-another-canary": ([("v1", 0), ("v2", 28), ("v3", 30)], 0),
    "the-first-was-created-whole": ([("v1", 20), ("v2", 28), ("v3", 30)], 0),
    "begun-by-hand-and-not-done": ([("v1", 0), ("v2", 28), ("v1", 28)], 2),
    "back-and-done": ([("v1", 0), ("v2", 0), ("v1", 0)], 1),
    "only-one": ([("v1", 0), ("v1", 5)], None),
}


# the same with the places whose rollouts got stuck
PAST_FAILURES = {
    "not-another-failure": ([("v1", 0), ("v2", 0), ("v3", 0)], [1, 2], 0),
    "a-failure-that-a-later-commit-kept": ([("v1", 0), ("v2", 0), ("v2", 5), ("v3", 0)], [1], 0),
    "nothing-but-failures": ([("v1", 0), ("v2", 0), ("v3", 0)], [0, 1, 2], 1),
    "the-failure-is-now": ([("v1", 0), ("v2", 0)], [1], 0),
}


@pytest.mark.parametrize("name", PAST_FAILURES)
def test_no_template_that_got_stuck_is_gone_back_to(origin: Origin, name: str) -> None:
    versions, bad, place = PAST_FAILURES[name]
    ids = [origin.commit({"web.yaml": documents(fleet(v, p))}) for v, p in versions]
    failed = [*(ids[at] for at in bad), "0" * 40]  # one that git no longer has
    with Repository.open(str(origin.bare)) as repository:
        found = rollback_target(repository, ids[-1], WEB, "web.yaml", None, failed)
    assert found is not None
    assert found.until.id == ids[place]


@pytest.mark.parametrize("name", CHOICES)
def test_where_to_when_nobody_says(origin: Origin, name: str) -> None:
    versions, place = CHOICES[name]
    ids = [origin.commit({"web.yaml": documents(fleet(v, p))}) for v, p in versions]
    with Repository.open(str(origin.bare)) as repository:
        found = rollback_target(repository, ids[-1], WEB, "web.yaml")
    assert (found.until.id if found else None) == (None if place is None else ids[place])


MOVES: dict[str, tuple[dict[str, str], dict[str, str], str]] = {
    "a-folder": ({}, {}, "app:v1"),
    "with-a-new-image": ({}, {"image": "app:v2"}, "app:v1"),
    "a-copy-elsewhere": ({"us/web.yaml": "app:us"}, {}, "app:v1"),
}


@pytest.mark.parametrize("name", MOVES)
def test_the_way_back_leads_to_the_file_that_it_came_from(origin: Origin, name: str) -> None:
    """Another file with an object of that name is of another cluster, and says nothing of it."""
    others, changed, wanted = MOVES[name]
    more = {path: documents(fleet(image)) for path, image in others.items()}
    first = documents(fleet("app:v1"))
    origin.commit({"old/web.yaml": first, "README.md": "x", **more})
    run_git(origin.work, "rm", "-q", "old/web.yaml")
    image = changed.get("image", "app:v1")
    now = origin.commit({"new/web.yaml": documents(fleet(image, 28 if changed else None))})
    now = now if changed else origin.commit({"new/web.yaml": documents(fleet("app:v2", 28))})
    with Repository.open(str(origin.bare)) as repository:
        span = rollback_target(repository, now, WEB, "new/web.yaml")
        assert span is not None
        found = compute_rollback(
            repository, WEB, now=now, to=span.until.id, file="new/web.yaml",
            earlier=span.document.file,
        )  # fmt: skip
        there = file_at(repository, now, WEB, "new/web.yaml", None, to=span.until.id)
    assert there == ("old/web.yaml" if changed else "new/web.yaml")
    assert (found.file, documents(fleet(wanted, 0))) == ("new/web.yaml", found.data.decode())
