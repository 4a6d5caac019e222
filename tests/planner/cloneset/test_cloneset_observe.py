"""Snapshot of a round: revisions by control and selector, and names taken by others."""

from __future__ import annotations

from typing import Any, Final

from gitkruise.planner.cloneset.observe import observe_cloneset
from gitkruise.wire.primitives.names import ObjectKey
from tests.worlds import SPACE, Lab, cloneset

WEB: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
REVISIONS: Final = {"apiVersion": "apps/v1", "kind": "ControllerRevision"}


def names(lab: Lab) -> tuple[list[str], list[str]]:
    seen = observe_cloneset(lab.world, WEB, lab.now)
    assert seen is not None
    return [r.name for r in seen.revisions], sorted(seen.other_revisions)


def started() -> tuple[Lab, dict[str, Any]]:
    lab, web = Lab(), cloneset(replicas=2)
    lab.apply(web)
    lab.run(600)
    return lab, web


def revision(name: str, **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "labels": {"app": "web"}, **metadata}
    return {**REVISIONS, "metadata": meta, "revision": 9, "data": {"spec": {}}}


def test_a_deleted_cloneset_has_no_snapshot() -> None:
    assert observe_cloneset(Lab().world, WEB, Lab().now) is None


def test_ownerless_revisions_are_history_when_the_spec_is_new() -> None:
    lab, web = started()
    lab.apply(revision("web-orphan"))
    lab.patch(web, {"spec": {"replicas": 3}})
    ours, others = names(lab)
    assert "web-orphan" in ours
    assert others == []


def test_foreign_revisions_only_take_names() -> None:
    lab, web = started()
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "uid": "u",
             "controller": True}  # fmt: skip
    lab.apply(revision("web-foreign", ownerReferences=[owner]))
    lab.apply(revision("web-other-app", labels={"app": "other"}))
    lab.patch(web, {"spec": {"replicas": 3}})
    ours, others = names(lab)
    assert len(ours) == 1
    assert others == ["web-foreign", "web-other-app"]


def test_nobody_searches_the_namespace_while_nothing_is_missing() -> None:
    lab, _ = started()
    lab.apply(revision("web-orphan"))
    ours, others = names(lab)
    assert len(ours) == 1
    assert others == []


def test_a_pod_of_a_revision_without_owner_makes_it_seen() -> None:
    lab, _ = started()
    name = lab.pods()[0]["metadata"]["name"]
    lab.apply(revision("web-orphan"))
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}}
    lab.patch(pod, {"metadata": {"labels": {"controller-revision-hash": "web-orphan"}}})
    ours, _others = names(lab)
    assert "web-orphan" in ours
