"""The example shop in a bare repository and a clone of it, changed by ordinary git."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.program import ROOT, output

CHECKOUT = "apps/checkout/cloneset.yaml"


@dataclass(frozen=True, slots=True)
class Shop:
    """`clone` pushes to `bare`; `bare` is what gitkruise follows."""

    bare: Path
    clone: Path
    env: Mapping[str, str]

    def git(self, *words: str) -> str:
        return output(["git", *words], self.env, self.clone).strip()

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.clone / file
        text = path.read_text()
        assert old in text, f"{file} holds no {old!r}"
        path.write_text(text.replace(old, new))

    def push(self, subject: str) -> str:
        """Commit everything and push it; the commit's id."""
        self.git("add", "-A")
        self.git("commit", "-q", "-m", subject)
        self.git("push", "-q", "origin", "main")
        return self.git("rev-parse", "HEAD")


def create(folder: Path, env: Mapping[str, str], *, without: str = "") -> Shop:
    """The example repository, pushed once; its GitSource names the bare repository."""
    bare, clone = folder / "shop.git", folder / "shop"
    output(["git", "init", "-q", "--bare", "--initial-branch=main", str(bare)], env, folder)
    output(["git", "clone", "-q", str(bare), str(clone)], env, folder)
    shutil.copytree(ROOT / "examples-repo", clone, dirs_exist_ok=True)
    shop = Shop(bare, clone, env)
    if without:
        shutil.rmtree(clone / without)
    shop.edit("gitkruise.yaml", "url: .", f"url: {bare}")
    shop.push("shop: first release")
    return shop
