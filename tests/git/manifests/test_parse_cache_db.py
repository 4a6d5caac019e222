"""Parsed files are not parsed again after a restart, and a bad cache costs time alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gitkruise.git.manifests.reader import Manifests, ParseCache, read_desired
from gitkruise.git.parsing import parse_cache_db
from gitkruise.git.parsing.parse_cache_db import ParsedStore
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin

MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  a: b\n  k: '1'\n"
FILES = {
    "one.yaml": f"# first\n---\n---\n{MAP}---\n{MAP.replace('a}', 'b}')}",
    "two.json": '{"apiVersion": "v1", "kind": "A", "metadata": {"name": "j"}, "x": [1, 1.5, null]}',
    "list.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: B}\n",
}
SECRET = MAP.replace("ConfigMap", "Secret").replace("b\n", "hunter2\n")
LISTED = "apiVersion: v1\nkind: List\nitems:\n- {kind: Secret, data: {a: hunter2}}\n"
NOTED = MAP.replace("'1'", "no")


@contextmanager
def cache_at(path: Path) -> Iterator[ParseCache]:
    """The cache of one process that keeps its store at `path`."""
    with closing(ParsedStore(path)) as store:
        yield ParseCache(store=store)


def contents(manifests: Manifests) -> list[object]:
    return [
        (d.obj, d.file, d.index, d.line, str(d.place(("metadata", "name"))), d.base)
        for d in manifests.documents
    ]


def test_a_restart_parses_nothing_and_knows_every_place(
    origin: Origin, repository: Repository, tmp_path: Path
) -> None:
    commit, path = origin.commit(FILES), tmp_path / "state" / "parsed.sqlite"
    with cache_at(path) as cache:
        before = contents(read_desired(repository, commit, cache=cache).checked())
        assert cache.parsed == 3
    with cache_at(path) as cache:
        after = contents(read_desired(repository, commit, cache=cache).checked())
        assert cache.parsed == 0
        changed = origin.commit({"one.yaml": MAP})
        read_desired(repository, changed, cache=cache)
        assert cache.parsed == 1
    assert repr(after) == repr(before)  # distinguishes 1 from 1.0 and true
    assert path.stat().st_mode & 0o077 == 0


def test_many_reads_are_kept_in_one_transaction_at_their_end(
    origin: Origin, repository: Repository, tmp_path: Path
) -> None:
    first, path = origin.commit(FILES), tmp_path / "parsed.sqlite"
    second = origin.commit({"one.yaml": MAP})

    def kept() -> int:
        with closing(sqlite3.connect(path)) as seen:
            (count,) = seen.execute("SELECT count(*) FROM parsed").fetchone()
        return int(count)

    with cache_at(path) as cache:
        with cache.one_save():
            for commit in (first, second):
                read_desired(repository, commit, cache=cache).checked()
            assert kept() == 0
        assert kept() == 4
        read_desired(repository, origin.commit({"one.yaml": NOTED}), cache=cache)
        assert kept() == 4  # what has a finding is not kept
        read_desired(repository, origin.commit({"one.yaml": MAP + "# new"}), cache=cache)
        assert kept() == 5


@pytest.mark.parametrize("text", [SECRET, NOTED, LISTED], ids=["secret", "noted", "listed secret"])
def test_secrets_and_findings_about_files_stay_off_the_disk(
    origin: Origin, repository: Repository, tmp_path: Path, text: str
) -> None:
    commit, path = origin.commit({"a.yaml": text}), tmp_path / "parsed.sqlite"
    for _ in range(2):
        with cache_at(path) as cache:
            findings = read_desired(repository, commit, cache=cache).findings
            assert cache.parsed == 1
            assert [f.code for f in findings if f.code.startswith("GK10")] == (
                ["GK1013"] if "no\n" in text else []
            )
    assert b"hunter2" not in path.read_bytes()


def test_another_parser_reads_for_itself(
    origin: Origin, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, path = origin.commit({"a.yaml": MAP}), tmp_path / "parsed.sqlite"
    for expected, parser in ((1, b"1" * 16), (0, b"1" * 16), (1, b"2" * 16)):
        monkeypatch.setattr(parse_cache_db, "_parser_id", lambda parser=parser: parser)
        with cache_at(path) as cache:
            read_desired(repository, commit, cache=cache)
            assert cache.parsed == expected


def spoil(path: Path) -> None:
    path.write_bytes(b"no database at all" * 1_000)


def swap_entries(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE parsed SET entries = ?", (b"\xff[1",))


def drop_table(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE parsed")
        connection.execute("CREATE TABLE parsed (other)")


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [spoil, swap_entries, drop_table, make_folder])
def test_a_damaged_store_costs_time_alone(
    origin: Origin, repository: Repository, tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    commit, path = origin.commit({"a.yaml": MAP}), tmp_path / "parsed.sqlite"
    with cache_at(path) as cache:
        good = contents(read_desired(repository, commit, cache=cache))
    damage(path)
    with cache_at(path) as cache:
        assert contents(read_desired(repository, commit, cache=cache)) == good
        assert cache.parsed == 1


def test_beyond_its_limit_everything_is_forgotten(
    origin: Origin, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parse_cache_db, "BYTES_MAX", 100_000)
    path = tmp_path / "parsed.sqlite"
    commit = origin.commit({
        f"{n}.yaml": MAP.replace("a}", f"a{n}}}") + f"  big: {'x' * 20_000}\n" for n in range(20)
    })  # fmt: skip
    with cache_at(path) as cache:
        read_desired(repository, commit, cache=cache)
    assert path.stat().st_size < 100_000
