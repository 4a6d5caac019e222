"""A plan tells the worst first, folds what is the same, and shows no secret in any form."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitkruise.cli.console.style import Style
from gitkruise.cli.views.plan import plan_lines
from gitkruise.gitops.preview.render_html import plan_html
from gitkruise.gitops.preview.render_json import plan_obj
from gitkruise.gitops.preview.render_markdown import plan_markdown
from gitkruise.model.gitops.report import PlanReport, PodEffects
from gitkruise.model.planning.forecast import DELETE, ForecastStep, PodMove, Sidecars
from gitkruise.wire.primitives.names import Obj, ObjectKey
from tests.gitops.plans import prediction, report
from tests.planner.sync.build import thing

PLAIN = Style(colour=False, unicode=True, width=200)
FORMS = {
    "text": lambda r: "\n".join(plan_lines(r, PLAIN)),
    "json": lambda r: json.dumps(plan_obj(r)),
    "markdown": plan_markdown,
    "html": plan_html,
}


def labelled(number: int, tier: str, **more: Any) -> Obj:
    made = thing(f"c{number:03}", data={"a": "1"}, **more)
    return {**made, "metadata": {**made["metadata"], "labels": {"tier": tier}}}


def deployment(image: str = "app:v1", *, replicas: int = 3, **spec: Any) -> Obj:
    pod = {"containers": [{"name": "app", "image": image}]}
    body = {"replicas": replicas, "template": {"spec": pod}, **spec}
    return thing("web", "Deployment", spec=body)


# Folding ----------------------------------------------------------------------------------------


def test_one_change_of_four_hundred_objects_is_one_line() -> None:
    before = [labelled(n, "old") for n in range(400)]
    after = [labelled(n, "new") for n in range(400)]
    after[7] = {**after[7], "data": {"a": "2"}}
    made = report(before, after)
    folded, alone = made.entries
    assert (len(folded.keys), len(alone.keys)) == (399, 1)
    assert made.totals.changed == 400
    text = FORMS["text"](made)
    assert text.count("tier") == 2
    assert "ConfigMap × 399: shop/c000, shop/c001, shop/c002 and 396 more" in text


def test_json_names_every_object_of_a_fold() -> None:
    made = report([labelled(n, "old") for n in range(9)], [labelled(n, "new") for n in range(9)])
    changes = plan_obj(made)["changes"]
    assert {c["name"] for c in changes} == {f"c{n:03}" for n in range(9)}
    assert {c["fold"] for c in changes} == {0}


@pytest.mark.parametrize("number", [1, 2])
def test_a_change_or_two_are_shown_each(number: int) -> None:
    old, new = ([labelled(n, tier) for n in range(number)] for tier in ("old", "new"))
    assert len(report(old, new).entries) == number


# Worst first ------------------------------------------------------------------------------------


def test_deletions_come_first_then_what_replaces_pods_then_the_rest() -> None:
    before = [labelled(1, "old"), thing("z"), deployment()]
    after = [labelled(1, "new"), thing("new"), deployment("app:v2")]
    assert [e.keys[0].name for e in report(before, after).entries] == ["z", "web", "c001", "new"]


def stateful(image: str = "app:v1", *, partition: int = 0, **status: str) -> Obj:
    """A StatefulSet of three pods on web-a, unless `status` says otherwise."""
    rolling = {"rollingUpdate": {"partition": partition}}
    obj = {**deployment(image, updateStrategy=rolling), "kind": "StatefulSet"}
    return {**obj, "status": {"currentRevision": "web-a", "updateRevision": "web-a", **status}}


def on_nodes(kind: str) -> Obj:
    return {**thing("a", kind), "apiVersion": "apps.kruise.io/v1alpha1"}


BLASTS: list[tuple[str, list[Obj], list[Obj], list[str]]] = [
    ("nothing", [], [thing("a")], ["no pod restarts and nothing is deleted"]),
    ("deleted", [thing("a"), thing("b")], [],
     ["2 objects DELETED (ConfigMap shop/a, ConfigMap shop/b)"]),
    ("workload gone", [deployment()], [],
     ["1 object DELETED (Deployment shop/web)", "3 pods gone with their workload"]),
    ("rolled", [deployment()], [deployment("app:v2")], ["3 pods REPLACED"]),
    ("rolled and grown", [deployment()], [deployment("app:v2", replicas=5)], ["3 pods REPLACED"]),
    ("rolled and shrunk", [deployment()], [deployment("app:v2", replicas=1)],
     ["1 pod REPLACED", "2 pods scaled away"]),
    ("paused", [deployment()], [deployment("app:v2", paused=True)],
     ["no pod restarts and nothing is deleted"]),
    ("sized by others", [deployment()],
     [thing("web", "Deployment", spec={"template": {"spec": {}}})],
     ["1 pod REPLACED", "2 pods scaled away"]),
    ("partition", [stateful()], [stateful("app:v2", partition=2)], ["1 pod REPLACED"]),
    ("lower partition", [stateful(partition=2, updateRevision="web-b")], [stateful(partition=0)],
     ["2 pods REPLACED"]),
    ("lower partition at rest", [stateful(partition=2)], [stateful(partition=0)],
     ["no pod restarts and nothing is deleted"]),
    *((f"{kind} {what}", before, after, [effect])
      for kind in ("ImageListPullJob", "NodeImage")
      for what, before, after, effect in (
          ("added", [], [on_nodes(kind)], "no pod restarts and nothing is deleted"),
          ("gone", [on_nodes(kind)], [], f"1 object DELETED ({kind} shop/a)"))),
    ("request added", [], [on_nodes("ContainerRecreateRequest")],
     ["effect of 1 object on pods unknown (ContainerRecreateRequest shop/a)"]),
    ("request gone", [on_nodes("ContainerRecreateRequest")], [],
     ["1 object DELETED (ContainerRecreateRequest shop/a)"]),
    ("protected", [thing("a", notes={"gitkruise.io/prune": "Disabled"})], [],
     ["1 object kept though gone from git (ConfigMap shop/a)",
      "no pod restarts and nothing is deleted"]),
]  # fmt: skip


@pytest.mark.parametrize("row", BLASTS, ids=[row[0] for row in BLASTS])
def test_blast_radius(row: tuple[str, list[Obj], list[Obj], list[str]]) -> None:
    _, before, after, blast = row
    made = report(before, after)
    assert [span.text for span in made.blast] == blast
    for form in FORMS.values():
        assert blast[0].split(" (")[0] in form(made)


def test_what_holds_data_waits_for_approval() -> None:
    there: Obj = thing("shop", "Namespace")
    live = {**there, "metadata": {**there["metadata"], "uid": "1"}}
    asks = "waits for approval: deleting it would delete what it holds"
    unseen = "stays while it holds objects that its unit did not create: only the cluster knows"
    notes = [report([obj], []).entries[0].notes for obj in (there, live)]
    assert notes == [(asks, unseen), (asks,)]


# Secrets ----------------------------------------------------------------------------------------

CANARY = "canary-4711"


def env(name: str, value: str) -> Obj:
    pod = {"containers": [{"name": "app", "env": [{"name": name, "value": value}]}]}
    return deployment(template={"spec": pod})


HIDDEN: list[tuple[str, list[Obj], list[Obj]]] = [
    ("Secret changed", [thing("s", "Secret", data={"p": CANARY})],
     [thing("s", "Secret", data={"p": CANARY + "2"})]),
    ("Secret filled", [thing("s", "Secret")], [thing("s", "Secret", data={"p": CANARY})]),
    ("Secret emptied", [thing("s", "Secret", data={"p": CANARY})], [thing("s", "Secret")]),
    ("Secret annotated", [thing("s", "Secret")], [thing("s", "Secret", notes={"last": CANARY})]),
    ("env by its name", [env("DB_PASSWORD", "x")], [env("DB_PASSWORD", CANARY)]),
    ("env added whole", [deployment()], [env("API_TOKEN", CANARY)]),
    ("env taken out", [env("API_TOKEN", CANARY)], [deployment()]),
    ("data by its name", [thing(data={"api-key": "x"})], [thing(data={"api-key": CANARY})]),
    ("data by its looks", [thing(data={"url": "x"})],
     [thing(data={"url": f"postgres://me:{CANARY}@db/x"})]),
    ("argument", [thing(data={"args": "x"})],
     [thing(data={"args": f"run --db-password={CANARY}"})]),
    ("private key", [thing(data={"pem": "x"})],
     [thing(data={"pem": f"-----BEGIN RSA PRIVATE KEY-----\n{CANARY}\n"})]),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("row", HIDDEN, ids=[row[0] for row in HIDDEN])
def test_no_form_shows_a_secret(form: str, row: tuple[str, list[Obj], list[Obj]]) -> None:
    text = FORMS[form](report(row[1], row[2]))
    assert CANARY not in text
    assert re.search("•••|u2022|redacted", text)


SHOWN: list[tuple[str, Any, Any]] = [
    ("secretName", {"secretName": "web-tls"}, {"secretName": "web-tls-2"}),
    ("imagePullPolicy", {"tokenPolicy": "a"}, {"tokenPolicy": "b"}),
]


@pytest.mark.parametrize("row", SHOWN, ids=[row[0] for row in SHOWN])
def test_references_to_secrets_are_no_secrets(row: tuple[str, Any, Any]) -> None:
    made = report([thing(data=row[1])], [thing(data=row[2])])
    assert next(iter(row[2].values())) in FORMS["text"](made)


def prints(before: str, after: str, key: bytes = b"0123456789abcdef") -> str:
    secrets = [[thing("s", "Secret", data={"p": value})] for value in (before, after)]
    return report(secrets[0], secrets[1], key=key).entries[0].rows[0].words


def test_fingerprints_distinguish_rotated_from_restored() -> None:
    there, back = prints("one", "two"), prints("two", "one")
    first, second = re.findall("[0-9a-f]{4}", there)
    assert back == f"••• changed ({second} → {first})"
    assert prints("one", "two", key=b"another key of many bytes") != there


def test_a_fingerprint_without_a_key_is_refused() -> None:
    with pytest.raises(ValueError, match="key"):
        prints("one", "two", key=b"")


# Texts ------------------------------------------------------------------------------------------


def test_texts_of_many_lines_are_compared_line_by_line() -> None:
    lines = [f"line {n}" for n in range(30)]
    before = thing(data={"conf": "\n".join(lines)})
    after = thing(data={"conf": "\n".join([*lines[:11], "another", *lines[12:]])})
    made = report([before], [after])
    assert made.entries[0].rows[0].words == "1 line out, 1 in"
    for form in ("markdown", "html"):
        text = FORMS[form](made)
        assert "-  line 11" in text
        assert "+  another" in text
        assert "line 20" not in text


def hostile() -> PlanReport:
    nasty = "</code><script>alert(1)</script> @everyone #12 `` ` ```\n```\x1b[2J | [x](http://y)"
    before, after = thing(data={nasty: "1"}), thing(data={nasty: nasty, "more": nasty})
    return report([before], [after], subject=nasty)


def test_html_runs_nothing_and_loads_nothing() -> None:
    page = plan_html(hostile())
    assert "<script" not in page
    assert "\x1b" not in page
    assert not re.search(r"""(?:src|href)=["'](?!#)""", page)
    assert "prefers-color-scheme: dark" in page


