"""gitkruise validate: are these manifests something a cluster would accept? No cluster needed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gitkruise import __version__
from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import existing
from gitkruise.cli.findings import findings_list, findings_text, github_annotations, sarif
from gitkruise.cli.style import Style
from gitkruise.errors import Finding
from gitkruise.model.settings import parse_gates

if TYPE_CHECKING:
    from gitkruise.model.document import Document

SUFFIXES = {".yaml", ".yml", ".json"}


@click.command()
@click.argument("paths", nargs=-1, type=str)
@click.option("-n", "--namespace", default="default", help="For objects that name none.")
@click.option("--feature-gates", default="", metavar="Name=true,…", help="OpenKruise's gates.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "github", "sarif"]), default="text"
)
@click.pass_context
def validate(
    ctx: click.Context, paths: tuple[str, ...], namespace: str, feature_gates: str, output: str
) -> None:
    """Check files and directories of manifests, offline.

    \b
    Examples:
      gitkruise validate
      gitkruise validate apps/checkout -o github

    Exits 0 when nothing is wrong, 1 when something is.
    """
    from gitkruise.gitops.check import check_documents  # noqa: PLC0415  imports the schemas
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    documents, findings = _read([existing(p, "file or directory") for p in paths or (".",)])
    _, found = check_documents(
        documents, load_catalog(), namespace=namespace, gates=parse_gates(feature_gates)
    )
    findings = [*findings, *found]
    _print(findings, output, objects=len(documents))
    ctx.exit(1 if any(f.severity == "error" for f in findings) else 0)


def _read(paths: Sequence[Path]) -> tuple[list[Document], list[Finding]]:
    from gitkruise.git.documents import parse_file  # noqa: PLC0415  imports libyaml
    from gitkruise.model.config import API_VERSION  # noqa: PLC0415

    documents: list[Document] = []
    findings: list[Finding] = []
    for file in _files(paths):
        parsed = parse_file(file.read_bytes(), str(file))
        findings += parsed.findings
        for document in parsed.documents:
            version = str(document.obj.get("apiVersion", ""))
            if version == API_VERSION:
                findings += _own(document)
            elif not version.startswith("kustomize.config.k8s.io/"):
                documents.append(document)
    return documents, findings


def _own(document: Document) -> list[Finding]:
    from gitkruise.gitops.config import check_document  # noqa: PLC0415  imports jsonschema

    return list(check_document(document))


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Manifest files, hidden ones and those below hidden folders left out."""
    for path in paths:
        if path.is_file():
            yield path
            continue
        for file in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
            if file.is_file() and file.suffix.lower() in SUFFIXES and not hidden:
                yield file


def _print(findings: Sequence[Finding], output: str, *, objects: int) -> None:
    style = Style.of(read_environment())
    if output == "json":
        click.echo(json.dumps(findings_list(findings), indent=2, ensure_ascii=False))
    elif output == "sarif":
        click.echo(json.dumps(sarif(findings, __version__), indent=2, ensure_ascii=False))
    elif output == "github":
        if findings:
            click.echo(github_annotations(findings))
    else:
        if findings:
            click.echo(findings_text(findings, style))
        errors = sum(f.severity == "error" for f in findings)
        problems = "no problem" if not findings else f"{errors} errors, {len(findings)} findings"
        click.echo(f"{objects} objects: {problems}", err=True)
