"""Work that strangers can ask for grows with the size of what they send, not with its square."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from gitkruise.errors import ApiError, BadRequest
from gitkruise.git.manifests.substitute import Value, Values, substitute
from gitkruise.git.parsing.documents import Limits, parse_file
from gitkruise.sandbox.http.request_decoding import read_object
from gitkruise.wire.patch.json_patch import json_patch, merge_patch
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    JSON,
    STRATEGIC_PATCH,
    ApiRequest,
    ResourceRef,
)
from gitkruise.wire.values.cron import parse_cron
from gitkruise.wire.values.jsonpath import parse_json_path
from gitkruise.wire.values.selectors import parse_field_selector, parse_label_selector
from gitkruise.wire.values.semver_range import Range
from tests.worlds import START, empty_world

pytestmark = pytest.mark.slow

WORST = 3.2  # times the work for twice the input; the square has 4
ENOUGH_S = 0.05  # of CPU, below which a ratio says nothing
DEPLOYMENTS = ResourceRef("apps", "v1", "deployments")
SERVICES = ResourceRef("", "v1", "services")
MAPS = ResourceRef("", "v1", "configmaps")
LIMITS = Limits(nodes=10_000_000, documents=100_000, items=1_000_000, map_keys=1_000_000)


def cpu_s(work: Callable[[], object]) -> float:
    """The best of three: the first pays for imports, others for the garbage of those before."""
    taken = []
    for _ in range(3):
        began = time.process_time()
        work()
        taken.append(time.process_time() - began)
    return min(taken)


def moves(n: int) -> Callable[[], object]:
    obj = {"a": {"items": list(range(n)), "map": {f"k{i}": i for i in range(n)}}}
    operations = [
        {"op": "move", "from": "/a/map/k0", "path": "/a/map/x"},
        {"op": "move", "from": "/a/map/x", "path": "/a/map/k0"},
    ] * (n // 2)
    return lambda: json_patch(obj, operations)


def list_moves(n: int) -> Callable[[], object]:
    obj = {"items": [{"name": f"n{i}"} for i in range(n)]}
    return lambda: json_patch(obj, [{"op": "move", "from": "/items/0", "path": "/items/-"}] * n)


def adds(n: int) -> Callable[[], object]:
    operations: list[dict[str, Any]] = [
        {"op": "add", "path": f"/m/k{i}", "value": {"x": [1]}} for i in range(n)
    ]
    operations += [{"op": "add", "path": f"/m/k{i}/x/-", "value": i} for i in range(n)]
    return lambda: json_patch({"m": {}}, operations[: n * 2])


def merges(n: int) -> Callable[[], object]:
    obj = {"m": {f"k{i}": {"v": i} for i in range(n)}}
    patch = {"m": {f"k{i}": {"v": i + 1} for i in range(n)}}
    return lambda: merge_patch(obj, patch)


def duplicate_keys(n: int) -> Callable[[], object]:
    data = ("{" + ",".join(f'"k{i}":1,"k{i}":2' for i in range(n)) + "}").encode()

    def read() -> None:
        with pytest.raises(BadRequest, match="duplicate field"):
            read_object(data, "application/json", strict=True)

    return read


def broken_documents(n: int) -> Callable[[], object]:
    text = "".join(f"---\nkind: A\nmetadata: {{name: n{i}}}\nx: &a {i}\n" for i in range(n))

    def place() -> list[Any]:
        parsed = parse_file(text.encode(), "a.yaml", LIMITS)
        return [document.place(("metadata", "name")) for document in parsed.documents]

    return place


def fields_of_one_document(n: int) -> Callable[[], object]:
    text = "spec:\n" + "".join(f"  k{i}: v\n" for i in range(n))

    def place() -> list[Any]:
        (document,) = parse_file(text.encode(), "a.yaml", LIMITS).documents
        return [document.place(("spec", f"k{i}")) for i in range(n)]

    return place


def secrets(n: int) -> Callable[[], object]:
    """Snippets ask whether the document around a line is a Secret."""
    text = "kind: A\nspec:\n" + "".join(f"  k{i}: 'v'\n" for i in range(n))

    def place() -> list[Any]:
        (document,) = parse_file(text.encode(), "a.yaml", LIMITS).documents
        return [document.place(("spec", f"k{i}")) for i in range(n)]

    return place


def requests(setup: list[ApiRequest], request: ApiRequest) -> Callable[[], object]:
    """What a request costs after others; a refusal is work as well."""
    world = empty_world()

    def ask(one: ApiRequest) -> None:
        with suppress(ApiError):
            world.handle(one, START)

    for one in setup:
        ask(one)
    again = replace(request, params={**request.params, "dryRun": "All"})
    return lambda: ask(request if request.verb == "list" else again)


def deployment(n: int, value: str) -> dict[str, Any]:
    container = {"name": "a", "image": "b", "env": [{"name": f"E{i}", "value": value}
                                                    for i in range(n)]}  # fmt: skip
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template},
    }  # fmt: skip


def at(kind: ResourceRef, verb: str, body: Any, content_type: str = JSON, **params: str) -> Any:
    name = "" if verb in ("create", "list") else body["metadata"]["name"]
    return ApiRequest(
        verb=verb, resource=kind, namespace="shop", name=name, body=body,
        content_type=content_type, params=params,
    )  # fmt: skip


def applies(n: int) -> Callable[[], object]:
    one = at(DEPLOYMENTS, "patch", deployment(n, "1"), APPLY_PATCH, fieldManager="one")
    two = at(DEPLOYMENTS, "patch", deployment(n, "2"), APPLY_PATCH, fieldManager="two")
    return requests([one], two)


def forced_applies(n: int) -> Callable[[], object]:
    one = at(DEPLOYMENTS, "patch", deployment(n, "1"), APPLY_PATCH, fieldManager="one")
    two = at(DEPLOYMENTS, "patch", deployment(n, "2"), APPLY_PATCH, fieldManager="two",
             force="true")  # fmt: skip
    return requests([one], two)


def withdrawn_applies(n: int) -> Callable[[], object]:
    one = at(DEPLOYMENTS, "patch", deployment(n, "1"), APPLY_PATCH, fieldManager="one")
    none = at(DEPLOYMENTS, "patch", deployment(1, "1"), APPLY_PATCH, fieldManager="one")
    return requests([one], none)


def strategic_merges(n: int) -> Callable[[], object]:
    body = deployment(n, "2")
    body["spec"]["template"]["spec"]["containers"][0]["env"].reverse()
    patch = at(DEPLOYMENTS, "patch", body, STRATEGIC_PATCH, fieldManager="two")
    return requests([at(DEPLOYMENTS, "create", deployment(n, "1"))], patch)


def strategic_deletions(n: int) -> Callable[[], object]:
    body = deployment(n, "2")
    env = [{"name": f"E{i}", "$patch": "delete"} for i in range(n)]
    body["spec"]["template"]["spec"]["containers"][0]["env"] = env
    patch = at(DEPLOYMENTS, "patch", body, STRATEGIC_PATCH, fieldManager="two")
    return requests([at(DEPLOYMENTS, "create", deployment(n, "1"))], patch)


def strategic_order(n: int) -> Callable[[], object]:
    body = deployment(n, "2")
    env = [{"name": f"E{n - 1 - i}"} for i in range(n)]
    container = body["spec"]["template"]["spec"]["containers"][0]
    container |= {"$setElementOrder/env": env, "env": env[:1]}
    patch = at(DEPLOYMENTS, "patch", body, STRATEGIC_PATCH, fieldManager="two")
    return requests([at(DEPLOYMENTS, "create", deployment(n, "1"))], patch)


def strategic_texts(n: int) -> Callable[[], object]:
    body = deployment(1, "1")
    body["metadata"]["finalizers"] = ["a.b/f1"]
    patch = deployment(1, "1")
    patch["metadata"]["finalizers"] = [f"a.b/f{2 * i}" for i in range(n)]
    request = at(DEPLOYMENTS, "patch", patch, STRATEGIC_PATCH, fieldManager="two")
    return requests([at(DEPLOYMENTS, "create", body)], request)


def strategic_retained(n: int) -> Callable[[], object]:
    body = deployment(1, "1")
    body["metadata"]["labels"] = {f"l{i}": "v" for i in range(n)}
    patch = deployment(1, "1")
    patch["metadata"]["labels"] = {
        "$retainKeys": [f"l{i}" for i in range(n)], **{f"l{i}": "w" for i in range(n)},
    }  # fmt: skip
    request = at(DEPLOYMENTS, "patch", patch, STRATEGIC_PATCH, fieldManager="two")
    return requests([at(DEPLOYMENTS, "create", body)], request)


def unknown_fields(n: int) -> Callable[[], object]:
    body = deployment(1, "1")
    body["spec"] |= {f"unknown{i}": i for i in range(n)}
    return requests([], at(DEPLOYMENTS, "create", body, fieldValidation="Strict"))


def bad_names(n: int) -> Callable[[], object]:
    body = deployment(n, "1")
    for entry in body["spec"]["template"]["spec"]["containers"][0]["env"]:
        entry["name"] += "=bad name"
    return requests([], at(DEPLOYMENTS, "create", body))


def labels(n: int) -> Callable[[], object]:
    body = deployment(1, "1")
    body["metadata"]["labels"] = {f"l{i}": "v" for i in range(n)}
    return requests([at(DEPLOYMENTS, "create", body)], at(DEPLOYMENTS, "update", body))


def service_ports(n: int) -> Callable[[], object]:
    ports = [{"name": f"p{i}", "port": i + 1} for i in range(n)]
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"},
            "spec": {"ports": ports}}  # fmt: skip
    return requests([], at(SERVICES, "patch", body, APPLY_PATCH, fieldManager="one"))


def many_managers(n: int) -> Callable[[], object]:
    bodies = [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"},
               "data": {f"k{i}": "v"}} for i in range(n)]  # fmt: skip
    setup = [at(MAPS, "patch", body, APPLY_PATCH, fieldManager=f"m{i}")
             for i, body in enumerate(bodies)]  # fmt: skip
    return requests(setup, at(MAPS, "patch", bodies[0], APPLY_PATCH, fieldManager="m0"))


def label_sets(n: int) -> Callable[[], object]:
    text = f"a in ({','.join(f'v{i}' for i in range(n))}),{','.join(f'!k{i}' for i in range(n))}"
    return lambda: parse_label_selector(text).matches({"a": "v1"})


def field_sets(n: int) -> Callable[[], object]:
    text = ",".join(f"metadata.name!=v{i}\\,x" for i in range(n))
    return lambda: parse_field_selector(text).matches({"metadata": {"name": "a"}})


def json_paths(n: int) -> Callable[[], object]:
    path = parse_json_path(".items[?(@.a==1)].b[*].c")
    obj = {"items": [{"a": i % 2, "b": [{"c": i}, {"c": i}]} for i in range(n)]}
    return lambda: path.find_all(obj)


def substitutions(n: int) -> Callable[[], object]:
    text = "kind: A\nspec:\n" + "".join(f"  k{i}: ${{A}}-${{B:=x}}-$${{C}}-${{\n" for i in range(n))
    values = Values(known={"A": Value(text="a")}, strict=False)

    def work() -> object:
        (document,) = parse_file(text.encode(), "a.yaml", LIMITS).documents
        return substitute(document, values)

    return work


def one_long_text(n: int) -> Callable[[], object]:
    text = "kind: A\nspec: {a: '" + "${A}${" * n + "'}\n"
    values = Values(known={"A": Value(text="a")}, strict=False)

    def work() -> object:
        (document,) = parse_file(text.encode(), "a.yaml", LIMITS).documents
        return substitute(document, values)

    return work


def undefined_names(n: int) -> Callable[[], object]:
    text = "kind: A\nspec:\n" + "".join(f"  k{i}: ${{N{i}}}\n" for i in range(n))

    def work() -> object:
        (document,) = parse_file(text.encode(), "a.yaml", LIMITS).documents
        return substitute(document, Values(known={}))

    return work


def aliases(n: int) -> Callable[[], object]:
    text = "a:\n" + "".join(f"  k{i}: &n{i} {{x: 1}}\n" for i in range(n))
    text += "b:\n" + "".join(f"  k{i}: *n{i}\n" for i in range(n))
    limits = replace(LIMITS, alias_nodes=1_000_000)
    return lambda: parse_file(text.encode(), "a.yaml", limits)


def merge_keys(n: int) -> Callable[[], object]:
    text = "a: &a {x: 1}\nb:\n" + "".join(f"  k{i}: {{<<: *a, y: {i}}}\n" for i in range(n))
    return lambda: parse_file(text.encode(), "a.yaml", replace(LIMITS, alias_nodes=1_000_000))


def json_files(n: int) -> Callable[[], object]:
    text = "[" + ",".join('{"a": [1, "x", null]}' for _ in range(n)) + "]"
    return lambda: parse_file(text.encode(), "a.json", LIMITS)


def cron_lists(n: int) -> Callable[[], object]:
    text = ",".join(str(i % 60) for i in range(n)) + " * * * *"

    def work() -> None:
        with suppress(ValueError):
            parse_cron(text)

    return work


def version_tags(n: int) -> Callable[[], object]:
    tags = [f"v1.{i}.0-rc.{i}" for i in range(n)]
    return lambda: Range(">=1.0.0 <2.0.0").best(tags)


WORK = [
    (moves, 2_500), (list_moves, 2_500), (adds, 1_250), (merges, 20_000),
    (duplicate_keys, 10_000), (broken_documents, 250), (fields_of_one_document, 1_000),
    (secrets, 1_000), (applies, 1_500), (forced_applies, 1_500), (withdrawn_applies, 1_500),
    (strategic_merges, 1_500), (strategic_deletions, 1_500), (strategic_order, 1_500),
    (strategic_texts, 2_000), (strategic_retained, 2_000), (unknown_fields, 4_000),
    (bad_names, 1_500), (labels, 4_000), (service_ports, 1_500), (many_managers, 100),
    (label_sets, 1_000), (field_sets, 500), (json_paths, 1_000), (substitutions, 2_000),
    (one_long_text, 3_000), (undefined_names, 1_000), (aliases, 2_000), (merge_keys, 2_000),
    (json_files, 5_000), (cron_lists, 20_000), (version_tags, 2_000),
]  # fmt: skip


@pytest.mark.parametrize(("make", "n"), WORK, ids=[make.__name__ for make, _ in WORK])
def test_twice_the_input_is_about_twice_the_work(
    make: Callable[[int], Callable[[], object]], n: int
) -> None:
    """Of n, 2n and 4n; one of the two ratios may be spoilt by a busy machine."""
    taken = [cpu_s(make(size)) for size in (n, 2 * n, 4 * n)]
    ratios = [after / max(before, ENOUGH_S) for before, after in pairwise(taken)]
    assert min(ratios) < WORST, taken
    assert taken[-1] < 20