def test_terminals_are_steered_by_nobody() -> None:
    assert "\x1b" not in FORMS["text"](hostile())


CLONES = ObjectKey("apps.kruise.io", "CloneSet", "shop", "web")


def clones(image: str) -> Obj:
    spec = {"template": {"spec": {"containers": [{"name": "app", "image": image}]}}}
    return {**thing("web", "CloneSet", spec=spec), "apiVersion": "apps.kruise.io/v1beta1"}


def renamed(obj: Obj, name: str) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "name": name}}


def test_a_rejected_change_has_no_effect() -> None:
    wrong = {CLONES: "GK2104"}
    (entry,) = report([clones("a:v1")], [clones("a:v2")], rejected=wrong).entries
    assert entry.rows
    assert "none: the change is rejected (GK2104)" in str(entry.effect)


def test_a_new_revision_that_no_pod_gets_says_why() -> None:
    waits = replace(
        prediction(CLONES, pods=0), hold="NoProgress", message="waits for x to be removed"
    )
    text = FORMS["text"](report([clones("a:v1")], [clones("a:v2")], [waits]))
    assert "no pod is updated" in text
    assert "stuck  waits for x to be removed" in text


def test_a_new_object_whose_pods_are_refused_says_why() -> None:
    refused = replace(
        prediction(CLONES, pods=0), previous="", hold="Stuck", message="could not create pod web-1"
    )
    made = report([], [clones("a:v1")], [refused])
    text = FORMS["text"](made)
    assert "no pod created on web-new" in text
    assert "stuck  could not create pod web-1" in text
    assert made.totals.pods == PodEffects()


