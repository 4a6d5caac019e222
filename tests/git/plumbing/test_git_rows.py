"""Hostile and odd repositories: each row of the catalogue ends in its named outcome."""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from gitkruise.errors import DiagnosticError, InvalidManifests, SourceFailed
from gitkruise.git.manifests.reader import ParseCache, read_desired
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin, run_git

pytestmark = pytest.mark.slow

GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
Entries = Callable[[Origin], str]


def blob(origin: Origin, content: str = GOOD) -> str:
    return origin.blob(content.encode())


def tree(origin: Origin, lines: str) -> str:
    return run_git(origin.bare, "mktree", "--missing", data=lines.encode())


def raw_tree(origin: Origin, *entries: tuple[bytes, bytes, str]) -> str:
    """A tree object no mktree would write."""
    body = b"".join(
        mode + b" " + name + b"\0" + bytes.fromhex(target) for mode, name, target in entries
    )
    words = ("hash-object", "-w", "-t", "tree", "--literally", "--stdin")
    return run_git(origin.bare, *words, data=body)


def link(target: str) -> Entries:
    return lambda origin: f"120000 blob {blob(origin, target)}\tx.yaml\n"


def name(text: str, mode: str = "100644") -> Entries:
    return lambda origin: f"{mode} blob {blob(origin)}\t{text}\n"


def raw(mode: bytes, text: bytes) -> Entries:
    def entries(origin: Origin) -> str:
        inner = raw_tree(origin, (mode, text, blob(origin)))
        return f"040000 tree {inner}\tapp\n"

    return entries


