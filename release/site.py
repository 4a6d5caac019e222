"""The documentation as a site: the pages of docs/, and what they link to outside of it.

The README is the first page. Other files that pages link to are copied below `source/`, so that the
site needs no host of the sources. Each version has a folder of its own; `versions.json` lists them,
the newest first.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath
from typing import Final

import click
from semver import Version

from gitkruise import __version__

ROOT: Final = Path(__file__).parents[1]
CONFIG: Final = Path(__file__).with_suffix(".toml")
# Page of the site → the file of the repository that it is made from.
PAGES: Final = {
    "index.md": "README.md",
    "examples-repo.md": "examples-repo/README.md",
    "contributing.md": "CONTRIBUTING.md",
}
SOURCES: Final = "source"
VERSIONS: Final = "versions.json"
TEMPLATE: Final = ".in.md"  # of a generated page
_LINK: Final = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the site: its path there, and its file in the repository."""

    name: str
    source: str

    def text(self) -> str:
        """The page with links that hold in the site."""
        folder = str(PurePosixPath(self.name).parent)
        return _LINK.sub(lambda link: relpath(self.place(link[1]), folder), self._read())

    def linked(self) -> set[str]:
        """Paths in the site of all that the page links to."""
        return {self.place(link) for link in _LINK.findall(self._read())}

    def place(self, link: str) -> str:
        """Return the path in the site of what `link` leads to."""
        target = normpath(PurePosixPath(self.source).parent / link)
        for name, source in PAGES.items():
            if target == source:
                return name
        inside = target.startswith("docs/") and (ROOT / target).is_file()
        return target.removeprefix("docs/") if inside else f"{SOURCES}/{target}"

    def _read(self) -> str:
        return (ROOT / self.source).read_text()


def pages() -> list[Page]:
    """All pages of the site."""
    docs = ROOT / "docs"
    inside = [
        Page(name=str(path.relative_to(docs)), source=str(path.relative_to(ROOT)))
        for path in sorted(docs.rglob("*.md"))
        if not path.name.endswith(TEMPLATE)
    ]
    return [*inside, *(Page(name=name, source=source) for name, source in PAGES.items())]


def write_pages(folder: Path) -> None:
    """Write the pages, the pictures and the files that pages link to into `folder`."""
    for page in pages():
        path = folder / page.name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(page.text())
        for name in page.linked():
            if name.endswith(".md") and not name.startswith(SOURCES):
                continue
            inside = (
                name.removeprefix(f"{SOURCES}/") if name.startswith(SOURCES) else f"docs/{name}"
            )
            _copy(ROOT / inside, folder / name)


def _copy(source: Path, target: Path) -> None:
    """Copy a file; of a folder, write the list of its files."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
        names = sorted(
            str(path.relative_to(source)) for path in source.rglob("*") if path.is_file()
        )
        (target / "index.md").write_text("\n".join(f"- `{name}`" for name in names) + "\n")
    else:
        shutil.copyfile(source, target)


def build(out: Path, version: str) -> Path:
    """Build the site of `version` below `out`; return its folder. Raises CalledProcessError."""
    work = out / "work"
    shutil.rmtree(work, ignore_errors=True)
    write_pages(work / "pages")
    (work / CONFIG.name).write_text(CONFIG.read_text())
    program = (sys.executable, "-m", "zensical", "build", "--strict", "-f", CONFIG.name)
    subprocess.run(program, cwd=work, check=True)
    target = out / version
    shutil.rmtree(target, ignore_errors=True)
    (work / "site").rename(target)
    shutil.rmtree(work)
    list_versions(out)
    return target


def list_versions(out: Path) -> None:
    """Write the versions in `out` for the selector of the pages, and lead to the newest."""
    found = [path.name for path in out.iterdir() if (path / "index.html").is_file()]
    found.sort(key=Version.parse, reverse=True)
    rows = [{"version": one, "title": one, "aliases": []} for one in found]
    (out / VERSIONS).write_text(json.dumps(rows, indent=2) + "\n")
    newest = f"{found[0]}/index.html"
    (out / "index.html").write_text(
        f'<!doctype html><meta charset="utf-8"><title>gitkruise</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}"><a href="{newest}">{found[0]}</a>\n'
    )


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("build/site"),
              show_default=True, help="Folder of the versions.")  # fmt: skip
def main(out: Path) -> None:
    """Build the documentation of this version as a site."""
    out.mkdir(parents=True, exist_ok=True)
    try:
        target = build(out, __version__)
    except subprocess.CalledProcessError as failed:
        raise click.ClickException(f"zensical ended with {failed.returncode}") from None
    click.echo(target / "index.html")


if __name__ == "__main__":
    sys.exit(main())
