"""2,000 random hostile repositories, read as a worker reads them: every outcome is declared."""

from __future__ import annotations

import hashlib
import random  # noqa: TID251  cases are drawn from a seed that is printed
import resource
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gitkruise.errors import Finding, InvalidManifests, SourceFailed
from gitkruise.git.manifests.reader import ParseCache
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import Builder, BuildRequest
from gitkruise.gitops.build.post_build import offline
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Reference, Render, Substitute, Unit, UnitSpec
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.printable import UNPRINTABLE
from tests.conftest import NIGHT
from tests.git.repos import make_origin

REPOSITORIES: Final = 20_000 if NIGHT else 2_000
SHARDS: Final = 4  # tests that may run side by side
FILES: Final = 400  # different files that most trees draw from
ENTRIES_MAX: Final = 2_500  # of all trees of a commit
CPU_MAX_S: Final = 2.0
Draw = random.Random
GOOD: Final = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %d}\ndata: {a: ${A:=b}}\n"
MODES: Final = (b"100644",) * 12 + (
    b"100755", b"120000", b"160000", b"100664", b"0", b"777", b"40000", b"140000", b"100600",
)  # fmt: skip
NAMES: Final[tuple[bytes, ...]] = (
    b"a.yaml", b"b.yml", b"c.json", b"kustomization.yaml", b"Kustomization", b".gitkruiseignore",
    b".sourceignore", b"\x1b[31mred.yaml", b"\x1b]52;c;eA==\x07.yaml", b"line\nfeed.yaml",
    b"cr\r.yaml", "\u202eexe.yaml".encode(), "\u2066x\u2069.yaml".encode(), b"\xff\xfe.yaml",
    b"\xc3.yaml", b".git", b"GIT~1", b".GIT ", b"..", b".", b"-rf.yaml", b"--help", b"a b.yaml",
    b"~.yaml", b"#x.yaml#", b"a" * 255 + b".yaml", b"con.yaml", b"*.yaml", b"[a.yaml", b"\\.yaml",
    "\u200b.git".encode(), b"app", b"sub", b"x.yaml~", b"$(id).yaml", b"`id`.yaml", b"%s.yaml",
    b"values.yaml", b"\x9b31m.yaml", b"\t.yaml", b"gitkruise.yaml",
)  # fmt: skip


def _laughs(draw: Draw) -> bytes:
    lines = [b"a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    for n in range(1, draw.randrange(2, 12)):
        lines += [b"a%d: &a%d [%s]" % (n, n, b", ".join([b"*a%d" % (n - 1)] * 9))]
    return b"\n".join(lines)


def _named(draw: Draw) -> bytes:
    odd = draw.choice(
        ["a", "\x1b[2J", "A", "a/b", "..", "a" * 300, "\u202ex", "a\\nb", "${A}", "1"]
    )
    quoted = odd.encode("unicode_escape").decode()
    return f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: "{quoted}"}}\n'.encode()


def _mixed(draw: Draw) -> bytes:
    """A good manifest with some of its bytes changed."""
    text = bytearray(GOOD.replace(b"%d", b"x"))
    for _ in range(draw.randrange(1, 8)):
        text[draw.randrange(len(text))] = draw.randrange(256)
    return bytes(text)


def _crd(draw: Draw) -> bytes:
    wrong = draw.choice(
        [b"maxLength: '10'", b"pattern: '(a*)*$'", b"minimum: '1'", b"x: ", b"pattern: '['"]
    )
    return (
        b"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n"
        b"metadata: {name: xs.e.io}\nspec: {group: e.io, scope: Namespaced,\n"
        b" names: {plural: xs, kind: X}, versions: [{name: v1, served: true, storage: true,\n"
        b"  schema: {openAPIV3Schema: {type: object, properties: {s: {type: string, "
        + wrong + b"}}}}}]}\n---\napiVersion: e.io/v1\nkind: X\nmetadata: {name: x}\ns: "
        + b"a" * draw.randrange(1, 2_000) + b"!\n"
    )  # fmt: skip


