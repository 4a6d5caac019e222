"""gitkruise validate: are these manifests something a cluster would accept? No cluster needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitkruise import __version__
from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import existing
from gitkruise.cli.findings import findings_list, findings_text, github_annotations, sarif
from gitkruise.cli.output import say, say_json, tell
from gitkruise.cli.style import Style
from gitkruise.cli.verb import Verb
from gitkruise.errors import Finding

if TYPE_CHECKING:
    from gitkruise.model.document import Document
    from gitkruise.wire.names import Obj

SUFFIXES = {".yaml", ".yml", ".json"}
KUSTOMIZATIONS = {"kustomization.yaml", "kustomization.yml", "Kustomization"}
_NOT_RESOURCES = (
    "patches", "patchesStrategicMerge", "patchesJson6902", "replacements", "transformers",
    "generators", "configurations", "components", "validators",
)  # fmt: skip


@click.command(cls=Verb, exits=(1,), says="something is wrong")
@click.argument("paths", nargs=-1, type=str)
@click.option("-n", "--namespace", default="default", help="For objects that name none.")
@click.option("--fix", is_flag=True, help="Rename misspelt fields where it is sure what is meant.")
@click.option("--feature-gates", default="", metavar="Name=true,…", help="OpenKruise's gates.")
@click.option(
    "-o", "--output", type=click.Choice(["text", "json", "github", "sarif"]), default="text"
)
@click.pass_context
def validate(
    ctx: click.Context, /, paths: tuple[str, ...], namespace: str, output: str, **flags: Any
) -> None:
    """Check files and directories of manifests, offline.

    \b
    Examples:
      gitkruise validate
      gitkruise validate apps/checkout batch/report.yaml
      gitkruise validate --fix apps/checkout/cloneset.yaml
      gitkruise validate -o github

    Files that only kustomize understands (kustomizations, the patches and inputs of generators
    they name) are left out; what they render is checked by `gitkruise plan`.
    """
    from gitkruise.gitops.check import check_documents  # noqa: PLC0415  imports the schemas
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415
    from gitkruise.model.settings import parse_gates  # noqa: PLC0415

    given = [existing(p, "file or directory") for p in paths or (".",)]
    gates, catalog = parse_gates(flags["feature_gates"]), load_catalog()
    unfixed: tuple[Finding, ...] = ()
    if flags["fix"]:
        from gitkruise.cli.fixing import fix  # noqa: PLC0415  only with --fix

        unfixed = fix(lambda: _read(given)[0], catalog, namespace)
    documents, findings = _read(given)
    _, found = check_documents(documents, catalog, namespace=namespace, gates=gates)
    findings = [*unfixed, *findings, *found]
    _print(findings, output, objects=len(documents))
    ctx.exit(1 if any(f.severity == "error" for f in findings) else 0)


def _read(paths: Sequence[Path]) -> tuple[list[Document], list[Finding]]:
    from gitkruise.git.documents import parse_file  # noqa: PLC0415  imports libyaml
    from gitkruise.git.manifests import no_object  # noqa: PLC0415
    from gitkruise.git.sops import is_encrypted, sealed  # noqa: PLC0415
    from gitkruise.model.config import API_VERSION  # noqa: PLC0415
    from gitkruise.wire.paths import get  # noqa: PLC0415

    documents: list[Document] = []
    findings: list[Finding] = []
    files = sorted(set(_files(paths)))
    inputs = _kustomize_inputs(files)
    for file in files:
        if file.resolve() in inputs:
            continue
        parsed = parse_file(file.read_bytes(), str(file))
        findings += parsed.findings
        for document in parsed.documents:
            if get(document.obj, "apiVersion") == API_VERSION:
                findings += _own(document)
            elif not isinstance(document.obj, dict):
                findings.append(no_object(document))
            else:
                documents.append(sealed(document) if is_encrypted(document.obj) else document)
    return documents, findings


def _kustomize_inputs(files: Sequence[Path]) -> set[Path]:
    """Kustomizations, and the files they name that are no resources of their own."""
    from gitkruise.git.documents import parse_file  # noqa: PLC0415  imports libyaml

    inputs: set[Path] = set()
    for file in files:
        if file.name not in KUSTOMIZATIONS:
            continue
        inputs.add(file.resolve())
        for document in parse_file(file.read_bytes(), str(file)).documents:
            inputs |= {(file.parent / name).resolve() for name in _named(document.obj)}
    return inputs


def _named(kustomization: Obj) -> Iterator[str]:
    """Paths in the fields of a kustomization that take something other than resources."""
    for field in _NOT_RESOURCES:
        for entry in kustomization.get(field) or ():
            names = entry if isinstance(entry, str) else entry.get("path", "")
            yield from (str(names),) if names else ()
    for field in ("configMapGenerator", "secretGenerator"):
        for entry in kustomization.get(field) or ():
            files = (*(entry.get("files") or ()), *(entry.get("envs") or ()))
            yield from (str(name).rpartition("=")[2] for name in files)


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
        say_json(findings_list(findings), style)
    elif output == "sarif":
        say_json(sarif(findings, __version__), style)
    elif output == "github":
        if findings:
            click.echo(github_annotations(findings))
    else:
        if findings:
            say(findings_text(findings, style), style)
        errors = sum(f.severity == "error" for f in findings)
        problems = "no problem"
        if findings:
            problems = f"{_count(errors, 'error')}, {_count(len(findings) - errors, 'warning')}"
        tell(f"{_count(objects, 'object')}: {problems}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
