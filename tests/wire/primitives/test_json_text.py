"""JSON that anybody may have written: a value, or a ValueError."""

from __future__ import annotations

import pytest

from gitkruise.wire.primitives.json_text import read_json


@pytest.mark.parametrize("text", ["", "{", "nul", "[" * 200_000, '{"a":' * 200_000])
def test_a_text_that_is_none_is_a_value_error(text: str) -> None:
    for one in (text, text.encode()):
        with pytest.raises(ValueError, match=r"\w"):
            read_json(one)


def test_a_value() -> None:
    assert read_json(b'{"a": [1, null]}') == {"a": [1, None]}