def _annotated(draw: Draw) -> bytes:
    name = draw.choice(["wave", "apply", "depends-on", "hook", "health", "hold", "prune", "ignore"])
    value = draw.choice(
        [
            "",
            "true",
            "[a]",
            "{a: b}",
            "'" + "[" * 3_000 + "'",
            "1e999",
            "'a.all(b, true)'",
            "~",
            "'\\x1b[2J'",
        ]
    )
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n"
        f"  annotations:\n    gitkruise.io/{name}: {value}\n"
    ).encode()


CONTENTS: Final[tuple[Callable[[Draw], bytes], ...]] = (
    lambda draw: GOOD % draw.randrange(50),
    lambda draw: b"---\n".join(GOOD % n for n in range(draw.randrange(1, 40))),
    _laughs,
    _named,
    _mixed,
    _mixed,
    _crd,
    _annotated,
    _annotated,
    lambda draw: draw.randbytes(draw.randrange(400)),
    lambda draw: b"[" * draw.randrange(1, 100_000),
    lambda draw: b"{a: " * draw.randrange(1, 20_000),
    lambda draw: b'{"a":' * draw.randrange(1, 50_000),
    lambda draw: b"a: " + b"9" * draw.randrange(1, 100_000),
    lambda draw: b"a: " + b"0x" + b"f" * draw.randrange(1, 50_000),
    lambda draw: b"- " * draw.randrange(1, 20_000),
    lambda draw: b"? " * draw.randrange(1, 20_000),
    lambda draw: b"a: &a *a\n",
    lambda draw: b"a: !!python/object:os.system x\n" * draw.randrange(1, 2_000),
    lambda draw: b"k%d: v\n" * 0 + b"\n".join(b"k: %d" % n for n in range(draw.randrange(3_000))),
    lambda draw: "\ufeff\u2028a: b".encode() * draw.randrange(1, 50),
    lambda draw: "a: b".encode("utf-16"),
    lambda draw: b"version https://git-lfs.github.com/spec/v1\n",
    lambda draw: b"data: " + b"${A:=" * draw.randrange(1, 3_000) + b"}",
    lambda draw: b"*a" * draw.randrange(1, 40) + b"*b\n",
    lambda draw: b"\n".join(b"[!-z]**/" * 9 for _ in range(draw.randrange(1, 1_200))),
    lambda draw: b"resources: [a.yaml, sub, ../app, http://127.0.0.1:9/x, /etc/passwd]\n",
    lambda draw: b"bases: [" + b"., " * draw.randrange(1, 50) + b"]\n",
    lambda draw: b"kind: Secret\napiVersion: v1\nmetadata: {name: s}\nstringData: {pin: }\n",
    lambda draw: b"/etc/passwd",
    lambda draw: b"",
)  # fmt: skip


