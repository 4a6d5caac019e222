"""One commit through everything that the controller and a plan do with it, without a process."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from gitkruise.errors import Finding
from gitkruise.git.manifests.reader import _Reading
from gitkruise.git.parsing.documents import parse_file
from gitkruise.gitops.build.validate import check_documents, check_object
from gitkruise.gitops.cluster.engine import OWN, Engine
from gitkruise.gitops.preview.inputs import PlanSide
from gitkruise.gitops.preview.preview import offline_preview
from gitkruise.gitops.preview.render_json import plan_obj
from gitkruise.gitops.preview.render_markdown import plan_markdown
from gitkruise.gitops.preview.report import report_of
from gitkruise.gitops.status.observer import Observer, drift_records, object_records, unit_state
from gitkruise.gitops.status.serializer import commit_body, commit_subject, record_files
from gitkruise.kube.cache.list_watch import Feed, Init, InitApply, InitDone
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.document import DesiredSet, GitCommit
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.sync_round import PruneRules, SyncSnapshot
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import MANAGER, marked
from gitkruise.planner.sync.plan import find_drift, outdated, plan_sync
from gitkruise.printable import UNPRINTABLE, visible_lines
from gitkruise.wire.primitives.names import Obj
from tests.fuzz.api_calls import recorded
from tests.worlds import SPACE, START, cloneset, template

CATALOG: Final = load_catalog()
GATES: Final = Gates()
LABEL: Final = "0123456789ab"
COMMIT: Final = GitCommit(id="a" * 40, author="Dana", subject="change")
SHOP: Final = Path(__file__).parents[2] / "examples-repo"
NO_MARKS: Final[Mapping[str, str]] = MappingProxyType({})
CPU_MAX_S: Final = 2.0


class Documents(_Reading):
    """What is read of a commit's files, without a repository."""

    def __init__(self) -> None:
        self.documents, self.config, self.findings = [], [], []


