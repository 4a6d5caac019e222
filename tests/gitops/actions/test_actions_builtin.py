"""Actions on StatefulSets and DaemonSets: a partition is a number, and no field pauses them."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from gitkruise.errors import NothingToDo, UsageProblem
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.actions import ActionArgs, ActionVerb, FileEdit, compute
from gitkruise.gitops.actions.target import ObjectQuery, find_target, read_branch
from gitkruise.gitops.preview.inputs import whole_repository
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Config
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET, DAEMONSET, STATEFULSET
from gitkruise.wire.primitives.names import GroupKind
from tests.git.repos import Origin, make_origin
from tests.gitops.stage import documents
from tests.worlds import deployment

RULES = (load_catalog(), Gates())


@pytest.fixture
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    return make_origin(tmp_path_factory.mktemp("git"))


def stateful(image: str = "app:v1", partition: int | None = None) -> str:
    obj: Any = {**deployment(replicas=10, image=image), "kind": "StatefulSet"}
    obj["spec"]["serviceName"] = "web"
    if partition is not None:
        obj["spec"]["updateStrategy"] = {"rollingUpdate": {"partition": partition}}
    return documents(obj)


def advanced(image: str = "app:v1", **rolling: Any) -> str:
    """An Advanced StatefulSet of ten pods."""
    obj: Any = {**deployment(replicas=10, image=image), "kind": "StatefulSet"}
    obj["apiVersion"] = "apps.kruise.io/v1beta1"
    obj["spec"]["updateStrategy"] = {"rollingUpdate": rolling}
    return documents(obj)


def daemon(image: str = "app:v1") -> str:
    obj: Any = {**deployment(image=image), "kind": "DaemonSet"}
    del obj["spec"]["replicas"]
    return documents(obj)


def computed(origin: Origin, kind: GroupKind, verb: ActionVerb, **args: Any) -> FileEdit:
    with Repository.open(str(origin.bare)) as repository:
        tip = repository.resolve("main")
        state = read_branch(repository, "main", tip, whole_repository(), *RULES)
        _, target = find_target([state], ObjectQuery(kind=kind, name="web"))
        return compute(verb, repository, target, ActionArgs(**args))


def partition(edit: FileEdit) -> Any:
    return yaml.safe_load(edit.data)["spec"]["updateStrategy"]["rollingUpdate"]["partition"]


@pytest.mark.parametrize(
    ("verb", "args", "value", "words"),
    [
        (ActionVerb.PROMOTE, {"updated": "50%"}, 5, "promote to partition 5"),
        (ActionVerb.PROMOTE, {"partition": "25%"}, 3, "promote to partition 3"),
        (ActionVerb.PROMOTE, {"updated": "6"}, 4, "promote to partition 4"),
        (ActionVerb.PROMOTE, {}, 0, "promote to all"),
        (ActionVerb.HOLD, {"keep": 9}, 9, "hold at partition 9"),
        (ActionVerb.HOLD, {"updated": "10%"}, 9, "hold at partition 9"),
    ],
)
def test_the_partition_of_a_stateful_set_is_a_number(
    origin: Origin, verb: ActionVerb, args: Any, value: int, words: str
) -> None:
    origin.commit({"web.yaml": stateful(partition=7)})
    edit = computed(origin, STATEFULSET, verb, **args)
    assert (partition(edit), edit.words) == (value, words)


@pytest.mark.parametrize(
    ("verb", "args", "field", "value"),
    [
        (ActionVerb.PROMOTE, {"updated": "50%"}, "partition", 5),
        (ActionVerb.PROMOTE, {}, "partition", 0),
        (ActionVerb.HOLD, {"keep": 9}, "partition", 9),
        (ActionVerb.PAUSE, {}, "paused", True),
    ],
)
def test_an_advanced_stateful_set_is_promoted_held_and_paused(
    origin: Origin, verb: ActionVerb, args: Any, field: str, value: int
) -> None:
    origin.commit({"web.yaml": advanced(partition=7)})
    edit = computed(origin, ADVANCED_STATEFULSET, verb, **args)
    rolling = yaml.safe_load(edit.data)["spec"]["updateStrategy"]["rollingUpdate"]
    assert rolling == {"partition": 7, field: value}


def test_an_advanced_stateful_set_is_resumed_and_rolled_back(origin: Origin) -> None:
    origin.commit({"web.yaml": advanced("app:v1", partition=0)})
    origin.commit({"web.yaml": advanced("app:v2", partition=7, paused=True)})
    resumed = computed(origin, ADVANCED_STATEFULSET, ActionVerb.RESUME)
    assert resumed.data.decode() == advanced("app:v2", partition=7, paused=False)
    back = yaml.safe_load(computed(origin, ADVANCED_STATEFULSET, ActionVerb.ROLLBACK).data)
    assert back["spec"]["template"]["spec"]["containers"][0]["image"] == "app:v1"
    assert back["spec"]["updateStrategy"]["rollingUpdate"].get("partition", 0) == 0


def test_rollback_returns_all_pods(origin: Origin) -> None:
    origin.commit({"web.yaml": stateful("app:v1", 0)})
    origin.commit({"web.yaml": stateful("app:v2", 7)})
    assert computed(origin, STATEFULSET, ActionVerb.ROLLBACK).data.decode() == stateful("app:v1", 0)
    origin.commit({"web.yaml": daemon("app:v1")})
    origin.commit({"web.yaml": daemon("app:v2")})
    assert computed(origin, DAEMONSET, ActionVerb.ROLLBACK).data.decode() == daemon("app:v1")


@pytest.mark.parametrize(
    ("kind", "verb", "words"),
    [
        (STATEFULSET, ActionVerb.PAUSE, "a StatefulSet has no field that pauses it"),
        (DAEMONSET, ActionVerb.RESUME, "a DaemonSet has no field that pauses it"),
        (DAEMONSET, ActionVerb.PROMOTE, "a DaemonSet has no partition"),
        (DAEMONSET, ActionVerb.HOLD, "a DaemonSet has no partition"),
    ],
)
def test_a_verb_without_a_field_is_refused(
    origin: Origin, kind: GroupKind, verb: ActionVerb, words: str
) -> None:
    origin.commit({"web.yaml": stateful() if kind == STATEFULSET else daemon()})
    with pytest.raises(UsageProblem) as error:
        computed(origin, kind, verb)
    assert error.value.findings[0].code == "GK7042"
    assert words in error.value.findings[0].message


@pytest.mark.parametrize(
    ("verb", "args", "field", "value", "words"),
    [
        (ActionVerb.RESUME, {"paused": True}, "paused", False, "resume"),
        (ActionVerb.PROMOTE, {"kept": 3}, "partition", 0, "promote to all"),
        (
            ActionVerb.PROMOTE,
            {"kept": 3, "updated": "80%"},
            "partition",
            2,
            "promote to partition 2",
        ),
    ],
)
def test_what_a_user_set_with_kubectl_is_ended_by_a_field_of_git(
    origin: Origin, verb: ActionVerb, args: Any, field: str, value: Any, words: str
) -> None:
    """Nothing in git has another value than the live one, so only a new field puts it back."""
    origin.commit({"web.yaml": advanced()})
    edit = computed(origin, ADVANCED_STATEFULSET, verb, **args)
    assert yaml.safe_load(edit.data)["spec"]["updateStrategy"]["rollingUpdate"][field] == value
    assert edit.words == words


@pytest.mark.parametrize(
    ("verb", "args"),
    [(ActionVerb.RESUME, {"paused": True}), (ActionVerb.PROMOTE, {"kept": 3})],
)
def test_what_git_names_already_is_put_back_by_the_controller(
    origin: Origin, verb: ActionVerb, args: Any
) -> None:
    origin.commit({"web.yaml": advanced(partition=0, paused=False)})
    with pytest.raises(NothingToDo):
        computed(origin, ADVANCED_STATEFULSET, verb, **args)


def test_a_unit_without_its_folder_is_named_where_an_object_is_not_found(origin: Origin) -> None:
    tip = origin.commit({"moved/web.yaml": stateful()})
    whole = whole_repository()
    (unit,) = whole.units.values()
    gone = replace(unit, spec=replace(unit.spec, path="apps/web"))
    config = Config(whole.sources, {unit.id: gone}, {}, {})
    with Repository.open(str(origin.bare)) as repository:
        state = read_branch(repository, "main", tip, config, *RULES)
        with pytest.raises(UsageProblem) as caught:
            find_target([state], ObjectQuery(kind=STATEFULSET, name="web"))
    notes = dict(caught.value.findings[0].notes)
    assert notes["no folder"] == f"apps/web of unit {unit.id} on main"