class Planter:
    """Writes objects of a bare repository as they are, whatever they hold.

    Most files are drawn from a few hundred: repositories differ in their trees more cheaply than
    in their blobs.
    """

    def __init__(self, bare: Path, draw: Draw) -> None:
        self._folders = [bare / "objects" / f"{n:02x}" for n in range(256)]
        self._draw, self._written = draw, set[bytes]()
        for folder in self._folders:
            folder.mkdir(exist_ok=True)
        self._files = [self._file() for _ in range(FILES)]
        self._left = 0  # entries that the commit may still have

    def write(self, kind: bytes, data: bytes) -> bytes:
        whole = b"%s %d\0" % (kind, len(data)) + data
        name = hashlib.sha1(whole, usedforsecurity=False).digest()
        if name not in self._written:
            self._written.add(name)
            (self._folders[name[0]] / name[1:].hex()).write_bytes(zlib.compress(whole, 1))
        return name

    def commit(self) -> str:
        draw, self._left = self._draw, ENTRIES_MAX
        tree = self._tree(draw.randrange(1, 5))
        if draw.random() < 0.05:  # deep
            for _ in range(draw.randrange(60, 90)):
                tree = self.write(b"tree", b"40000 app\0" + tree)
        author = draw.choice(["a <a@b> 1 +0000", "\x1b[2J <> 99999999999999999 +9999", "x", "a <a"])
        subject = draw.choice(["x", "\x1b]0;x\x07", "\u202e", "a" * 5_000, ""])
        text = f"tree {tree.hex()}\nauthor {author}\ncommitter {author}\n\n{subject}\n"
        return self.write(b"commit", text.encode("utf-8", "surrogatepass")).hex()

    def _tree(self, depth: int) -> bytes:
        draw, entries = self._draw, {}
        count = draw.randrange(1, 12 if draw.random() > 0.01 else 2_000)
        for _ in range(min(count, self._left)):
            self._left -= 1
            name = draw.choice(NAMES) if draw.random() < 0.7 else b"%d.yaml" % draw.randrange(9_999)
            folder = depth > 0 and draw.random() < 0.25
            mode = b"40000" if folder else draw.choice(MODES)
            entries[name] = mode + b" " + name + b"\0" + self._entry(depth, folder)
        if draw.random() < 0.3:
            draw.shuffle(order := list(entries))
        else:
            order = sorted(entries)
        return self.write(b"tree", b"".join(entries[name] for name in order))

    def _entry(self, depth: int, folder: bool) -> bytes:
        draw = self._draw
        if draw.random() < 0.01:
            return draw.randbytes(20)  # not there
        if folder:
            return self._tree(depth - 1)
        return draw.choice(self._files) if draw.random() < 0.95 else self._file()

    def _file(self) -> bytes:
        return self.write(b"blob", self._draw.choice(CONTENTS)(self._draw))


def cpu() -> float:
    both = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(used.ru_utime + used.ru_stime for used in both)


def units(repository: Repository) -> Iterator[Builder]:
    """Units as people have them: the whole repository, a folder, with values, never rendered."""
    substitute = Substitute(vars={"A": "b"})
    for path, render in (
        ("", Render()), ("app", Render(substitute=substitute)), ("", Render(kind="plain")),
    ):  # fmt: skip
        spec = UnitSpec(source_ref=Reference(name="src"), path=path, render=render)
        unit = Unit("shop", "web", spec)
        yield Builder(repository=repository, unit=unit, gates=Gates(), cache=ParseCache())


def findings_of(reader: Builder, commit: str) -> tuple[Finding, ...]:
    """What is wrong with a commit; only declared errors are caught."""
    try:
        answer = reader.answer(BuildRequest(commit=commit), load_catalog(), offline(reader.unit))
    except (InvalidManifests, SourceFailed) as error:
        return error.findings
    assert answer.objects is not None or answer.findings
    return answer.findings


def texts(finding: Finding) -> Iterator[str]:
    """All that a finding says."""
    yield from (finding.message, finding.object, *(text for _, text in finding.notes))


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_repository_does_more_than_be_wrong(tmp_path: Path, fuzz_seed: int, shard: int) -> None:
    draw = Draw(f"{fuzz_seed} {shard}")
    origin = make_origin(tmp_path)
    planter = Planter(origin.bare, draw)
    bad: list[str] = []
    with closing(Repository.open(str(origin.bare))) as repository:
        for number in range(REPOSITORIES // SHARDS):
            commit = planter.commit()
            reader = draw.choice([*units(repository)])
            before = cpu()
            try:
                found = findings_of(reader, commit)
            except Exception as error:
                bad.append(f"{number} {reader.unit.spec.path!r}: {error!r}")
                continue
            if cpu() - before > CPU_MAX_S:
                bad.append(f"{number}: {cpu() - before:.1f} s CPU")
            bad += [
                f"{number}: {f.code} {text!r}"
                for f in found
                for text in texts(f)
                if UNPRINTABLE.search(text.replace("\n", ""))
            ]
    assert not bad, f"seed {fuzz_seed}, shard {shard}: {len(bad)}\n" + "\n".join(bad[:30])