@dataclass(frozen=True, slots=True)
class Taken:
    """What a commit came to: its objects and what is wrong with them."""

    objects: tuple[Any, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> list[Finding]:
        return [f for f in self.findings if f.is_error]


def text_of(objects: Sequence[Any]) -> bytes:
    """Documents as a file: JSON is YAML."""
    whole = "\n---\n".join(json.dumps(obj, ensure_ascii=False) for obj in objects)
    return whole.encode(errors="surrogatepass")


def taken(data: bytes) -> Taken:
    """A file read, checked and finished as for a commit."""
    parsed = parse_file(data, "app.yaml")
    reading = Documents()
    reading.take(parsed)
    objects, found = check_documents(reading.documents, CATALOG, namespace=SPACE, gates=GATES)
    return Taken(tuple(objects), (*reading.findings, *found))


def followed(
    before: Taken, after: Taken, *, forecast: bool, marks: Mapping[str, str] = NO_MARKS
) -> list[str]:
    """Plan, observe, report and record `after` where `before` is live; every text of it.

    `marks` are annotations that somebody put on the live objects.
    """
    if after.errors:
        return []
    store = live_store(before, marks)
    observer = Observer(store, Engine(OWN), timedelta(minutes=10))
    versions = {d.key: d.version for d in (*before.objects, *after.objects)}
    seen = observer.look(versions, START)
    objs = {key: found.obj for key, found in seen.live.items()}
    desired = DesiredSet(commit=COMMIT, objects=after.objects)
    texts: list[str] = []
    for live in ({}, seen.live):
        snapshot = SyncSnapshot(
            desired=desired, unit_label=LABEL, live=live, inventory=frozenset(live),
            inventory_complete=True, prune=PruneRules(), correct_drift=True,
        )  # fmt: skip
        plan = plan_sync(snapshot, find_drift(snapshot, CATALOG), CATALOG)
        for d in after.objects:
            outdated(d, snapshot)
            if d.key in live:
                found = check_object(d, CATALOG, GATES, old=objs[d.key])
                texts += [text for f in found for text in words(f)]
        records = object_records(desired, seen, plan.standing, "shop/web")
        state, message = unit_state(records, plan, None, plan.blocked)
        record = UnitRecord(
            unit="shop/web", cluster="test", source="main", state=state, message=message,
            since=START, objects=records, rollouts=seen.rollouts, causal=COMMIT,
            drift=drift_records(plan.drift), findings=plan.blocked,
        )  # fmt: skip
        files = record_files(record)
        texts += [message, commit_subject([record]), commit_body([record])]
        texts += [data.decode() for data in files.values()]
    if forecast:
        base, target = side(before), side(after)
        preview = offline_preview(base, target, CATALOG, GATES)
        report = report_of(preview, base, target, cluster="test")
        document = visible_lines(json.dumps(plan_obj(report), ensure_ascii=False))
        json.loads(document)
        texts += [plan_markdown(report), document]
    return texts


def side(of: Taken) -> PlanSide:
    return PlanSide(commit=COMMIT, objects=of.objects, findings=of.findings)


def live_store(of: Taken, marks: Mapping[str, str]) -> InformerCache:
    """What a cluster shows of objects that were applied."""
    store = InformerCache(applier=MANAGER)
    by_kind: dict[Any, list[Obj]] = {}
    for number, d in enumerate(of.objects):
        kind = CATALOG.by_kind(d.key.group, d.version, d.key.kind)
        if kind is None:
            continue
        obj = marked(d, unit="shop/web", label=LABEL, commit=COMMIT.id, path="app.yaml")
        meta = {
            **obj["metadata"], "annotations": {**obj["metadata"]["annotations"], **marks},
            "uid": f"uid-{number}", "resourceVersion": str(number + 1), "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
        }  # fmt: skip
        by_kind.setdefault(kind, []).append({**obj, "metadata": meta})
    for kind, objs in by_kind.items():
        feed = Feed(ref=kind.ref, kind=kind.kind)
        store.follow(feed)
        store.apply(feed, Init())
        for obj in objs:
            store.apply(feed, InitApply(obj))
        store.apply(feed, InitDone(version="1000"))
    return store


def words(finding: Finding) -> Iterator[str]:
    """Every text of a finding that a person may see."""
    yield from (finding.code, finding.message, finding.object)
    for label, text in finding.notes:
        yield from (label, text)
    for place in finding.places:
        yield from (place.file, place.label, *(text for _, text in place.snippet))


def complaints(
    data: bytes, before: Taken, *, forecast: bool, marks: Mapping[str, str] = NO_MARKS
) -> Iterator[str]:
    """Every promise that one commit breaks."""
    began = time.process_time()
    after = taken(data)
    texts = followed(before, after, forecast=forecast, marks=marks)
    spent = time.process_time() - began
    if spent > CPU_MAX_S:
        yield f"{spent:.1f} s CPU"
    for finding in after.findings:
        texts += words(finding)
        if not finding.code.startswith("GK") or not finding.places:
            yield f"without code or place: {finding}"
    for text in texts:
        if UNPRINTABLE.search(text.replace("\n", " ").replace("\t", " ")):
            yield f"control characters: {text!r}"


@cache
def seeds() -> tuple[Obj, ...]:
    """Sound objects of every kind that recorded conversations, the shop and this page have."""
    found = [draft.body for draft in recorded() if draft.method == "POST"]
    found = [obj for obj in found if isinstance(obj, dict) and isinstance(obj.get("kind"), str)]
    found += [doc.obj for path in SHOP.rglob("*.yaml") for doc in _documents(path)]
    found += _more()
    once = {json.dumps(obj, sort_keys=True): obj for obj in found}
    sound = []
    for obj in once.values():
        meta = obj.get("metadata")
        if isinstance(meta, dict) and not meta.get("generateName"):
            sound.append({**obj, "metadata": {"name": "web", **meta}})
    return tuple(sound)


def _documents(path: Path) -> Sequence[Any]:
    return [d for d in parse_file(path.read_bytes(), path.name).documents if "kind" in d.obj]


def _definition() -> Obj:
    """A CRD whose schema has every word that is compiled."""
    prop = {
        "type": "object", "required": ["size"],
        "properties": {
            "size": {"type": "integer", "minimum": 1, "maximum": 9, "format": "int32"},
            "name": {"type": "string", "maxLength": 10, "minLength": 1, "pattern": "^[a-z]*$"},
            "mode": {"type": "string", "enum": ["a", "b"], "default": "a", "nullable": True},
            "list": {"type": "array", "items": {"type": "object", "properties": {
                "k": {"type": "string"}}}, "maxItems": 5, "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"]},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "either": {"anyOf": [{"type": "integer"}, {"type": "string"}],
                       "x-kubernetes-int-or-string": True},
            "one": {"type": "object", "oneOf": [{"required": ["a"]}, {"not": {"required": ["b"]}}],
                    "properties": {"a": {"type": "string"}, "b": {"type": "string"}}},
        },
        "x-kubernetes-validations": [{"rule": "self.size > 0", "message": "small"}],
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
                 "names": {"plural": "widgets", "kind": "Widget", "singular": "widget",
                           "listKind": "WidgetList", "shortNames": ["wd"], "categories": ["all"]},
                 "versions": [{"name": "v1", "served": True, "storage": True,
                               "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                                   "spec": prop, "status": {"type": "object"}}}},
                               "subresources": {"status": {}, "scale": {
                                   "specReplicasPath": ".spec.size",
                                   "statusReplicasPath": ".status.size"}},
                               "additionalPrinterColumns": [
                                   {"name": "Size", "type": "integer",
                                    "jsonPath": ".spec.size"}]}]},
    }  # fmt: skip


