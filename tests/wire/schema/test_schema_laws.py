"""Laws of schemas on random CloneSets, with jsonschema over the published schema as the judge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.schema.structural import Node, prune, unknown_fields, validate, with_defaults
from tests.wire.schema.manifests import cloneset

JSON = Path(__file__).parents[3] / "schemas" / "json"


def schema(*, strict: bool = False) -> Node:
    kind = load_catalog().find("cloneset")
    assert kind
    return kind.strict if strict else kind.schema


words = st.sampled_from(["a", "web", "30%", "1", "Always", "x" * 70])
leaves = st.none() | st.booleans() | st.integers(-5, 2**33) | st.just(1.5) | words
junk = st.recursive(
    leaves, lambda v: st.lists(v, max_size=2) | st.dictionaries(words, v, max_size=2), max_leaves=4
)
ports = st.lists(
    st.fixed_dictionaries({}, optional={"containerPort": st.just(80) | junk, "protocol": junk}),
    max_size=2,
)
containers = st.lists(
    st.fixed_dictionaries(
        {"name": words | junk},
        optional={
            "image": words | junk,
            "imagePullPolicy": words,
            "ports": ports,
            "resources": st.fixed_dictionaries(
                {}, optional={"limits": st.dictionaries(words, words | junk, max_size=2)}
            ),
            "oops": junk,
        },
    ),
    max_size=2,
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.integers(0, 9) | junk,
        "minReadySeconds": junk,
        "selector": st.fixed_dictionaries(
            {}, optional={"matchLabels": junk, "matchExpressions": junk}
        ),
        "template": st.fixed_dictionaries(
            {},
            optional={"spec": st.fixed_dictionaries({"containers": containers}), "metadata": junk},
        ),
        "updateStrategy": st.fixed_dictionaries({}, optional={"type": junk, "rollingUpdate": junk}),
        "scaleStrategy": st.fixed_dictionaries(
            {}, optional={"podsToDelete": junk, "maxUnavailable": junk}
        ),
        "volumeClaimTemplates": junk,
        "oops": junk,
    },
)
clonesets = st.builds(
    lambda spec: {**cloneset(), "spec": spec},
    specs | st.builds(lambda s: cloneset(**s)["spec"], specs),
)
ORACLE = jsonschema.Draft202012Validator(
    json.loads((JSON / "CloneSet-apps.kruise.io-v1beta1.json").read_text())
)


@given(clonesets)
def test_law_the_published_schema_and_the_compiled_one_agree(obj: Any) -> None:
    strict = schema(strict=True)
    accepted = not validate(strict, obj) and not unknown_fields(strict, obj)
    assert accepted == ORACLE.is_valid(obj)


@given(clonesets)
def test_law_pruning_and_defaulting_happen_once(obj: Any) -> None:
    for node in (schema(), schema(strict=True)):
        pruned = prune(node, obj)
        assert unknown_fields(node, pruned) == []
        assert prune(node, pruned) is pruned
        filled = with_defaults(node, pruned)
        assert with_defaults(node, filled) is filled
        assert prune(node, filled) is filled


@given(clonesets)
def test_law_known_objects_come_back_as_they_are(obj: Any) -> None:
    node = schema(strict=True)
    assert (prune(node, obj) is obj) == (unknown_fields(node, obj) == [])