@pytest.mark.parametrize("form", ["text", "markdown", "html"])
def test_a_fold_shows_the_stuck_rollout_first_with_its_namespace(form: str) -> None:
    names = [f"c{number:03}" for number in range(30)]
    before, after = ([renamed(clones(image), n) for n in names] for image in ("a:v1", "a:v2"))
    rollouts = [
        prediction(ObjectKey("apps.kruise.io", "CloneSet", "shop", name), pods=10) for name in names
    ]
    rollouts[-1] = replace(rollouts[-1], hold="Stuck", message="no node fits")
    text = FORMS[form](report(before, after, rollouts))
    effects = [line for line in text.splitlines() if "IN PLACE" in line]
    assert "shop/c029" in effects[0]
    assert "then ✗ stuck  no node fits" in effects[0]


def test_pods_that_are_recreated_do_not_hide_those_updated_in_place() -> None:
    both = prediction(CLONES)
    again = tuple(replace(move, how="recreate") for move in both.steps[0].moves)
    mixed = replace(both, steps=(replace(both.steps[0], moves=again), both.steps[1]))
    text = FORMS["text"](report([clones("a:v1")], [clones("a:v2")], [mixed]))
    assert "2 of 10 pods RECREATED" in text
    assert "2 of 10 pods updated IN PLACE" in text


