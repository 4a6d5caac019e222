"""The wheel carries all it needs: installed elsewhere, without the checkout, it plays the demo."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from release.distributions import build_distributions
from release.source import source_of
from tests.e2e.program import PATIENCE_S, environment, started

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release")
    _, built = build_distributions(source_of(folder / "source", release=False), folder / "dist")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the commands of an environment that holds the wheel, and sees the packages
    of the one that runs the tests behind its own."""
    home = tmp_path_factory.mktemp("venv")
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    words = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps",
             "--no-index", "--disable-pip-version-check", str(wheel)]  # fmt: skip
    subprocess.run(words, check=True, timeout=PATIENCE_S)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "session.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def test_the_wheel_holds_schemas_examples_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "gitkruise/_data/examples-repo/gitkruise.yaml" in names
    assert "gitkruise/_data/schemas/crds/units.gitkruise.io.json" in names
    assert "gitkruise/_data/deploy/kustomization.yaml" in names
    assert not [name for name in names if name.startswith(("tests/", "docs/", "release/"))]
    assert not [name for name in names if "__pycache__" in name]


def test_the_demo_outside_the_checkout(installed: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "state", CI="true")
    del env["PYTHONPATH"]
    words = [str(installed / "python"), "-c", "import gitkruise; print(gitkruise.__file__)"]
    with started(words, env, tmp_path) as where:
        where.until(str(installed.parent))
    words = [str(installed / "gitkruise"), "demo", "--exit", "--speed", "50"]
    with started(words, env, tmp_path) as demo:
        demo.until("commit 5")
        assert demo.ends() == 0


def test_both_commands_and_the_module_are_the_same(installed: Path, tmp_path: Path) -> None:
    env = environment(tmp_path / "state")
    del env["PYTHONPATH"]
    for words in (["gitkruise"], ["kubectl-gitkruise"], ["python", "-m", "gitkruise"]):
        command = [str(installed / words[0]), *words[1:], "--version"]
        with started(command, env, tmp_path) as program:
            program.until(r"^gitkruise, version \d")
