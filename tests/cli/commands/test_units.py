"""suspend, resume, reconcile of Units: what they write and say, and when they write nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import APPLY_PATCH, MERGE_PATCH, ApiRequest, ResourceRef
from tests.cli.calls import Caller, Ended
from tests.cli.live import send

pytestmark = pytest.mark.slow
SPACE = "hall"
CONFIG = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src, namespace: hall}
spec: {url: .}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: filed, namespace: hall}
spec: {sourceRef: {name: src}, path: web}
"""


class Hall:
    """Units in a namespace of the cluster, which no controller follows."""

    def __init__(self, gk: Caller, kubeconfig: Path) -> None:
        self._gk, self._kubeconfig = gk, kubeconfig

    def ask(self, verb: str, name: str, body: Any = None, **more: Any) -> Obj:
        resource = ResourceRef("gitkruise.io", "v1alpha1", "units")
        request = ApiRequest(
            verb=verb, resource=resource, namespace=SPACE, name=name, body=body, **more
        )
        (found,) = send(self._kubeconfig, request)
        return found  # type: ignore[no-any-return]

    def unit(self, name: str, *, manager: str = "kubectl", notes: Any = None, **spec: Any) -> None:
        body = {
            "apiVersion": "gitkruise.io/v1alpha1", "kind": "Unit",
            "metadata": {"name": name, "namespace": SPACE, "annotations": notes or {}},
            "spec": {"sourceRef": {"name": "src"}, **spec},
        }  # fmt: skip
        params = {"fieldManager": manager, "force": "true"}
        self.ask("patch", name, body, content_type=APPLY_PATCH, params=params)

    def status(self, name: str, **status: Any) -> None:
        body = {"status": status}
        self.ask("patch", name, body, content_type=MERGE_PATCH, subresource="status")

    def suspend_of(self, name: str) -> Any:
        return self.ask("get", name)["spec"].get("suspend")

    def __call__(self, *words: str) -> Ended:
        return self._gk(*words, "-n", SPACE, "--kubeconfig", str(self._kubeconfig), COLUMNS="80")


@pytest.fixture
def hall(gk: Caller, cluster: Path) -> Iterator[Hall]:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    namespaces = ResourceRef("", "v1", "namespaces")
    params = {"fieldManager": "test"}
    request = ApiRequest(
        verb="patch", resource=namespaces, name=SPACE, body=space, content_type=APPLY_PATCH,
        params=params,
    )  # fmt: skip
    send(cluster, request)
    yield Hall(gk, cluster)
    units = ResourceRef("gitkruise.io", "v1alpha1", "units")
    send(cluster, ApiRequest(verb="deletecollection", resource=units, namespace=SPACE))


def test_a_unit_is_suspended_and_resumed(hall: Hall) -> None:
    hall.unit("web")
    hall.status("web", inventory={"count": 3})
    done = hall("suspend", "unit/web", "--reason", "fire", "--until", "2h")
    assert done.code == 0, done.err
    suspended = hall.suspend_of("web")
    assert (suspended["by"], suspended["reason"]) == ("system:admin", "fire")
    assert suspended["until"].endswith("Z")
    assert done.out.startswith(
        f"suspended  unit/web -n hall by system:admin until {suspended['until']} (fire)\n"
        "stops      applying commits, pruning, correcting drift, promotions\n"
        "stays      its 3 objects; rollouts in the cluster continue, drift is reported\n"
        "next       gitkruise resume unit/web -n hall --kubeconfig "
    )
    again = hall("suspend", "unit/web")
    details = f"by system:admin until {suspended['until']} (fire)"
    line = f"unit/web -n hall is suspended already {details}: nothing to do"
    assert (again.code, " ".join(again.out.split())) == (0, line)
    assert hall.suspend_of("web") == suspended
    assert hall("suspend", "unit/web", "--reason", "flood", "-o", "json").obj == {
        "apiVersion": "gitkruise.io/v1alpha1", "kind": "SuspendResult", "unit": "hall/web",
        "suspended": True, "changed": True, "by": "system:admin", "reason": "flood",
        "until": suspended["until"],
    }  # fmt: skip
    resumed = hall("resume", "unit/web")
    assert (resumed.code, hall.suspend_of("web")) == (0, None)
    assert resumed.out.startswith("resumed    unit/web -n hall\nallows     applying commits")
    again = hall("resume", "unit/web", "-o", "json")
    assert (again.code, again.obj["suspended"], again.obj["changed"]) == (0, False, False)
    managers = hall.ask("get", "web")["metadata"]["managedFields"]
    assert "gitkruise-cli" not in {m["manager"] for m in managers if "f:spec" in m["fieldsV1"]}


REFUSED = [
    ("suspend cloneset/web", "GK7014", "next: gitkruise suspend unit/NAME"),
    ("suspend web", "GK7014", '"web": not unit/NAME'),
    ("suspend gitsource/src", "GK7014", '"gitsource/src": not unit/NAME'),
    ("reconcile sink/out", "GK7014", "unit/NAME or gitsource/NAME"),
    ("resume unit/web --wait", "GK7010", "--wait applies to rollouts"),
    ("resume unit/web --config x.yaml", "GK7010", "--config applies to rollouts"),
    ("suspend unit/web --until yesterday", "GK7064", "is neither a time nor a duration"),
    ("suspend unit/web --until 2020-01-01T00:00:00Z", "GK7064", "is in the past"),
    ("suspend unit/web --until 2999-01-01T00:00:00", "GK7064", "has no time zone"),
]


