"""Expressions of a resourcesPolicy: values and errors (INJ-63)."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.admission.injection.expression import (
    Amount,
    BadAmountExpression,
    Value,
    amount,
    evaluate,
)

CPU, MEMORY = "cpu", "memory"
WITH: Final = {  # (expression, variable, its value): result
    ("max(cpu*50%, 100m)", CPU, "150m"): "100m",
    ("max(cpu*50%, 100m)", CPU, "400m"): "200m",
    ("cpu + 50m", CPU, "100m"): "150m",
    ("max(memory*20% + 100Mi, 200Mi)", MEMORY, "800Mi"): "260Mi",
    ("cpu*50%", CPU, "0"): "0",
    ("1", CPU, "5"): 1.0,
    ("min(max(max(max(0.5,0.5*cpu),cpu-1.0),cpu-1.0),3.0)", CPU, "0.5"): "500m",
    ("max(min(2*cpu,-cpu+3.0),2*cpu-3.0)", CPU, "1.5"): "1500m",
    ("0.5 * memory + max(0, memory-2Gi)", MEMORY, "8Gi"): "10Gi",
    ("0.5*CPU - 0.3*MAX(0, Cpu-4) + 0.3*max(0, cpu-8)", CPU, "10"): "3800m",
    ("cpu/4", CPU, "1"): "250m",
    ("cpu/3", CPU, "1"): "333m",
    ("-(0-cpu)", CPU, "1"): "1",
}  # fmt: skip
CONSTANTS: Final = {
    "max(40m, 20)": "20", "1Gi + 100Mi": "1124Mi", "1000Gi + 500Gi": "1500Gi", "1.5Gi * 2": "3Gi",
    "10--5": 15.0, "10+-5": 5.0, "1.5e2": 150.0, "1E-3": 0.001, "50%": 0.5, "100M": "100M",
    "1Pi": "1Pi", ".5Mi": "512Ki", "2cpu": 0.0, "100xyz": 0.0, "1e": 0.0, "1+2*3": 7.0,
    "(1+2)*3": 9.0, "8/2/2": 2.0, "7-2-1": 4.0, " 5 ": 5.0, "5E": 0.0, "0-1+2": 1.0,
}  # fmt: skip
ERRORS: Final = (
    "40m * 2m", "2 / 40m", "10 / 0", "max(10)", "max(10,20,30)", "unknown(1, 2)", "5..5", "5%%",
    "()", "", "1e3e2", "1eKi", "-10", "10 - 20", "cpu*cpu", "cpu/cpu", "cpu cpu",
    "invalidvar * 50%",
    "max(cpu*50%, 50m", "max(cpu*50%)", "cpu +*/ 50%", "invalid expression @#$", "cpu - 1.1",
    "(" * 60 + "1" + ")" * 60, "1+" * 1000 + "1", "(5)%", "1e999", "1e999-1e999", "1e308*10*1Mi",
)  # fmt: skip


def shown(value: Value) -> str | float:
    return value.text if isinstance(value, Amount) else value


@pytest.mark.parametrize(("given_", "result"), WITH.items(), ids=str)
def test_with_a_variable(given_: tuple[str, str, str], result: str | float) -> None:
    expression, name, value = given_
    assert shown(evaluate(expression, {name: amount(value)})) == result


@pytest.mark.parametrize(("expression", "result"), CONSTANTS.items())
def test_constants(expression: str, result: str | float) -> None:
    assert shown(evaluate(expression, {})) == result


@pytest.mark.parametrize("expression", ERRORS)
def test_errors(expression: str) -> None:
    with pytest.raises(BadAmountExpression):
        evaluate(expression, {"cpu": amount("1")})


@pytest.mark.parametrize("expression", ["2cpu", "100xyz", "1e"])
def test_quirk_a_malformed_number_is_zero_unless_asked_strictly(expression: str) -> None:
    """Since the first release; a SidecarSet is judged strictly, a pod gets what it always got."""
    assert evaluate(expression, {}) == 0
    with pytest.raises(BadAmountExpression, match="is no number"):
        evaluate(expression, {}, strict=True)


@given(st.text(alphabet="0123456789.,eEmMiGk%+-*/() cpuaxn", max_size=40))
def test_every_text_has_a_value_or_an_error(expression: str) -> None:
    try:
        found = evaluate(expression, {"cpu": amount("2")})
    except BadAmountExpression:
        return
    assert (found.value if isinstance(found, Amount) else Fraction(found)) >= 0
