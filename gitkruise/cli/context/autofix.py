"""validate --fix: rename misspelt fields in place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitkruise.cli.console.output import say_on_stderr
from gitkruise.errors import Finding, InvalidManifests

if TYPE_CHECKING:
    from gitkruise.gitops.build.typos import Slip
    from gitkruise.model.gitops.document import Document
    from gitkruise.wire.catalog.catalog import Catalog

_ROUNDS: Final = 16  # a field below a renamed one is checked in the next round


def fix(
    read: Callable[[], Iterable[Document]], catalog: Catalog, namespace: str
) -> tuple[Finding, ...]:
    """Rename unambiguous misspellings in the files that `read` reads, and print each.

    Returns a finding for each file that could not be changed; these files are unchanged.
    """
    failed: dict[str, Finding] = {}
    for _ in range(_ROUNDS):
        found = _by_file(read(), catalog, namespace)
        todo = {file: slips for file, slips in found.items() if file not in failed}
        if not todo:
            break
        for file, slips in todo.items():
            try:
                _fix_file(Path(file), slips)
            except InvalidManifests as error:
                failed[file] = error.findings[0]
            except OSError as error:
                failed[file] = _unwritten(file, error)
    return tuple(failed.values())


def _by_file(
    documents: Iterable[Document], catalog: Catalog, namespace: str
) -> dict[str, list[Slip]]:
    from gitkruise.gitops.build.desired import desired_of  # noqa: PLC0415
    from gitkruise.gitops.build.typos import slips  # noqa: PLC0415
    from gitkruise.gitops.build.validate import with_crds  # noqa: PLC0415  imports the schemas

    documents = list(documents)
    served = with_crds(catalog, documents)
    out: dict[str, list[Slip]] = {}
    for document in documents:
        desired, _ = desired_of(document, served, namespace)
        if desired is None:
            continue
        kind = served.by_kind(desired.key.group, desired.version, desired.key.kind)
        for slip in slips(desired, kind) if kind else ():
            out.setdefault(document.file, []).append(slip)
    return out


def _fix_file(file: Path, slips: Sequence[Slip]) -> None:
    from gitkruise.git.edit.rename_key import rename_keys  # noqa: PLC0415  imports libyaml
    from gitkruise.kube.system.private_files import read_regular  # noqa: PLC0415

    renamings = [(s.document.index, (*s.document.base, *s.path), s.name) for s in slips]
    _replace(file.resolve(), rename_keys(read_regular(file), str(file), renamings))
    for slip in slips:
        place = slip.document.place(slip.path, key=True)
        say_on_stderr(f"renamed {slip.path[-1]} → {slip.name}  {place}")


def _replace(file: Path, data: bytes) -> None:
    """Replace the file atomically; it keeps its mode."""
    import tempfile  # noqa: PLC0415  slow to import, and seldom needed

    with tempfile.TemporaryDirectory(dir=file.parent, prefix=".gitkruise-") as folder:
        new = Path(folder) / file.name
        new.write_bytes(data)
        new.chmod(file.stat().st_mode)
        new.replace(file)


def _unwritten(file: str, error: OSError) -> Finding:
    return Finding(
        code="GK3603",
        message=f"cannot write {file}: {error.strerror or error}",
        notes=(("unchanged", "the file"), ("next", "make it and its folder writable")),
    )
