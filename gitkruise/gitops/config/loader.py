"""Loader of gitkruise.yaml: every problem with its line, unknown fields, unresolved references."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from gitkruise.errors import Finding, InvalidManifests, SourceFailed, UsageProblem
from gitkruise.git.manifests.substitute import NAME
from gitkruise.git.parsing.documents import expanded, parse_file
from gitkruise.git.plumbing.refs import full_ref
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.gitops.config.dependency_checks import (
    impossible_waits,
    missing_for,
    missing_units,
)
from gitkruise.gitops.config.fast_validate import sound
from gitkruise.gitops.config.forge_checks import forge_findings, notify_findings
from gitkruise.gitops.config.other_tools import instead_of_field, instead_of_kind
from gitkruise.gitops.config.promotion_checks import (
    bare_step,
    image_findings,
    impossible_promotions,
)
from gitkruise.gitops.config.registry_checks import (
    artifact_findings,
    base_findings,
    chart_findings,
    range_findings,
)
from gitkruise.kube.system.package_data import read_json
from gitkruise.kube.system.private_files import read_regular
from gitkruise.model.gitops.config import (
    DURATIONS,
    MAY_BE_ZERO,
    OCI,
    SPECS,
    Config,
    GitSource,
    Prune,
    Receiver,
    Sink,
    Unit,
    decode_spec,
)
from gitkruise.model.gitops.document import Document
from gitkruise.planner.sync.annotations import ACCEPT_REWRITE, APPROVE
from gitkruise.wire.primitives.names import OWN_API, OWN_GROUP, GroupKind, Obj, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.secret_names import keeps_secret, path_names_secret
from gitkruise.wire.primitives.times import parse_duration, parse_time

if TYPE_CHECKING:
    import jsonschema

# Fields whose content is the user's own: values of a chart, variables.
_FREE: Final = (("spec", "render", "helm", "values"), ("spec", "render", "substitute", "vars"))
_CLASSES: Final = {"GitSource": GitSource, "Unit": Unit, "Sink": Sink, "Receiver": Receiver}
SUFFIXES: Final = (".yaml", ".yml", ".json")
_CORRECT: Final = (("next", "correct the file; --config also takes a directory of smaller files"),)
INTERVAL_MIN: Final = timedelta(milliseconds=100)  # of polls, rounds, pauses and deadlines


def load_config(path: Path) -> Config:
    """Load the documents of a file, or of the files in a directory. Raises UsageProblem GK70xx.

    Relative `url`s of sources (`.`, `./…`, `../…`) are resolved from the file's directory.
    """
    if not path.exists():
        raise UsageProblem(
            Finding(
                code="GK7001",
                message=f"there is no configuration at {path}",
                notes=(
                    ("next", "name one: --config PATH; gitkruise init writes one for a checkout"),
                ),
            )
        )
    documents = [d for file in config_files(path) for d in _documents(file)]
    made = make_config(documents, path if path.is_dir() else path.parent)
    # Links stay: the files of a mounted ConfigMap lead to another folder after each change.
    return msgspec.structs.replace(made, origin=str(path.absolute()))


def config_files(path: Path) -> list[Path]:
    """Return the files of a configuration: itself, or those of a directory that have documents."""
    return sorted(p for p in path.iterdir() if _is_config(p)) if path.is_dir() else [path]


def _is_config(path: Path) -> bool:
    return path.is_file() and path.suffix in SUFFIXES and not path.name.startswith(".")


def _documents(file: Path) -> Iterator[Document]:
    try:
        data = read_regular(file)
    except OSError as error:
        message = f"cannot read the configuration {file}: {error.strerror or error}"
        notes = (("unchanged", "nothing was started"), ("next", "name a readable YAML file"))
        raise UsageProblem(Finding(code="GK7001", message=message, notes=notes)) from error
    parsed = parse_file(data, str(file))
    if not parsed.ok:
        raise UsageProblem(*(replace(f, notes=f.notes or _CORRECT) for f in parsed.findings))
    yield from parsed.documents


def make_config(read: list[Document], directory: Path) -> Config:
    """Return the configuration of the documents of `read`, Lists among them. Raises UsageProblem
    with every finding."""
    items = [item for document in read for item in expanded(document)]
    documents = [item for item in items if isinstance(item, Document)]
    faults = [replace(f, notes=f.notes or _CORRECT) for f in items if isinstance(f, Finding)]
    findings = faults + [f for document in documents for f in check_document(document)]
    if findings:
        raise UsageProblem(*findings)
    found: dict[str, dict[str, Any]] = {kind: {} for kind in SPECS}
    for document in documents:
        kind, name = document.obj["kind"], document.obj["metadata"]["name"]
        namespace = get(document.obj, "metadata", "namespace", default="default")
        if f"{namespace}/{name}" in found[kind]:
            raise UsageProblem(_twice(document, f"{kind} {namespace}/{name}"))
        found[kind][f"{namespace}/{name}"] = declared(document, _absolute(document, directory))
    config = Config(found["GitSource"], found["Unit"], found["Sink"], found["Receiver"])
    unresolved = list(_unresolved(config))
    unresolved = unresolved or [
        *impossible_waits(config), *_bad_windows(config), *impossible_promotions(config),
    ]  # fmt: skip
    if unresolved:
        raise UsageProblem(*unresolved)
    return config


def declared(document: Document, obj: Obj) -> GitSource | Unit | Sink | Receiver:
    """Decode a document without findings; `obj` is its object with absolute paths."""
    namespace = get(obj, "metadata", "namespace", default="default")
    made: Any = _CLASSES[obj["kind"]](namespace, obj["metadata"]["name"], decode_spec(obj))
    if isinstance(made, Unit):
        mark = get(obj, "metadata", "annotations", APPROVE, default="")
        return msgspec.structs.replace(made, origin=document, approved=mark)
    if isinstance(made, GitSource):
        mark = get(obj, "metadata", "annotations", ACCEPT_REWRITE, default="")
        return msgspec.structs.replace(made, accepted=mark)
    placed: Sink | Receiver = msgspec.structs.replace(made, origin=document)
    return placed


def _twice(document: Document, what: str) -> Finding:
    return Finding(
        code="GK7008",
        message=f"{what} is declared twice",
        places=(document.place(("metadata", "name")),),
        notes=(("next", "keep one"),),
    )


def _absolute(document: Document, directory: Path) -> Mapping[str, Any]:
    url = get(document.obj, "spec", "url", default="")
    if document.obj["kind"] != "GitSource" or not url.startswith("."):
        return document.obj
    spec = {**document.obj["spec"], "url": str((directory / url).resolve())}
    return {**document.obj, "spec": spec}


def check_document(document: Document) -> Iterator[Finding]:
    """Check one gitkruise document against the published schema and the rules beyond it."""
    obj = document.obj
    kind = obj.get("kind")
    if obj.get("apiVersion") != OWN_API or not isinstance(kind, str) or kind not in SPECS:
        group = split_api_version(str(obj.get("apiVersion") or ""))[0]
        instead = instead_of_kind(GroupKind(group, str(kind)))
        following = f"use apiVersion {OWN_API} and one of {', '.join(SPECS)}"
        yield Finding(
            code="GK7002",
            message=f"{obj.get('apiVersion')} {kind} is not one of gitkruise's documents",
            places=(document.place(("kind",), label=instead),),
            notes=(("next", following),),
        )
        return
    errors = [] if sound(_schema(kind), obj) else list(_validator(kind).iter_errors(obj))
    for error in errors:
        yield from _schema_findings(document, error)
    if not errors and not get(obj, "metadata", "name", default=""):
        yield Finding(
            code="GK7003",
            message=f"{kind} has no metadata.name",
            places=(document.place(("metadata",)),),
            notes=(("next", "give it a name"),),
        )
    if not errors:
        yield from _bad_durations(document, kind)
        yield from _bad_values(document)
        yield from _bad_times(document)
        yield from _bad_path(document) if kind == "Unit" else ()
        yield from chart_findings(document) if kind == "Unit" else ()
        yield from base_findings(document) if kind == "Unit" else ()
        yield from image_findings(document) if kind == "Unit" else ()
        if kind == "GitSource":
            yield from (*artifact_findings(document), *_bad_refs(document))
            yield from _impossible(document)
        yield from (*forge_findings(document), *notify_findings(document)) if kind == "Sink" else ()


@cache
def _schema(kind: str) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = read_json("json", f"{kind}-{OWN_GROUP}-v1alpha1.json")
    return schema


@cache
def _validator(kind: str) -> jsonschema.protocols.Validator:
    import jsonschema  # noqa: PLC0415  slow to import, and not needed for what is right

    draft = jsonschema.Draft202012Validator
    # To JSON Schema 1e300 is an integer, to us and Go it is not.
    whole = draft.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    strict: Callable[[Mapping[str, Any]], jsonschema.protocols.Validator]
    strict = jsonschema.validators.extend(draft, type_checker=whole)  # type: ignore[no-untyped-call]
    return strict(_schema(kind))


def _schema_findings(document: Document, error: jsonschema.ValidationError) -> Iterator[Finding]:
    path = tuple(error.absolute_path)
    if error.validator == "additionalProperties":
        assert isinstance(error.schema, Mapping)
        assert isinstance(error.instance, Mapping)
        import difflib  # noqa: PLC0415  only for what is misspelt

        known = sorted(error.schema.get("properties", {}))
        for name in sorted(set(error.instance) - set(known)):
            near = difflib.get_close_matches(name, known, 1)
            instead = instead_of_field(document.obj["kind"], (*path, name))
            guess = f'did you mean "{near[0]}"?' if near else ""
            yield Finding(
                code="GK7003",
                message=f'unknown field "{name}" in {document.obj["kind"]} {_dotted(path)}',
                places=(
                    document.place(
                        (*path, name),
                        key=True,
                        label=instead or guess,
                    ),
                ),
                notes=(("next", instead or f"known fields: {', '.join(known)}"),),
            )
        return
    if (bare := bare_step(document, path, error.instance)) is not None:
        yield bare
        return
    yield Finding(
        code="GK7003",
        message=f"{document.obj['kind']} {_dotted(path)}: {_problem_text(document, path, error)}",
        places=(document.place(path),),
        notes=_unquoted(document, path, error.instance) or _instead(document, path),
    )


def _problem_text(
    document: Document, path: tuple[str | int, ...], error: jsonschema.ValidationError
) -> str:
    """The schema's refusal; it quotes no value that may be a secret."""
    value = error.instance
    free = path[:-1] in _FREE or path in _FREE
    hidden = free and not isinstance(value, bool | int | float)
    hidden = hidden or path_names_secret(document.obj, path) or keeps_secret([value])
    return error.message.replace(repr(value), "the value") if hidden else error.message


