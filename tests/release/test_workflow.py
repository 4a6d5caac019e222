"""The workflow of a release: pinned actions, few rights, and the names of the built files."""

from __future__ import annotations

import re
import subprocess
from typing import Any, Final

import pytest
import yaml

from release.source import ROOT

TEXT: Final = (ROOT / ".github" / "workflows" / "release.yaml").read_text()
WORKFLOW: Final[dict[str, Any]] = yaml.load(TEXT, yaml.BaseLoader)
STEPS: Final = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
SCRIPTS: Final = {step["name"]: step["run"] for step in STEPS if "run" in step}


def test_a_tag_of_a_version_starts_it() -> None:
    assert WORKFLOW["on"] == {"push": {"tags": ["v*"]}}


def test_rights_are_given_to_jobs_alone() -> None:
    assert WORKFLOW["permissions"] == {}
    assert {name: job["permissions"] for name, job in WORKFLOW["jobs"].items()} == {
        "build": {"contents": "read"},
        "publish": {"contents": "write", "packages": "write", "id-token": "write"},
        "site": {"contents": "write"},
    }


def test_actions_are_pinned_by_a_full_version() -> None:
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert used
    assert [action for action in used if not re.fullmatch(r"[\w/-]+@v\d+\.\d+\.\d+", action)] == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_is_a_script_and_has_no_expression_in_it(name: str) -> None:
    """Names of tags and actors reach it as variables: they are not part of the program."""
    assert "${{" not in SCRIPTS[name]
    done = subprocess.run(
        ("bash", "-n"), input=SCRIPTS[name], text=True, check=False, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_files_that_it_names_are_those_of_make_release() -> None:
    named = set(re.findall(r"gitkruise-\$version([\w.-]+)", TEXT))
    written = set(re.findall(r'path\("([\w.-]+)"\)', (ROOT / "release/__main__.py").read_text()))
    assert named
    assert named <= written
