"""gitkruise validate: check manifests as an API server would, without a cluster."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitkruise import __version__
from gitkruise.cli.console.command import ExitCodesCommand, gates_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.findings import findings_list, findings_text, github_annotations, sarif
from gitkruise.cli.console.output import say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import existing, read_named
from gitkruise.errors import Finding, InvalidManifests, SourcePlace, UsageProblem
from gitkruise.printable import many
from gitkruise.wire.primitives.names import CONFIG_FILE, KUSTOMIZATION_NAMES, OWN_GROUP

if TYPE_CHECKING:
    from gitkruise.git.manifests.substitute import Values
    from gitkruise.git.parsing.documents import Parsed
    from gitkruise.model.gitops.document import Document

SUFFIXES = {".yaml", ".yml", ".json"}
_CHART = "Chart.yaml"
_NOT_RESOURCES = (
    "patches", "patchesStrategicMerge", "patchesJson6902", "replacements", "transformers",
    "generators", "configurations", "components", "validators",
)  # fmt: skip


@click.command(cls=ExitCodesCommand, exits=(1,), says="a manifest is invalid")
@click.argument("paths", nargs=-1, type=str)
@click.option("-n", "--namespace", default="default", help="Namespace of objects that name none.")
@click.option(
    "--fix", is_flag=True, help="Rename misspelt fields if the correction is unambiguous."
)
@gates_option
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "github", "sarif"]),
    default="text",
    help="Output format.",
)
@click.pass_context
def validate(
    ctx: click.Context, /, paths: tuple[str, ...], namespace: str, output: str, **flags: Any
) -> None:
    """Validate files and directories of manifests offline.

    \b
    Examples:
      gitkruise validate
      gitkruise validate apps/checkout batch/report.yaml
      gitkruise validate --fix apps/checkout/cloneset.yaml
      gitkruise validate -o github

    Files that only kustomize or helm reads (kustomizations, their patches and generator inputs,
    charts, values of units) and those that ignore files of a folder match are skipped;
    `gitkruise plan` validates the rendered objects. Variables have the values that a unit with the
    file gives them in `render.substitute.vars`.
    """
    from gitkruise.gitops.build.validate import (  # noqa: PLC0415  imports the schemas
        check_documents,
        unknown_builtins,
        with_crds,
    )
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415
    from gitkruise.model.workloads.feature_gates import parse_gates  # noqa: PLC0415

    given = [existing(p, "file or directory") for p in paths or (".",)]
    gates, catalog = parse_gates(flags["feature_gates"]), load_catalog()
    unfixed: tuple[Finding, ...] = ()
    if flags["fix"]:
        from gitkruise.cli.context.autofix import fix  # noqa: PLC0415  only with --fix

        unfixed = fix(lambda: _read(given)[0], catalog, namespace)
    documents, own, findings = _read(given)
    objects, found = check_documents(documents, catalog, namespace=namespace, gates=gates)
    served = with_crds(catalog, documents)
    findings = [*unfixed, *findings, *found, *unknown_builtins(objects, served)]
    _print(findings, output, objects=len(documents) + own)
    ctx.exit(1 if any(f.is_error for f in findings) else 0)


def _read(paths: Sequence[Path]) -> tuple[list[Document], int, list[Finding]]:
    """Return manifests, the number of other documents (of gitkruise, or with unknown values), and
    what is wrong with any file."""
    documents: list[Document] = []
    findings: list[Finding] = []
    own = unchecked = 0
    files = sorted(set(_files(paths)))
    inputs = _kustomize_inputs(files)
    read = {
        file: _refused(file) if _is_refused(file) and file not in paths else _parsed(file)
        for file in files
        if file.resolve() not in inputs and not _in_chart(file.resolve().parent)
    }
    configured = _with_configs(read)
    values, variables = _values_files(configured), _variables(configured)
    for file, parsed in read.items():
        if file.resolve() in values:
            continue
        findings += parsed.findings
        if file.resolve() == _top(file.resolve().parent) / CONFIG_FILE:
            findings += _config(parsed, file.parent)
            own += len(parsed.documents)
            continue
        for document in _expanded(parsed):
            if isinstance(document, Finding):
                findings.append(document)
            elif _is_own(document):
                findings += _own(document)
                own += 1
            else:
                for one in _sealed(document, findings):
                    made, wrong = _substituted(one, file.resolve(), variables)
                    findings += wrong
                    documents += [made] if made is not None else []
                    unchecked += made is None
    return documents, own + unchecked, findings


# All of the modules below import git and subprocesses, which most manifests do not need.


def _is_refused(file: Path) -> bool:
    """Return whether a path is a link, or a repository in a repository."""
    return file.is_symlink() or file.is_dir()


def _refused(file: Path) -> Parsed:
    """Return the finding that a plan has on a link or submodule that the user does not name."""
    from gitkruise.git.parsing.documents import Parsed  # noqa: PLC0415  start-up budget
    from gitkruise.git.plumbing.trees import (  # noqa: PLC0415  as above
        SUBMODULE,
        SYMLINK,
        TreeEntry,
        entry_problem,
    )

    mode = SYMLINK if file.is_symlink() else SUBMODULE
    problem = entry_problem(TreeEntry(file.as_posix(), mode, ""))
    assert problem is not None
    code, why = problem
    places = (SourcePlace(file=str(file)),)
    return Parsed((), (Finding(code=code, message=f"{file}: {why}", places=places),))


def _expanded(parsed: Parsed) -> Iterator[Document | Finding]:
    from gitkruise.git.parsing.documents import expanded  # noqa: PLC0415  start-up budget

    return chain.from_iterable(map(expanded, parsed.documents))


def _sealed(document: Document, findings: list[Finding]) -> Iterator[Document]:
    """Yield a document encrypted with SOPS without its values, any other as it is; one that no unit
    opens is a finding."""
    from gitkruise.git.parsing.documents import is_encrypted  # noqa: PLC0415  start-up budget

    if not is_encrypted(document.obj):
        yield document
        return
    from gitkruise.git.manifests.decryption import check_kind  # noqa: PLC0415  start-up budget
    from gitkruise.git.manifests.sops import sealed  # noqa: PLC0415  start-up budget

    try:
        check_kind(document)
        yield sealed(document)
    except InvalidManifests as error:
        findings += error.findings


def _parsed(file: Path) -> Parsed:
    from gitkruise.git.parsing.documents import LIMITS, Parsed, parse_file, too_large  # noqa: PLC0415

    size = file.stat().st_size
    if file.is_file() and size > LIMITS.file_bytes:
        return Parsed((), (too_large(str(file), size),))
    return parse_file(read_named(file), str(file))


def _kustomize_inputs(files: Sequence[Path]) -> set[Path]:
    """Return kustomizations, and the files they name that are not resources."""
    inputs: set[Path] = set()
    for file in files:
        if file.name not in KUSTOMIZATION_NAMES:
            continue
        inputs.add(file.resolve())
        for document in _parsed(file).documents:
            inputs |= {(file.parent / name).resolve() for name in _named(document.obj)}
    return inputs


def _with_configs(read: Mapping[Path, Parsed]) -> dict[Path, Parsed]:
    """Return these files and the configurations of their checkouts."""
    found = dict(read)
    for top in {_top(file.resolve().parent) for file in read}:
        config = top / CONFIG_FILE
        if config.is_file():
            found.setdefault(config, _parsed(config))
    return found


def _variables(read: Mapping[Path, Parsed]) -> list[tuple[Path, Values]]:
    """Return the folders of units that substitute variables, and the values that they give."""
    from gitkruise.git.manifests.substitute import Value, Values  # noqa: PLC0415  seldom needed
    from gitkruise.wire.primitives.paths import get  # noqa: PLC0415  start-up budget

    found = []
    for file, parsed in read.items():
        for document in parsed.documents:
            substitute = get(document.obj, "spec", "render", "substitute")
            if not (isinstance(substitute, dict) and _is_own(document)):
                continue
            named, path = substitute.get("vars"), get(document.obj, "spec", "path", default=".")
            texts = named if isinstance(named, dict) else {}
            known = {name: Value(text=v) for name, v in texts.items() if isinstance(v, str)}
            values = Values(
                known=known,
                strict=substitute.get("strict") is not False,
                elsewhere="a ConfigMap or Secret of the cluster"
                if _listed(substitute, "from")
                else "",
                why="gitkruise validate asks no cluster; gitkruise plan --context NAME does",
            )
            folder = (_top(file.resolve().parent) / str(path).strip("/")).resolve()
            found.append((folder, values))
    return found


def _substituted(
    document: Document, file: Path, variables: Sequence[tuple[Path, Values]]
) -> tuple[Document | None, list[Finding]]:
    """Return a document as the unit with its file renders it, and the findings; None if values of
    its variables are not known."""
    mine = (values for folder, values in variables if folder in file.parents)
    if (found := next(mine, None)) is None:
        return document, []
    from gitkruise.git.manifests.substitute import substitute  # noqa: PLC0415  as above

    made, wrong = substitute(document, found)
    unknown = wrong if found.elsewhere else [f for f in wrong if f.is_error]
    return None if unknown else made, wrong


def _values_files(read: Mapping[Path, Parsed]) -> set[Path]:
    """Return the files of values that the units among these files name."""
    from gitkruise.wire.primitives.paths import get  # noqa: PLC0415  start-up budget

    return {
        (_top(file.resolve().parent) / name).resolve()
        for file, parsed in read.items()
        for document in parsed.documents
        for name in _texts(_listed(get(document.obj, "spec", "render", "helm"), "valuesFiles"))
    }


@functools.cache
def _top(folder: Path) -> Path:
    """Return the folder of the checkout, or `folder` outside of one."""
    return next((one for one in (folder, *folder.parents) if (one / ".git").exists()), folder)


@functools.cache
def _in_chart(folder: Path) -> bool:
    """Return whether a folder is that of a Helm chart, or in one."""
    if (folder / _CHART).is_file():
        return True
    return folder.parent != folder and _in_chart(folder.parent)


def _named(kustomization: object) -> Iterator[str]:
    """Yield the paths in fields of a kustomization that do not list resources."""
    for field in _NOT_RESOURCES:
        for entry in _listed(kustomization, field):
            yield from _texts([entry.get("path") if isinstance(entry, dict) else entry])
    for field in ("configMapGenerator", "secretGenerator"):
        for entry in _listed(kustomization, field):
            names = _texts([*_listed(entry, "files"), *_listed(entry, "envs")])
            yield from (name.rpartition("=")[2] for name in names)


def _listed(value: object, field: str) -> list[Any]:
    """Return the list at a field, or an empty one: `plan` reports wrong types."""
    found = value.get(field) if isinstance(value, dict) else None
    return found if isinstance(found, list) else []


def _texts(values: Iterable[object]) -> Iterator[str]:
    return (value for value in values if isinstance(value, str) and value and "\0" not in value)


def _config(parsed: Parsed, folder: Path) -> Sequence[Finding]:
    """Return what `run` refuses of a configuration whose documents can be read."""
    from gitkruise.gitops.config.loader import make_config  # noqa: PLC0415  imports jsonschema

    try:
        make_config(list(parsed.documents if parsed.ok else ()), folder)
    except UsageProblem as error:
        return error.findings
    return ()


def _is_own(document: Document) -> bool:
    """Return whether a document is of the group of gitkruise, in whatever version."""
    from gitkruise.wire.primitives.paths import get  # noqa: PLC0415

    return str(get(document.obj, "apiVersion", default="")).partition("/")[0] == OWN_GROUP


def _own(document: Document) -> list[Finding]:
    from gitkruise.gitops.config.loader import check_document  # noqa: PLC0415  imports jsonschema

    return list(check_document(document))


def _files(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield manifest files, except hidden ones, those in hidden folders and those that ignore
    files leave out; and the links to folders and the submodules among them."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        ignored, modules = _ignored(path), set[Path]()
        checkout = (_top(path.resolve()) / ".git").exists()
        for file in sorted(path.rglob("*")):
            hidden = any(part.startswith(".") for part in file.relative_to(path).parts)
            if hidden or ignored(file) or not modules.isdisjoint(file.parents):
                continue
            if checkout and file.is_dir() and (file / ".git").exists():
                modules.add(file)
            manifest = file.is_file() and file.suffix.lower() in SUFFIXES
            if manifest or file in modules or (file.is_dir() and file.is_symlink()):
                yield file


def _ignored(path: Path) -> Callable[[Path], bool]:
    """Return whether ignore files leave a file below `path` out."""
    from gitkruise.git.manifests.ignore import FolderFiles, Ignored  # noqa: PLC0415  start-up budget

    here = path.resolve()
    top = _top(here)
    rules = Ignored(FolderFiles(top), "", "", ())
    return lambda file: (here / file.relative_to(path)).relative_to(top).as_posix() in rules


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
            say(findings_text(findings, style).split("\n"), style)
        errors = sum(f.is_error for f in findings)
        problems = "no problem"
        if findings:
            problems = f"{many(errors, 'error')}, {many(len(findings) - errors, 'warning')}"
        say_on_stderr(f"{many(objects, 'object')}: {problems}")
