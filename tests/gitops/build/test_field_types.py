"""Types of names, marks and schemas: each slip is one finding at its place, and nothing raises."""

from __future__ import annotations

import pytest

from tests.fuzz.commits import taken

HEAD = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: SPEC
---
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {a: xx, b: 5}
"""


def note(text: str) -> str:
    return f"{HEAD}  annotations:\n    gitkruise.io/{text}\n"


def crd(text: str) -> str:
    return CRD.replace("SPEC", text)


PODS = (
    "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: w}\nspec:\n"
    "  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec:\n"
)
SCALER = (
    "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\nspec:\n"
    "  maxReplicas: 3\n  scaleTargetRef: {kind: Deployment, name: w}\n  metrics:\n"
    "  - type: Pods\n    pods: {metric: {name: x}, target: {type: AverageValue, averageValue: A}}\n"
)
SECRET = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"
ROWS: list[tuple[str, str, str, str]] = [
    ("null in stringData", SECRET + "stringData: {pin: }\n", "4:19", "stringData.pin"),
    ("empty wave", note("wave:"), "6:23", "metadata.annotations.gitkruise.io/wave"),
    ("boolean", note("apply: true"), "6:25", "must be of type string"),
    ("number", note("wave: 1"), "6:24", "must be of type string"),
    ("list", note("depends-on: [a]"), "6:30", "must be of type string"),
    ("map", note("hold: {a: b}"), "6:24", "must be of type string"),
    ("namespace", HEAD + "  namespace: {a: b}\n", "5:14", "metadata.namespace"),
    ("labels", HEAD + "  labels: []\n", "5:11", "metadata.labels"),
    ("label", HEAD + "  labels: {a: 1}\n", "5:15", "metadata.labels.a"),
    ("null label", HEAD + "  labels: {a: }\n", "5:15", "metadata.labels.a"),
    ("finalizers", HEAD + "  finalizers: [1]\n", "5:16", "metadata.finalizers[0]"),
    ("owners", HEAD + "  ownerReferences: [a]\n", "5:21", "metadata.ownerReferences[0]"),
    ("unknown kind", "apiVersion: x.y/v1\nkind: T\nmetadata: {name: a, labels: x}\n", "3:29", ""),
    ("maxLength", crd('{type: object, properties: {a: {maxLength: "10"}}}'), "16:", "maxLength"),
    ("minimum", crd('{type: object, properties: {b: {minimum: "1"}}}'), "16:", "minimum"),
    ("null property", crd("{type: object, properties: {a: }}"), "16:", "properties.a"),
    ("below items", crd('{type: array, items: {maxLength: "1"}}'), "16:", "items.maxLength"),
    ("below a map", crd("{additionalProperties: {type: [a]}}"), "16:", "additionalProperties"),
    (
        "no list",
        PODS + "      containers:\n        name: a\n        image: b\n",
        "10:9",
        "must be of type array",
    ),
    (
        "no map",
        PODS + "      containers: [{name: a, image: b, resources: [{limits: {cpu: 1}}]}]\n",
        "9:51",
        "must be of type object",
    ),
    (
        "no text",
        PODS + "      containers: [{name: a, image: {name: b, tag: c}}]\n",
        "9:37",
        "must be of type string",
    ),
    ("a huge amount", SCALER.replace("A}", "1e+300}"), "9:74", "must be of type quantity"),
    ("neither", crd("{additionalProperties: 5}"), "16:", "additionalProperties"),
    ("branch", crd("{anyOf: [{required: [1]}]}"), "16:", "anyOf[0].required[0]"),
]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_value_of_another_type_is_refused_at_its_place(row: tuple[str, str, str, str]) -> None:
    _, text, place, words = row
    errors = taken(text.encode()).errors
    assert [f.code for f in errors if f.object != "Widget shop/w"] == ["GK1204"]
    assert str(errors[0].places[0]).startswith(f"app.yaml:{place}")
    assert words in errors[0].message


SOUND = [
    HEAD + "  labels:\n  annotations:\n",
    HEAD + "  namespace:\n",
    HEAD + "  creationTimestamp: null\ndata:\n",
    "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l}\nspec:\n",
    note('prune: ""'),
]


ADVICE = [
    ("      containers:\n        name: a\n", 'begin the first line of each item with "- "'),
    ("      containers: [{name: a, resources: [{limits: {cpu: 1}}]}]\n", 'take out the "- "'),
]


@pytest.mark.parametrize(("text", "advice"), ADVICE)
def test_a_list_and_a_map_are_distinguished(text: str, advice: str) -> None:
    (finding,) = taken((PODS + text).encode()).errors
    assert advice in dict(finding.notes)["next"]


@pytest.mark.parametrize("text", SOUND)
def test_the_null_of_a_named_field_counts_as_not_given(text: str) -> None:
    assert taken(text.encode()).errors == []


WORDED = [
    (SECRET + "data: {pin: hunter2!}\n", "4:13", "plain text belongs under stringData"),
    (SECRET + "data: {my pin: aGk=}\n", "4:16", "a key may have letters, digits"),
    (SECRET + "data: {a: aGk=}\nstringData: {my pin: hunter2}\n", "5:22", "a key may have"),
    (HEAD + "binaryData: {a: hunter2!}\n", "5:17", "illegal base64 data"),
]


@pytest.mark.parametrize(("text", "place", "words"), WORDED)
def test_bytes_and_their_keys_are_refused_where_they_are(text: str, place: str, words: str) -> None:
    (finding,) = taken(text.encode()).errors
    assert finding.code == "GK2101"
    assert str(finding.places[0]) == f"app.yaml:{place}"
    assert words in finding.message
    assert "Secret" not in finding.message or "hunter2" not in repr(finding)


FILLED_IN = [
    (
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {name: r}\n"
        "roleRef: {kind: Role, name: r}\n"
    ),
    "apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: p}\n",
    (
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: e}\n"
        "addressType: IPv4\n"
    ),
    (
        "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: Web_1}\n"
        "spec: {minAvailable: 1}\n"
    ),
]


@pytest.mark.parametrize("text", FILLED_IN)
def test_what_a_server_takes_is_taken(text: str) -> None:
    assert taken(text.encode()).errors == []


NOT_SERVED = [
    ("kind", 'apiVersion: v1\nkind: "a\\eb"\nmetadata: {name: a}\n', "GK2001"),
    ("version", "apiVersion: ../v1/x\nkind: T\nmetadata: {name: a}\n", "GK2001"),
    ("namespace", HEAD + '  namespace: "a/b"\n', "GK2005"),
]


@pytest.mark.parametrize("row", NOT_SERVED, ids=[row[0] for row in NOT_SERVED])
def test_words_that_no_cluster_serves_are_refused_and_shown_escaped(
    row: tuple[str, str, str],
) -> None:
    _, text, code = row
    finding = taken(text.encode()).errors[-1]
    assert finding.code == code
    assert finding.message.isprintable()


def test_a_word_is_reported_with_its_spelling() -> None:
    (finding,) = taken(note("apply: true").encode()).errors
    assert dict(finding.notes)["next"] == 'quote it: "true"'
    (finding,) = taken(note("wave:").encode()).errors
    assert dict(finding.notes)["next"] == "give it a text, or take the line out"