@pytest.mark.parametrize("row", REFUSED, ids=[row[0] for row in REFUSED])
def test_wrong_usage_changes_nothing(hall: Hall, row: tuple[str, str, str]) -> None:
    words, code, text = row
    hall.unit("web")
    done = hall(*words.split())
    assert (done.code, code in done.err, done.out) == (2, True, ""), done.err
    assert text in " ".join(done.err.split())
    assert hall.suspend_of("web") is None


@pytest.mark.parametrize("verb", ["suspend", "resume", "reconcile"])
def test_a_unit_that_is_no_object_of_the_cluster(hall: Hall, gk: Caller, verb: str) -> None:
    missing = hall(verb, "unit/filed")
    assert (missing.code, "GK4010" in missing.err) == (5, True)
    assert 'unit "filed" not found in namespace hall' in missing.err
    (gk.folder / "gitkruise.yaml").write_text(CONFIG)
    declared = hall(verb, "unit/filed")
    assert (declared.code, "GK7063" in declared.err) == (2, True)
    advice = {"suspend": "set spec.suspend: true on Unit filed", "reconcile": "gitkruise sync"}
    assert advice.get(verb, "remove spec.suspend from Unit filed") in declared.err


@pytest.mark.parametrize("verb", ["suspend", "resume"])
def test_an_object_that_a_file_overrides_is_not_written(hall: Hall, verb: str) -> None:
    asked = verb == "resume"
    hall.unit("web", suspend=asked)
    ready = {"type": "Ready", "status": "False", "reason": "InvalidSpec",
             "message": "GK7008: Unit hall/web is declared twice",
             "lastTransitionTime": "2026-11-21T10:00:00Z"}  # fmt: skip
    hall.status("web", conditions=[ready])
    done = hall(verb, "unit/web")
    assert (done.code, "GK7063" in done.err, hall.suspend_of("web")) == (2, True, asked)


# (spec.suspend in git, the owner's spec, what is said), for `suspend`; "" for no word about git.
OWNERS: list[tuple[Any, Any, str]] = [
    (None, {}, ""),
    (False, {}, "GK7065]: unit hall/fleet applies spec.suspend from fleet/web.yaml; its next"),
    (False, {"drift": {"mode": "detect"}}, "unit hall/fleet sets spec.suspend back when it"),
    (False, {"suspend": True}, "back once that unit is resumed"),
    (False, {"drift": {"ignore": [{"paths": ["/spec/suspend"]}]}}, "back unless its drift.ignore"),
    (False, None, "back unless its drift.mode is detect or off"),
]  # fmt: skip


@pytest.mark.parametrize("row", OWNERS, ids=[str(row[:2]) for row in OWNERS])
def test_what_git_says_about_a_unit_counts(hall: Hall, row: tuple[Any, Any, str]) -> None:
    stated, owner, message = row
    notes = {"gitkruise.io/unit-ref": "hall/fleet", "gitkruise.io/path": "fleet/web.yaml"}
    spec = {} if stated is None else {"suspend": stated}
    hall.unit("web", manager="gitkruise", notes=notes, **spec)
    if owner is not None:
        hall.unit("fleet", **owner)
    done = hall("suspend", "unit/web")
    refused = "GK7065" in message
    assert (done.code, hall.suspend_of("web") == stated) == ((2, True) if refused else (0, False))
    text = " ".join(done.err.split())
    assert message in text
    assert ("set spec.suspend: true" in text) is bool(message)


def test_a_field_that_flux_applies_is_warned_about(hall: Hall) -> None:
    hall.unit("web", manager="kustomize-controller", suspend=True)
    done = hall("resume", "unit/web")
    assert (done.code, hall.suspend_of("web")) == (0, None)
    assert "warning: kustomize-controller sets spec.suspend back if it applies" in done.err


def test_a_unit_that_contains_itself_stays_suspended(hall: Hall) -> None:
    notes = {"gitkruise.io/unit-ref": "hall/web"}
    hall.unit("web", manager="gitkruise", notes=notes, suspend=False)
    assert (hall("suspend", "unit/web").code, hall.suspend_of("web")["by"]) == (0, "system:admin")


def test_a_reconcile_without_a_controller_times_out(hall: Hall) -> None:
    hall.unit("web")
    done = hall("reconcile", "unit/web", "--timeout", "1ms")
    assert (done.code, done.out) == (6, "")
    assert "GK7019]: unit hall/web: no controller confirmed the round after 1ms" in done.err
    assert "seen: it has no status" in done.err


def test_a_suspended_unit_is_not_reconciled(hall: Hall) -> None:
    hall.unit("web", suspend={"by": "dana", "reason": "fire"})
    done = hall("reconcile", "unit/web")
    assert done.code == 1
    assert done.out.startswith("unit/web -n hall is suspended by dana (fire): it is not reconciled")
    assert "annotations" not in hall.ask("get", "web")["metadata"]
    found = hall("reconcile", "unit/web", "-o", "json")
    assert (found.code, found.obj["confirmed"]) == (1, False)
