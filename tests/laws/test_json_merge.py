"""Merging JSON texts means what a JSON merge patch of their values means."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.workloads.sidecarset_metadata import merged_text
from gitkruise.wire.patch.json_patch import merge_patch

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=2), JSON), st.dictionaries(st.text(max_size=2), JSON))
def test_merging_texts_means_what_a_merge_patch_means(before: Any, patch: Any) -> None:
    """Except that nulls inside lists' objects go too, as in Go's library."""
    found = json.loads(merged_text(json.dumps(before), json.dumps(patch)))
    assert _without_nulls(found) == _without_nulls(merge_patch(before, patch))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    return [_without_nulls(v) for v in value] if isinstance(value, list) else value
