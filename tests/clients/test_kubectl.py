"""Stock kubectl, command by command: the embedded cluster and a real server print the same."""

from __future__ import annotations

import base64
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest
import yaml

from tests.clients.session import CommandResult, Row, Session, kubeconfig, outline, rows
from tests.conftest import GOLDEN, need
from tests.e2e.cluster import sandbox
from tests.kube.real.apiserver import ADMIN, apiserver, find

NAME: Final = "kubectl-session.txt"
PINNED: Final = "1.34"  # what tests/kube/real/go.mod builds
OTHERS: Final = ("1.28", "1.33", "1.35")
BETWEEN: Final = "\n$ "


@pytest.fixture(scope="module")
def newest() -> str:
    """The kubectl whose words are recorded."""
    program = find("kubectl")
    right = bool(program) and _is(program, PINNED)
    need("kube", present=right, how=f"make kube-assets builds kubectl {PINNED}")
    return program


def _is(program: str, version: str) -> bool:
    words = [program, "version", "--client", "-o", "yaml"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.search(r"^  gitVersion: v(\d+\.\d+)", done.stdout, re.MULTILINE)
    return found is not None and found[1] == version


def of_version(version: str) -> str:
    """kubectl, or the kubectl.1.x beside it, of that version; or ""."""
    known = shutil.which("kubectl")
    if not known:
        return ""
    beside = Path(known).resolve().with_name(f"kubectl.{version}")
    return next((p for p in (str(beside), known) if Path(p).exists() and _is(p, version)), "")


def on_sandbox(program: str, folder: Path, chosen: Sequence[Row]) -> list[CommandResult]:
    with sandbox(folder / "state", "--speed", "20") as cluster:
        config = yaml.safe_load(cluster.kubeconfig.read_text())
        found, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        authority = found["certificate-authority-data"]
        access = kubeconfig(folder / "config", found["server"], user["token"], authority)
        return Session(program, access, folder).play(chosen)


def recorded() -> dict[Row, str]:
    """What each row printed."""
    parts = ("\n" + (GOLDEN / NAME).read_text()).split(BETWEEN)[1:]
    return dict(zip(rows(), parts, strict=True))


def wrong_exits(results: Sequence[CommandResult]) -> list[str]:
    return [f"{one.report}not exit {one.row.exit}" for one in results if one.exit != one.row.exit]


def same(real: CommandResult, embedded: str) -> bool:
    """Whether both servers said the same, but for what is described in other words."""
    if real.row.described:
        return outline(real.report) == outline(embedded)
    return real.report == embedded


@pytest.mark.e2e
def test_there_are_enough_commands() -> None:
    assert len({row.words for row in rows()}) >= 60
    assert len([row for row in rows() if not row.needs and not row.differs]) >= 60


@pytest.mark.e2e
def test_embedded(newest: str, tmp_path: Path, golden: Callable[[str, str], None]) -> None:
    results = on_sandbox(newest, tmp_path, rows())
    assert not wrong_exits(results)
    golden(NAME, "$ " + BETWEEN.join(one.report for one in results))


@pytest.mark.e2e
def test_an_outline_has_fields_and_enums_but_no_texts() -> None:
    kept = ["KIND:  Pod", "ENUM:", "  A", "DESCRIPTION:", "FIELDS:", "  a\t<string>", "  enum: A"]
    lines = [*kept[:4], "  Words.", *kept[4:], "  Words."]
    assert outline("\n".join(lines)) == kept


@pytest.mark.kube
@pytest.mark.slow
def test_real(newest: str, tmp_path: Path) -> None:
    """What needs no controllers is what a kube-apiserver prints."""
    chosen = [row for row in rows() if not row.needs]
    (tmp_path / "server").mkdir()
    with apiserver(tmp_path / "server") as server:
        authority = base64.b64encode(server.ca_pem.encode()).decode()
        access = kubeconfig(tmp_path / "config", server.url, ADMIN, authority)
        results = Session(newest, access, tmp_path).play(chosen)
    results = [one for one in results if not one.row.differs]
    assert not wrong_exits(results)
    wanted = recorded()
    differing = [
        f"real     {one.report}\nembedded {wanted[one.row]}"
        for one in results
        if not same(one, wanted[one.row])
    ]
    assert not differing, "\n".join(differing)


@pytest.mark.e2e
@pytest.mark.parametrize("version", OTHERS)
def test_other_versions(version: str, tmp_path: Path) -> None:
    """Older and newer ones do and print the same, but for their own words."""
    program = of_version(version)
    need(f"kubectl-{version}", present=bool(program), how=f"put a kubectl.{version} beside kubectl")
    chosen = [row for row in rows() if row.since <= float(version)]
    results = on_sandbox(program, tmp_path, chosen)
    assert not wrong_exits(results)
    wanted = recorded()
    differing = [
        f"{version} {one.report}\n{PINNED} {wanted[one.row]}"
        for one in results
        if not one.row.worded and one.report != wanted[one.row]
    ]
    assert not differing, "\n".join(differing)