REFUSED: list[tuple[str, str, Entries]] = [
    *((f"B-G11 {t[:12]}", "GK3011", link(t)) for t in (
        "/etc/passwd", "../../secret.yaml", "good.yaml", "gone.yaml", "x.yaml", "\x1b[2Jevil")),
    ("B-G11 folder", "GK3011", lambda o: f"120000 blob {blob(o, '/etc')}\tdir\n"),
    ("B-G12 dotgit", "GK3014", lambda o: f"040000 tree {tree(o, name('config')(o))}\t.git\n"),
    ("B-G12 case", "GK3014", name(".GIT")),
    ("B-G12 short", "GK3014", name("git~1")),
    ("B-G12 zero width", "GK3014", name(".git\u200c")),
    ("B-G12 dot", "GK3014", raw(b"100644", b"..")),
    ("B-G12 empty", "GK3014", raw(b"100644", b"")),
    ("B-G12 mode", "GK3014", raw(b"140000", b"x.yaml")),
    ("B-G13", "GK3012", lambda o: f"160000 commit {'1' * 40}\tsub\n"),
    ("B-G13 modules", "GK3011", lambda o: f"120000 blob {blob(o, '/etc/passwd')}\t.gitmodules\n"),
    ("B-G14 pointer", "GK3013", lambda o: "100644 blob "
     + blob(o, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n") + "\tx.yaml\n"),
    ("B-G30 not UTF-8", "GK3015", raw(b"100644", b"caf\xe9.yaml")),
    ("B-G30 long", "GK3014", raw(b"100644", b"x" * 4_091 + b".yaml")),
]  # fmt: skip


@pytest.mark.parametrize(("row", "code", "entries"), REFUSED, ids=[row[0] for row in REFUSED])
def test_a_hostile_tree_is_refused_by_name(
    origin: Origin, repository: Repository, row: str, code: str, entries: Entries
) -> None:
    del row
    findings = read_desired(repository, origin.plant(entries(origin))).findings
    assert [finding.code for finding in findings] == [code]
    text = findings[0].message + findings[0].places[0].file
    assert text.isprintable()
    assert len(text) < 700
    assert "root:" not in text


READ: list[tuple[str, int, Entries]] = [
    ("B-G14 attributes", 1, lambda o: name("x.yaml")(o) + "100644 blob "
     + blob(o, "*.yaml filter=evil diff=evil ident working-tree-encoding=UTF-16\n")
     + "\t.gitattributes\n"),
    ("B-G29 case", 2, lambda o: f"100644 blob {blob(o)}\tA.yaml\n100644 blob "
     + blob(o, GOOD.replace("a}", "b}")) + "\ta.yaml\n"),
    ("B-G29 form", 2, lambda o: f"100644 blob {blob(o)}\té.yaml\n100644 blob "
     + blob(o, GOOD.replace("a}", "b}")) + "\te\u0301.yaml\n"),
    ("B-G30 quote", 1, name('a"\'`$(touch x).yaml')),
    ("B-G30 newline", 1, raw(b"100644", b"a\n\tb.yaml")),
    ("B-G12 group", 1, name("x.yaml", mode="100664")),
    ("B-G15 embedded", 1, lambda o: name("x.yaml")(o) + "".join(
        f"100644 blob {blob(o, text)}\t{n}\n" for n, text in (
            ("HEAD", "ref: refs/heads/x\n"), ("config", "[core]\n\tfsmonitor = touch /tmp/evil\n")))
     + f"040000 tree {tree(o, '')}\tobjects\n040000 tree {tree(o, '')}\trefs\n"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "count", "entries"), READ, ids=[row[0] for row in READ])
def test_an_odd_tree_is_read(
    origin: Origin, repository: Repository, row: str, count: int, entries: Entries
) -> None:
    del row
    manifests = read_desired(repository, origin.plant(entries(origin))).checked()
    assert len(manifests.documents) == count
    assert all(place.file.isprintable() for f in manifests.findings for place in f.places)


PATHS = [
    ("B-G10 missing", "gone", "GK3202"), ("B-G10 link", "link", "GK3011"),
    ("B-G10 submodule", "sub", "GK3012"), ("B-G10 up", "../app", "GK3010"),
    ("B-G10 absolute", "/app", "GK3010"), ("B-G10 backslash", "app\\x", "GK3010"),
    ("B-G10 NUL", "app\0", "GK3010"), ("B-G10 blank", "app ", "GK3010"),
    ("B-G10 through a link", "link/x", "GK3202"), ("B-G10 below a file", "app/a.yaml/b", "GK3202"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "path", "code"), PATHS, ids=[row[0] for row in PATHS])
def test_a_path_that_leads_nowhere_is_refused(
    origin: Origin, repository: Repository, row: str, path: str, code: str
) -> None:
    del row
    inner = tree(origin, name("a.yaml")(origin))
    commit = origin.plant(
        f"040000 tree {inner}\tapp\n120000 blob {blob(origin, 'app')}\tlink\n"
        f"160000 commit {'1' * 40}\tsub\n"
    )
    with pytest.raises(DiagnosticError) as caught:
        read_desired(repository, commit, path).checked()
    finding = caught.value.findings[0]
    assert finding.code == code
    if code in {"GK3011", "GK3012"}:
        assert dict(finding.notes)["next"].startswith("name a folder in spec.path of the unit")


def test_a_name_that_is_a_path_stops_the_reading(origin: Origin, repository: Repository) -> None:
    """B-G12"""
    commit = origin.plant(raw(b"100644", b"../b.yaml")(origin))
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, commit)
    assert caught.value.findings[0].code == "GK3014"


def test_one_file_may_be_named(origin: Origin, repository: Repository) -> None:
    """B-G10: a single file is allowed when it is what the path says."""
    commit = origin.commit({"app/a.yaml": GOOD, "app/b.yaml": "not: [yaml"})
    assert len(read_desired(repository, commit, "app/a.yaml").checked().documents) == 1


def test_an_object_in_two_files_that_fold_into_one_name_is_reported(
    origin: Origin, repository: Repository
) -> None:
    """B-G29"""
    from gitkruise.gitops.build.validate import check_documents  # noqa: PLC0415  only here
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    commit = origin.commit({"A.yaml": GOOD, "a.yaml": GOOD})
    documents = read_desired(repository, commit).documents
    _, (finding,) = check_documents(documents, load_catalog(), namespace="shop")
    assert (finding.code, [p.file for p in finding.places]) == ("GK1301", ["A.yaml", "a.yaml"])


def test_a_huge_blob_is_never_read(origin: Origin, repository: Repository) -> None:
    """B-G17: its size is known from the listing; the rest of the source is reported as usual."""
    header = b"blob %d\0" % (80 << 20)
    packer = zlib.compressobj(1)
    packed = [packer.compress(header)]
    zeros = bytes(1 << 20)
    packed += [packer.compress(zeros) for _ in range(80)]
    packed.append(packer.flush())
    huge = "ab" * 20
    file = origin.bare / "objects" / huge[:2] / huge[2:]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"".join(packed))
    commit = origin.plant(f"100644 blob {huge}\tx.yaml\n100644 blob {blob(origin)}\ty.yaml\n")
    cache = ParseCache()
    began = time.process_time()
    (finding,) = read_desired(repository, commit, cache=cache).findings
    assert finding.code == "GK9006"  # more than a whole source may have
    assert cache.parsed == 0
    assert time.process_time() - began < 1


def test_a_bomb_of_trees_costs_little(origin: Origin, repository: Repository) -> None:
    """B-G16"""
    lines = "".join(f"100644 blob {blob(origin)}\tf{n}.yaml\n" for n in range(10))
    for _ in range(9):
        inner = tree(origin, lines)
        lines = "".join(f"040000 tree {inner}\td{n}\n" for n in range(10))
    commit = origin.plant(lines)
    began = time.process_time()
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, commit)
    assert caught.value.findings[0].code == "GK9020"
    assert time.process_time() - began < 2


