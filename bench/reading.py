"""Cost of reading a large unit: cold, after a restart, and with one file changed."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from bench.timing import Row, cpu
from gitkruise.git.manifests.reader import ParseCache, read_desired
from gitkruise.git.parsing.parse_cache_db import ParsedStore
from gitkruise.git.repository.repository import Repository
from tests.git.repos import ENV, make_origin

COUNT: Final = 5_000
GOAL_S: Final = 3.0
MANIFEST: Final = """\
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata:
  name: web-{number}
  labels:
    app: web-{number}
spec:
  replicas: 5
  selector:
    matchLabels:
      app: web-{number}
  template:
    metadata:
      labels:
        app: web-{number}
    spec:
      containers:
      - name: app
        image: registry.example.com/shop/web:{number}
        ports:
        - containerPort: 8080
        env:
        - name: LEVEL
          value: info
        resources:
          requests: {{cpu: 250m, memory: 256Mi}}
  updateStrategy:
    type: InPlaceIfPossible
    partition: 4
    maxUnavailable: 20%
"""


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        folder = Path(name)
        origin = make_origin(folder)
        first = _commit(origin.bare, range(COUNT))
        with Repository.open(str(origin.bare)) as repository:
            yield from _measured(repository, first, folder / "parsed.sqlite")


def _measured(repository: Repository, commit: str, path: Path) -> Iterator[Row]:
    def read(cache: ParseCache) -> None:
        assert len(read_desired(repository, commit, cache=cache).checked().documents) == COUNT

    cold = cpu(lambda: read(ParseCache()))
    yield Row(name=f"read {COUNT:,} CloneSets, cold", value=cold, unit="s CPU", limit=GOAL_S)
    with closing(ParsedStore(path)) as store:
        kept = cpu(lambda: read(ParseCache(store=store)), repeats=1)
    yield Row(name="the same, kept on disk on the way", value=kept, unit="s CPU", limit=GOAL_S)

    def restart() -> None:
        with closing(ParsedStore(path)) as store:
            cache = ParseCache(store=store)
            read(cache)
            assert cache.parsed == 0

    yield Row(name="the same after a restart", value=cpu(restart), unit="s CPU")
    warm = ParseCache()
    read(warm)
    yield Row(name="the same again, nothing changed", value=cpu(lambda: read(warm)), unit="s CPU")


def _commit(bare: Path, numbers: range) -> str:
    """A commit with a file for each number, made without a work tree."""
    lines = ["commit refs/heads/main", "committer a <a@b> 1 +0000", "data 1", "x"]
    for number in numbers:
        text = MANIFEST.format(number=number)
        lines += [f"M 100644 inline apps/{number % 50}/{number}.yaml", f"data {len(text)}", text]
    subprocess.run(
        ["git", "fast-import", "--quiet"], cwd=bare, env=ENV, check=True,
        input=("\n".join(lines) + "\n").encode(),
    )  # fmt: skip
    done = subprocess.run(
        ["git", "rev-parse", "refs/heads/main"], cwd=bare, env=ENV, check=True, capture_output=True
    )
    return done.stdout.decode().strip()