def _instead(document: Document, path: tuple[str | int, ...]) -> tuple[tuple[str, str], ...]:
    instead = instead_of_field(document.obj["kind"], path)
    return (("next", instead),) if instead else ()


def _unquoted(
    document: Document, path: tuple[str | int, ...], value: object
) -> tuple[tuple[str, str], ...]:
    """Explain a plain word such as `off`, which YAML 1.1 reads as true or false."""
    word = document.written(path)
    if not isinstance(value, bool) or word.lower() in {"true", "false", ""}:
        return ()
    meant = str(value).lower()
    return (
        ("why", f"the plain word {word} means {meant} in YAML"),
        ("next", f'quote it: "{word}"'),
    )


def _dotted(path: tuple[str | int, ...]) -> str:
    return ".".join(str(part) for part in path) or "document"


def _bad_durations(document: Document, kind: str) -> Iterator[Finding]:
    for path in DURATIONS[kind]:
        text = get(document.obj, "spec", *path)
        if text is None:
            continue
        try:
            found, why = parse_duration(str(text)), ""
        except ValueError as error:
            found, why = INTERVAL_MIN, str(error)
        if path not in MAY_BE_ZERO and found < INTERVAL_MIN:
            why = f"{text} is less than 100ms"
        if why:
            yield Finding(
                code="GK7005",
                message=f"spec.{_dotted(path)}: {why}",
                places=(document.place(("spec", *path)),),
            )


