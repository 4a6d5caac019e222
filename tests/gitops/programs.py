"""Whole programs for tests: a configuration of one source and some units, and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from gitkruise.app import RunOptions
from gitkruise.gitops.config.loader import load_config
from tests.gitops.stage import Stage

SOURCE: Final = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: src, namespace: shop}}
spec: {{url: {url}, ref: {{branch: main}}}}
"""


def unit(name: str, more: str = "") -> str:
    """A unit of `name` in the folder of that name, with more fields of its spec."""
    return f"""---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{{{name: {name}, namespace: shop}}}}
spec: {{{{sourceRef: {{{{name: src}}}}, path: {name}{more}}}}}
"""


def options(stage: Stage, folder: Path, text: str, **more: Any) -> RunOptions:
    """A program that follows the stage's repository by the configuration `text`."""
    file = folder / "gitkruise.yaml"
    file.write_text(text.format(url=stage.origin.bare))
    config = load_config(file)
    return RunOptions(
        config=config, cluster="test", state_dir=folder / "state", identity="one", **more
    )