def _more() -> list[Obj]:
    """What gitkruise reads more of than a schema does: annotations, CRDs and their objects."""
    marks = {
        "gitkruise.io/wave": "1", "gitkruise.io/apply": "Merge", "gitkruise.io/prune": "Disabled",
        "gitkruise.io/depends-on": "/namespaces/shop/ConfigMap/a",
        "gitkruise.io/hold": "2026-11-21T20:00:00Z why", "gitkruise.io/health": "Ignore",
    }  # fmt: skip
    job = {
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "hook", "annotations": {"gitkruise.io/hook": "PreSync"}},
        "spec": {"template": template(restartPolicy="Never")},
    }  # fmt: skip
    return [
        _definition(),
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "a"},
         "spec": {"size": 1, "name": "x", "list": [{"k": "a"}], "either": "x", "map": {"a": "b"}}},
        {"apiVersion": "unknown.io/v1", "kind": "Thing",
         "metadata": {"name": "a", "namespace": SPACE, "labels": {"a": "b"}, "annotations": marks},
         "spec": {"a": 1}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"apiVersion": "v1", "kind": "ConfigMap",
         "metadata": {"name": "a", "labels": {"a": "b"}, "annotations": marks},
         "data": {"a": "b"}, "binaryData": {"c": "aGk="}, "immutable": False},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"},
         "stringData": {"pin": "x"}, "data": {"a": "aGk="}, "type": "Opaque"},
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"},
         "spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}}]}},
        {"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "i"}, "data": {}}]},
        {"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
         "metadata": {"name": "h"}, "spec": {
             "maxReplicas": 3, "minReplicas": 1, "scaleTargetRef": {
                 "apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web"}}},
        {"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": {"name": "k"},
         "spec": {"scaleTargetRef": {"kind": "CloneSet", "name": "web"}, "minReplicaCount": 1}},
        job, cloneset("web", 4), cloneset("web", 4, "app:v2", partition="50%"),
        cloneset("web", 2, podUpdatePolicy="InPlaceIfPossible"),
    ]  # fmt: skip