def _bad_path(document: Document) -> Iterator[Finding]:
    """GK3010 for a path that no repository can have."""
    path = ("spec", "path")
    try:
        clean_path(get(document.obj, *path, default=""))
    except InvalidManifests as error:
        notes = (("next", "write it relative to the repository's root, such as apps/web"),)
        places = (document.place(path),)
        yield from (replace(found, places=places, notes=notes) for found in error.findings)


def _bad_times(document: Document) -> Iterator[Finding]:
    path = ("spec", "suspend", "until")
    suspend = get(document.obj, *path[:-1])
    text = suspend.get("until", "") if isinstance(suspend, Mapping) else ""
    try:
        parse_time(str(text))
    except ValueError:
        yield Finding(
            code="GK7003",
            message=f"Unit spec.suspend.until: {str(text)!r} is not a time with a time zone",
            places=(document.place(path),),
            notes=(("next", 'write it as RFC 3339 does: "2026-11-21T20:00:00Z"'),),
        )


def _bad_values(document: Document) -> Iterator[Finding]:
    """Findings for invalid variable names, for sources that name no object or two, and for a chart
    that is not rendered."""
    substitute = get(document.obj, "spec", "render", "substitute", default={})
    where = ("spec", "render", "substitute")
    for name in substitute.get("vars", {}):
        if not NAME.fullmatch(name):
            yield Finding(
                code="GK7003",
                message=f"{document.obj['kind']} {_dotted(where)}: {name!r} is no name",
                places=(document.place((*where, "vars", name), key=True),),
                notes=(("next", "use letters, digits and _, with no digit in front"),),
            )
    for at in ((*where, "from"), ("spec", "render", "helm", "valuesFrom")):
        for number, source in enumerate(get(document.obj, *at, default=())):
            if sum(bool(source.get(name)) for name in ("configMap", "secret")) != 1:
                yield Finding(
                    code="GK7003",
                    message=f"{document.obj['kind']} {_dotted(at)}: a source names one object",
                    places=(document.place((*at, number)),),
                    notes=(("next", "write {configMap: NAME} or {secret: NAME}"),),
                )
    render = get(document.obj, "spec", "render", default={})
    if "helm" in render and render.get("kind") != "helm":
        yield Finding(
            code="GK7003",
            message=f"{document.obj['kind']} spec.render.helm: only kind: helm renders a chart",
            places=(document.place(("spec", "render", "helm"), key=True),),
            notes=(("next", "write render.kind: helm, or take render.helm out"),),
        )