def test_pods_that_stay_are_counted_by_revision() -> None:
    left = replace(prediction(CLONES), staying=(("web-a", 4), ("web-b", 2)))
    text = FORMS["text"](report([clones("a:v1")], [clones("a:v2")], [left]))
    assert "4 stay on web-a, 2 on web-b   (partition" in text


def test_a_partition_that_git_does_not_name_is_the_one_that_holds() -> None:
    """A person patched it, and an apply leaves it as it is."""
    left = replace(prediction(CLONES), staying=(("web-a", 3),), partition=3, replicas=10)
    text = FORMS["text"](report([clones("a:v1")], [clones("a:v2")], [left]))
    assert "3 stay on web-a   (partition 3 keeps 3 of 10)" in text


def test_pods_that_are_still_to_be_created_do_not_stay_up() -> None:
    grown = replace(prediction(CLONES), replicas=10)
    states = [
        {**clones(image), "spec": {**clones(image)["spec"], "replicas": replicas}}
        for replicas, image in ((6, "a:v1"), (10, "a:v2"))
    ]
    text = FORMS["text"](report(states[:1], states[1:], [grown]))
    assert "maxUnavailable 2, maxSurge 0; 6 of 10 pods stay up" in text


def test_claims_that_go_with_their_pods_are_named() -> None:
    moves = tuple(PodMove(pod=f"web-{n}", how=DELETE) for n in range(2))
    step = ForecastStep(moves=moves, starts=timedelta(0), lasts=timedelta(0))
    fewer = replace(prediction(CLONES, pods=0), steps=(step,), previous="web-new", replicas=8)

    def text(**spec: Any) -> str:
        states = [
            {**clones("a:v1"), "spec": {**clones("a:v1")["spec"], "replicas": n, **spec}}
            for n in (10, 8)
        ]
        return FORMS["text"](report(states[:1], states[1:], [fewer]))

    line = "the volume claims of 2 pods are deleted; only retained volumes keep data"
    claims = {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}
    assert line in text(**claims)
    assert line not in text()
    fewer = replace(prediction(CLONES, "recreate", pods=2), previous="web-new", replicas=8)
    assert line in text(**claims)
    assert line not in text(**claims, scaleStrategy={"enablePVCReuse": True})


