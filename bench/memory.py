"""Memory of a pod in an informer's store."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Final

from bench.fleet import fleet, store_of
from bench.timing import Row

PODS: Final = 5_000


def rows() -> Iterator[Row]:
    made = fleet(PODS)
    store_of(made, 10)  # what is loaded once is not the pods'
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    store = store_of(made, PODS)
    gc.collect()
    after = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    size = len(next(made.pods(1)))
    each = (after - before) / PODS / 1024
    assert len(store.pods_of(made.owner["metadata"]["uid"], made.key.namespace)) == PODS
    yield Row(name=f"store, a pod of {size / 1024:.1f} KiB", value=each, unit="KiB", limit=30)