def _bad_refs(document: Document) -> Iterator[Finding]:
    """GK7003 for a name that no ref of git can have."""
    spec = document.obj["spec"]
    if spec["url"].startswith(OCI):
        return  # tags of registries follow other rules
    for field, folder in (("branch", ""), ("tag", "refs/tags/"), ("name", "")):
        name = get(spec, "ref", field, default="")
        if not name:
            continue
        try:
            full_ref(folder + name)
        except SourceFailed as error:
            yield Finding(
                code="GK7003",
                message=f"GitSource spec.ref.{field}: {error.findings[0].message}",
                places=(document.place(("spec", "ref", field)),),
                notes=(("next", "write the name as `git for-each-ref` shows it"),),
            )


def _impossible(document: Document) -> Iterator[Finding]:
    """Findings for requirements on a source that cannot be met."""
    spec = document.obj["spec"]
    semver = get(spec, "ref", "semver", default="")
    if semver:
        yield from range_findings(document, semver, ("spec", "ref", "semver"))
    verify = spec.get("verify")
    if verify is None:
        return
    place = document.place(("spec", "verify"), key=True)
    if not verify.get("secretRef") and not spec["url"].startswith(OCI):
        notes = [("next", "name the Secret with the trusted keys: verify.secretRef.name")]
        message = "verify names no keys to trust"
        yield Finding(code="GK7023", message=message, places=(place,), notes=tuple(notes))
    name = get(spec, "ref", "name", default="")
    tagged = semver or get(spec, "ref", "tag", default="") or name.startswith("refs/tags/")
    mode = verify.get("mode", "head")
    if mode in {"tag", "tagAndHead"} and not tagged:
        notes = [
            (
                "next",
                "follow a tag with ref.tag or ref.semver, or use mode: head, firstParent or range",
            ),
        ]
        message = f"verify.mode {mode} wants a tag, and this source follows none"
        yield Finding(code="GK7023", message=message, places=(place,), notes=tuple(notes))


def _bad_windows(config: Config) -> Iterator[Finding]:
    if any(unit.spec.windows for unit in config.units.values()):
        from gitkruise.gitops.config.sync_window_checks import impossible_windows  # noqa: PLC0415  seldom needed

        yield from impossible_windows(config)


def _unremembered(unit: Unit) -> Finding:
    assert unit.origin is not None
    return Finding(
        code="GK7007",
        message=f"prune.deletionPolicy of unit {unit.id} would be forgotten: it has no sinkRef",
        places=(unit.origin.place(("spec", "prune", "deletionPolicy"), key=True),),
        notes=(
            ("why", "once a unit left the configuration, its status branch alone knows of it"),
            ("next", "give the unit a sinkRef, or take prune.deletionPolicy out"),
        ),
    )


def _unresolved(config: Config) -> Iterator[Finding]:
    for unit in config.units.values():
        yield from missing_for(unit, config)
        yield from missing_units(unit, config)
        forgettable = unit.spec.prune.deletion_policy != Prune().deletion_policy
        if forgettable and not unit.spec.sink_ref:
            yield _unremembered(unit)
    for sink in config.sinks.values():
        yield from missing_for(sink, config)
    for receiver in config.receivers.values():
        yield from missing_for(receiver, config)
