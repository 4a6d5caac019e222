"""Expressions in CEL: the same answers under a meter, and an end for every loop."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gitkruise.kube.system.cel import BadCelExpression, MissingField, holds, judged
from gitkruise.kube.system.cel_budget import CelBudget, metered

OVER = "operation cancelled: actual cost limit exceeded"
POD = {
    "spec": {"containers": [{"name": "a", "env": [{"name": "X"}]}, {"name": "b"}]},
    "text": 'it\'s a "text" (with) // slashes',
}

# Expression and answer: the meter changes neither the answer nor the error.
SAME: list[tuple[str, Any]] = [
    ("object.spec.containers.all(c, c.name != '')", True),
    ("object.spec.containers.exists(c, c.name == 'b')", True),
    ("object.spec.containers.exists_one(c, c.name == 'b')", True),
    ("object.spec.containers.map(c, c.name) == ['a', 'b']", True),
    ("object.spec.containers.map(c, c.name == 'a', c.name + '!') == ['a!']", True),
    ("object.spec.containers.filter(c, has(c.env)).size() == 1", True),
    ("object.spec.containers.all(c, !has(c.env) || c.env.all(e, e.name == 'X'))", True),
    ("object.all(k, k in ['spec', 'text'])", True),
    ("[1, 2].map(x, x * 2).filter(y, y > 2).exists(z, z == 4)", True),
    ("[[1], [2]].map(l, l.map(x, [x, x].map(y, y + 1)).size()) == [1, 1]", True),
    ("object . spec . containers . all ( c , c.name != ',' // ) a comment\n )", True),
    (r"object.text.contains('it\'s a') && ['.all(a, '].exists(t, t == '.all(a, ')", True),
    ("['''it's \"',''', \"(\"].exists(t, t == '(') && [r'\\'].all(t, t == r'\\')", True),
    ("[{'a': [1, 2]}].all(m, m.a.all(x, x in [1, 2]) ? true : false)", True),
    ("[1].all(x, x > 1)", False),
    ("object.spec.containers.exists(c, c.image == 'x')", MissingField),
    ("object.spec.containers[2].name == 'c'", MissingField),
    ("object.spec.containers.all(c, d)", MissingField),
    ("object.spec.containers.all(c, 1)", BadCelExpression),
    ("object.spec.containers.map(c, c.name)", BadCelExpression),
]


@pytest.mark.parametrize(("text", "answer"), SAME)
def test_the_meter_changes_no_answer(text: str, answer: Any) -> None:
    if isinstance(answer, bool):
        assert judged(text, {"object": POD}) is answer
        return
    with pytest.raises(answer) as refused:
        judged(text, {"object": POD})
    assert type(refused.value) is answer
    assert "meter" not in str(refused.value)


@pytest.mark.parametrize(
    ("result", "word"),
    [("'top secret'", "a text"), ("7", "a number"), ("['top secret']", "a list"), ("null", "null")],
)
def test_a_result_is_named_by_its_type_alone(result: str, word: str) -> None:
    """It may be the value of a Secret."""
    with pytest.raises(BadCelExpression) as refused:
        judged(result, {})
    assert str(refused.value) == f"its result is {word}, and not true or false"


@pytest.mark.parametrize("text", ["a.map == 'all('", "size(a)", "map(a, b)", "'.all(a, b)'", "a"])
def test_what_is_no_loop_is_left_alone(text: str) -> None:
    assert metered(text) is None


BIG = {
    "l": list(range(3_000)),
    "m": {f"k{n}": "x" * 500 for n in range(2_000)},
    "s": "a" * 100_000,
    "n": [0] * 60_000,
}
COSTLY = [
    "l.all(a, l.all(b, l.all(c, a + b + c >= 0)))",
    "l.map(a, l.map(b, a)).size() > 0",
    "l.map(a, l.filter(b, b > a)).size() > 0",
    "l.exists(a, l.exists(b, l.exists_one(c, c < 0)))",
    "l.all(a, (l.all(b, l.all(c, a + b + c >= 0)) || true))",
    "(l.all(a, l.all(b, l.all(c, a + b + c >= 0))) || true) && true",
    "l.all(a, l.all(b, m.k1.contains(s) || true))",
    "m.all(a, m.all(b, m.all(c, a + b + c != '')))",
    "l.map(a, l).map(b, b.map(c, c)).size() > 0",
    "l.all(a,// )\nl.all(b, l.all(c, '\\'' == \"'\")))",
    "[s]" + ".map(x, x + x)" * 30 + ".size() > 0",
    " && ".join(["n == n"] * 400),
    "[l,l,l,l].all(a, a.all(b, l.all(c, c >= 0)))",
]


@pytest.mark.slow
@pytest.mark.parametrize("text", COSTLY)
def test_a_costly_expression_ends_within_two_seconds(text: str) -> None:
    began = time.thread_time()
    with pytest.raises(BadCelExpression, match=OVER):
        judged(text, BIG)
    with pytest.raises(BadCelExpression, match=OVER):
        holds(text, BIG)
    assert time.thread_time() - began < 4


def test_expressions_of_one_request_share_its_budget() -> None:
    budget = CelBudget(cpu_s=0.05)
    with pytest.raises(BadCelExpression, match=OVER):
        judged(COSTLY[0], BIG, budget)
    with pytest.raises(BadCelExpression, match=OVER):
        judged("true", {}, budget)


def test_large_objects_and_ordinary_conditions_are_within_the_budget() -> None:
    pod = {"spec": {"containers": [{"env": [{"name": f"E{n}"} for n in range(200)]}] * 20}}
    text = "object.spec.containers.all(c, c.env.all(e, e.name.startsWith('E')))"
    assert judged(text, {"object": pod, "oldObject": pod, "request": {}})
    assert judged("object.m.exists(k, k == 'k1999')", {"object": BIG})
