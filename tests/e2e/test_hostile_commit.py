"""A program under hostile commits: other units are applied meanwhile, and SIGTERM ends it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from bench import monorepo
from bench.monorepo import SPACE, four_objects
from bench.units import path_of
from tests.e2e.cluster import Cluster, sandbox
from tests.e2e.program import Program, eventually, gitkruise, started
from tests.git.repos import Origin, make_origin, run_git

pytestmark = pytest.mark.e2e

LIST = f"[{','.join('1' * 150)}]"
ENDLESS = f"{LIST}.all(a, {LIST}.all(b, {LIST}.all(c, {LIST}.all(d, a + b + c + d > 0))))"
NINE = ", ".join(["{0}"] * 9)
LAUGHS = "a0: &a0 [x]\n" + "".join(
    f"a{n}: &a{n} [{NINE.format(f'*a{n - 1}')}]\n" for n in range(1, 12)
)
CRD = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: xs.e.io}
spec:
  group: e.io
  scope: Namespaced
  names: {plural: xs, kind: X}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {s: {type: string, pattern: '(a*)*$'}}}}
"""


def waits_for_ever(origin: Origin) -> None:
    """A file whose object is a pipe: git reads it without end."""
    commit = origin.commit({"a.yaml": "a: b\n"})
    blob = run_git(origin.bare, "rev-parse", f"{commit}:a.yaml")
    place = origin.bare / "objects" / blob[:2] / blob[2:]
    place.unlink()
    os.mkfifo(place)


def bombs(origin: Origin) -> None:
    """Ignore rules, a pattern, an expression and aliases that multiply work."""
    origin.commit(
        {
            ".gitkruiseignore": "*a" * 30 + "*b\n",
            "a" * 200: "x",
            "crd.yaml": CRD + f"---\napiVersion: e.io/v1\nkind: X\nmetadata: {{name: x}}\ns: "
            f"{'a' * 3000}!\n",
            "laughs.yaml": LAUGHS,
            "cel.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  annotations:\n"
            f'    gitkruise.io/health: "{ENDLESS}"\n',
        }
    )


@pytest.mark.parametrize("hostile", [waits_for_ever, bombs])
def test_others_are_applied_and_a_signal_ends_the_program(
    tmp_path: Path, hostile: Callable[[Origin], None]
) -> None:
    origin = make_origin(tmp_path)
    hostile(origin)
    repo = monorepo.create(tmp_path, ["good"])
    monorepo.add_source(repo, "hostile", str(origin.bare))
    with sandbox(tmp_path / "state") as cluster:
        monorepo.make_space(cluster)
        repo.commit({path_of("good"): four_objects("good")}, "first")
        words = gitkruise("run", "--sandbox", "--config", str(repo.config))
        with started(words, cluster.env, tmp_path) as program:
            program.until(f"unit {SPACE}/good state=Done")
            repo.commit({path_of("good"): four_objects("good").replace(":v1", ":v2")}, "second")
            eventually(lambda: _image(cluster).endswith(":v2"))
            _end(program)


def _image(cluster: Cluster) -> str:
    found = cluster.get(f"/apis/apps/v1/namespaces/{SPACE}/deployments/good")
    image: str = found["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def _end(program: Program) -> None:
    program.signal(signal.SIGTERM)
    assert program.ends() == 0
    assert program.group_is_gone()