def test_a_sidecarset_that_matches_nothing_says_so() -> None:
    key = ObjectKey("apps.kruise.io", "SidecarSet", "", "web")
    sidecars = Sidecars(barred=(), left_out=0, born=(("mesh", "mesh:v1"),), born_with="mesh-new")
    none = replace(
        prediction(key, pods=0),
        replicas=0,
        updated_before=5,
        partition=0,
        hold="",
        sidecars=sidecars,
    )
    objects = [
        {"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet", "metadata": {"name": "web"},
         "spec": {"selector": {"matchLabels": {"app": name}}}}
        for name in ("web", "none")
    ]  # fmt: skip
    text = FORMS["text"](report(objects[:1], objects[1:], [none]))
    assert "no running pod changes; no pod matches\n" in text


def test_a_deleted_sidecarset_stays_in_the_pods_that_run() -> None:
    obj = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "SidecarSet",
           "metadata": {"name": "web"},
           "spec": {"selector": {"matchLabels": {"app": "web"}}}}  # fmt: skip
    text = FORMS["text"](report([obj], []))
    assert "pods that run keep its containers until they are created again" in text


def test_a_sidecarset_adds_no_pods_of_its_own() -> None:
    matched = Sidecars(barred=(), left_out=0, born=(("mesh", "mesh:v1"),), born_with="mesh-new")
    keys = {
        kind: ObjectKey("apps.kruise.io", kind, "", "web") for kind in ("CloneSet", "SidecarSet")
    }
    created = [
        {"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "metadata": {"name": "web"},
         "spec": {"replicas": 8} if kind == "CloneSet" else {}}
        for kind in keys
    ]  # fmt: skip
    born = [replace(prediction(key), previous="", steps=(), hold="") for key in keys.values()]
    rollouts = [replace(born[0], replicas=8), replace(born[1], replicas=5, sidecars=matched)]
    assert report([], created, rollouts).totals.pods == PodEffects(added=8)


HOLDERS = {
    "a partition": (
        {"rollingUpdate": {"partition": 3}},
        "to see the pods that its partition holds",
    ),
    "a pause": ({"rollingUpdate": {"paused": True}}, "to see the pods that its pause holds"),
    "OnDelete": ({"type": "OnDelete"}, "to see the pods that OnDelete leaves"),
    "nothing": ({}, ""),
}


@pytest.mark.parametrize(("strategy", "hint"), HOLDERS.values(), ids=HOLDERS)
def test_an_offline_plan_says_what_may_hold_pods_of_its_base(strategy: Obj, hint: str) -> None:
    before = {**clones("a:v1"), "spec": {**clones("a:v1")["spec"], "updateStrategy": strategy}}
    text = FORMS["text"](report([before], [clones("a:v1")], [prediction(CLONES, pods=0)]))
    note = "offline, the base counts as complete"
    assert (note in text) is bool(hint)
    assert hint in " ".join(text.split())
