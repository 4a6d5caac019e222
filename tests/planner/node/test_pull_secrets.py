"""Copies of pull secrets: made, shared, refreshed, given up (IMG-21)."""

from __future__ import annotations

from typing import Any

from gitkruise.model.node.pull_job import PullJob, pull_job
from gitkruise.model.planning.plan import Create, Delete, Patch
from gitkruise.planner.node.pull_secrets import (
    BATCH,
    CONFIG_NAMESPACE,
    MODE,
    REFERENCES,
    SOURCE,
    KnownSecrets,
    release_secrets,
    sync_secrets,
)

DATA = {".dockerconfigjson": "e30="}


def job(
    name: str = "job", namespace: str = "shop", secrets: tuple[str, ...] = ("login",)
) -> PullJob:
    meta = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "resourceVersion": "1"}
    return pull_job({"metadata": meta, "spec": {"image": "app:v1", "pullSecrets": list(secrets)}})


def source(name: str = "login", data: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": "shop", "labels": {"team": "a"}},
        "type": "kubernetes.io/dockerconfigjson",
        "data": DATA if data is None else data,
    }


def copy(name: str, *users: str, data: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": CONFIG_NAMESPACE,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "annotations": {SOURCE: "shop/login", REFERENCES: ",".join(users), MODE: BATCH},
        },
        "data": DATA if data is None else data,
    }


def known(*copies: dict[str, Any], homeless: bool = False, **changes: Any) -> KnownSecrets:
    return KnownSecrets(
        sources={"login": source()},
        copies=copies,
        taken=frozenset(one["metadata"]["name"] for one in copies),
        homeless=homeless,
        **changes,
    )


def test_a_first_job_creates_the_namespace_and_the_copy() -> None:
    made = sync_secrets(job(), known(homeless=True))
    space, secret = made.actions
    assert isinstance(space, Create)
    assert isinstance(secret, Create)
    assert (space.obj["metadata"], space.wave) == ({"name": CONFIG_NAMESPACE}, 0)
    assert secret.wave == 1
    assert secret.obj["metadata"]["name"].startswith("login-")
    assert len(secret.obj["metadata"]["name"]) == len("login-") + 6
    assert secret.obj["metadata"]["labels"] == {"team": "a"}
    assert secret.obj["metadata"]["annotations"] == {
        SOURCE: "shop/login", REFERENCES: "shop/job", MODE: BATCH,
    }  # fmt: skip
    assert secret.obj["data"] == DATA
    assert made.references == (), "the copy is not there yet"


def test_a_taken_name_is_not_used_again() -> None:
    (first,) = sync_secrets(job(), known()).actions
    assert isinstance(first, Create)
    name = first.obj["metadata"]["name"]
    other = KnownSecrets(sources={"login": source()}, taken=frozenset({name}))
    (second,) = sync_secrets(job(), other).actions
    assert isinstance(second, Create)
    assert second.obj["metadata"]["name"] != name


def test_jobs_share_a_copy_and_keep_its_data_fresh() -> None:
    made = sync_secrets(job(), known(copy("login-1", "shop/other", data={"old": "x"})))
    (patch,) = made.actions
    assert isinstance(patch, Patch)
    assert patch.steps[0].body == {
        "metadata": {"annotations": {REFERENCES: "shop/job,shop/other"}},
        "data": {"old": None, **DATA},
    }
    assert [(r.namespace, r.name, r.mode) for r in made.references] == [
        (CONFIG_NAMESPACE, "login-1", BATCH)
    ]


def test_a_copy_that_lists_the_job_is_preferred() -> None:
    both = known(copy("login-1"), copy("login-2", "shop/job"))
    made = sync_secrets(job(), both)
    assert ([r.name for r in made.references], made.actions) == (["login-2"], ())


def test_a_missing_source_is_named_and_the_others_are_copied() -> None:
    made = sync_secrets(job(secrets=("none", "login")), known(copy("login-1", "shop/job")))
    assert (made.missing, [r.name for r in made.references]) == (("none",), ["login-1"])


def test_a_job_next_to_the_agents_secrets_uses_them_directly() -> None:
    made = sync_secrets(job(namespace=CONFIG_NAMESPACE), KnownSecrets())
    assert made.actions == ()
    assert [(r.name, r.mode) for r in made.references] == [("login", "")]


def test_the_last_job_takes_the_copy_along() -> None:
    (gone,) = release_secrets(job(), known(copy("login-1", "shop/job")))
    assert isinstance(gone, Delete)
    assert gone.key.name == "login-1"
    (kept,) = release_secrets(job(), known(copy("login-1", "shop/job", "shop/other")))
    assert isinstance(kept, Patch)
    assert kept.steps[0].body == {"metadata": {"annotations": {REFERENCES: "shop/other"}}}
    assert list(release_secrets(job(), known(copy("login-1", "shop/other")))) == []