@pytest.mark.parametrize("damage", ["truncated", "flipped", "emptied"])
def test_a_damaged_pack_is_an_error_of_the_source(origin: Origin, damage: str) -> None:
    """B-G18, B-G31: what is missing is never fetched on the way, and never taken for deleted."""
    commit = origin.commit({f"{n}.yaml": GOOD.replace("a}", f"a{n}}}") for n in range(50)})
    run_git(origin.bare, "repack", "-a", "-d", "-q")
    (pack,) = (origin.bare / "objects" / "pack").glob("*.pack")
    data = bytearray(pack.read_bytes())
    pack.chmod(0o644)
    spoilt = {
        "truncated": data[: len(data) // 2], "emptied": b"",
        "flipped": bytes(b ^ 0xFF if 200 < n < len(data) - 20 else b for n, b in enumerate(data)),
    }  # fmt: skip
    pack.write_bytes(bytes(spoilt[damage]))
    with pytest.raises(SourceFailed) as caught, Repository.open(str(origin.bare)) as repository:
        read_desired(repository, repository.resolve(commit)).checked()
    assert caught.value.findings[0].code.startswith("GK31") or caught.value.findings[
        0
    ].code.startswith("GK32")


@pytest.mark.parametrize("target", ["tree", "blob", "tag"])
def test_a_tag_must_end_in_a_commit(origin: Origin, repository: Repository, target: str) -> None:
    """B-G08"""
    commit = origin.commit({"a.yaml": GOOD})
    objects = {"tree": f"{commit}^{{tree}}", "blob": f"{commit}:a.yaml", "tag": commit}
    wanted = run_git(origin.bare, "rev-parse", objects[target])
    for number in range(12 if target == "tag" else 1):
        kind = "commit" if target == "tag" and not number else target
        text = f"object {wanted}\ntype {kind}\ntag t{number}\ntagger a <a@b> 1 +0000\n\nx\n"
        wanted = run_git(origin.bare, "mktag", data=text.encode())
    run_git(origin.bare, "update-ref", "refs/tags/t", wanted)
    with pytest.raises(SourceFailed) as caught:
        repository.resolve("refs/tags/t")
    assert caught.value.findings[0].code == "GK3201"


@pytest.mark.parametrize("state", ["empty", "unborn", "deleted"])
def test_a_repository_without_commits_is_no_empty_source(
    origin: Origin, repository: Repository, state: str
) -> None:
    """B-G09: an error, so that nothing is ever pruned for it."""
    if state != "empty":
        origin.commit({"a.yaml": GOOD}, branch="other")
    if state == "deleted":
        origin.commit({"a.yaml": GOOD})
        run_git(origin.bare, "update-ref", "-d", "refs/heads/main")
    with pytest.raises(SourceFailed) as caught:
        repository.tip("main")
    assert caught.value.findings[0].code == "GK3201"


def test_a_head_without_a_commit_is_the_user_s_to_fill(origin: Origin) -> None:
    with Repository.open(str(origin.bare)) as here, pytest.raises(SourceFailed) as caught:
        here.head()
    (finding,) = caught.value.findings
    assert finding.message == f'there is no commit "HEAD" in {origin.bare}'
    assert [name for name, _ in finding.notes] == ["next"]


def test_objects_of_other_repositories_are_not_borrowed(origin: Origin, tmp_path: Path) -> None:
    """B-G31: reading never reaches over the network for an object that is missing."""
    commit = origin.commit({"a.yaml": GOOD})
    marker = tmp_path / "touched"
    run_git(origin.bare, "config", "extensions.partialClone", "origin")
    run_git(origin.bare, "config", "remote.origin.promisor", "true")
    run_git(origin.bare, "config", "remote.origin.url", f"ext::sh -c 'touch {marker}'")
    found = run_git(origin.bare, "rev-parse", f"{commit}:a.yaml")
    (origin.bare / "objects" / found[:2] / found[2:]).unlink()
    with Repository.open(str(origin.bare)) as repository, pytest.raises(SourceFailed) as caught:
        read_desired(repository, commit)
    assert caught.value.findings[0].code == "GK3104"
    assert not marker.exists()


def test_what_a_commit_says_is_escaped_and_cut(origin: Origin, repository: Repository) -> None:
    """B-G23, B-G24"""
    made = run_git(origin.bare, "rev-parse", origin.commit({"a.yaml": GOOD}) + "^{tree}")
    message = "\x1b[31m@everyone \u202e" + "x" * (1 << 20)
    for when in ("0 +0000", "4102444800 +9999", "-5 +0000", "junk"):
        text = f"tree {made}\nauthor E\x07vil <a> {when}\ncommitter a <a> {when}\n\n{message}\n"
        commit = run_git(origin.bare, "hash-object", "-w", "-t", "commit", "--literally", "--stdin",
                         data=text.encode())  # fmt: skip
        info = repository.commit(commit)
        assert info.subject.isprintable()
        assert info.author.isprintable()
        assert len(info.subject) <= 2_048
        assert len(read_desired(repository, commit).documents) == 1
