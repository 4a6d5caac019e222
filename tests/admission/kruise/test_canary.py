"""Canary annotation of a Deployment at admission: CAN-8."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import InvalidObject
from tests.worlds import Lab, deployment


def annotated(key: str, value: str) -> Any:
    obj: Any = deployment()
    obj["metadata"] = {"name": "web", "annotations": {key: value}}
    return obj


@pytest.mark.parametrize("value", ["three", "-1", "", "30.5%", "3 "])
def test_can_8_an_invalid_value_is_rejected(value: str) -> None:
    with pytest.raises(InvalidObject, match=r"gitkruise\.io/canary.*whole percentage, such as 30%"):
        Lab().apply(annotated("gitkruise.io/canary", value))


@pytest.mark.parametrize("value", ["0", "3", "30%", "100%"])
def test_can_8_a_number_or_a_percentage_is_accepted(value: str) -> None:
    Lab().apply(annotated("gitkruise.io/canary", value))


def test_can_8_the_plain_key_belongs_to_other_programs_too() -> None:
    Lab().apply(annotated("canary", "true"))


def test_a_change_to_an_invalid_value_is_rejected_and_the_stored_one_stays() -> None:
    lab = Lab()
    web = lab.apply(annotated("gitkruise.io/canary", "3"))
    with pytest.raises(InvalidObject):
        lab.patch(web, {"metadata": {"annotations": {"gitkruise.io/canary": "some"}}})
    assert lab.get(web)["metadata"]["annotations"]["gitkruise.io/canary"] == "3"
