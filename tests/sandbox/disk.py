"""System calls of a store on its files, and the files that a crash may leave."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.conftest import need

ROOT: Final = Path(__file__).parents[2]
SECTOR: Final = 512
CALLS: Final = "openat,pwrite64,write,fsync,fdatasync,ftruncate,unlink,rename"
STORE, ACKED = "db", "acked"
# Writes and acknowledges. Small WALs, so that checkpoints come often; closed twice on the way.
WRITER: Final = """
import os, sys
sys.path.insert(0, {root!r})
from pathlib import Path
from gitkruise.sandbox.backend.sqlite import SqliteStore
from tests.sandbox.backend.test_storage import batch
folder = Path({folder!r})
acked = os.open(folder / "acked", os.O_WRONLY | os.O_CREAT)
for session in range({sessions}):
    store = SqliteStore(folder / "db")
    store.load()
    store._db.execute("PRAGMA wal_autocheckpoint = {checkpoint}")
    for version in range(session * {commits} + 1, (session + 1) * {commits} + 1):
        store.write(batch(version, "x" * (version * {filler} % 9000)))
        os.write(acked, b"%d." % version)
    store.close()
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """Options of a writer: `filler` sets how the sizes of objects vary."""

    sessions: int = 3
    commits: int = 12
    checkpoint: int = 1000
    filler: int = 0

    def program(self, folder: Path) -> list[str]:
        shape = {name: getattr(self, name) for name in self.__slots__}
        return [sys.executable, "-c", WRITER.format(root=str(ROOT), folder=str(folder), **shape)]


@dataclass(frozen=True, slots=True)
class Effect:
    """One call: a write or a new size at `at`, a sync, a removal, a creation, a rename."""

    call: str  # write, truncate, sync, unlink, create, rename, ack
    file: str = ""
    at: int = 0
    data: bytes = b""


_HEX: Final = re.compile(r"\\x([0-9a-f]{2})")
_LINE: Final = re.compile(
    r"^\d+ +(?P<call>\w+)\((?P<fd>\d+<[^>]*>|AT_FDCWD<[^>]*>)?(?:, )?"
    r'(?:"(?P<data>[^"]*)")?(?:, "(?P<to>[^"]*)")?(?P<rest>[^"]*)\) += (?P<result>-?\d+)'
)


def need_strace() -> None:
    """Skip where no strace can follow a process."""
    found = shutil.which("strace")
    works = (
        found is not None
        and not subprocess.run(
            [found, "-o", "/dev/null", "true"], capture_output=True, check=False
        ).returncode
    )
    need("strace", present=works, how="apt-get install strace, where ptrace is allowed")


def traced(scenario: Scenario, folder: Path) -> list[Effect]:
    """Everything a whole run of the scenario did to the files in `folder`, in order."""
    need_strace()
    log = folder.parent / f"{folder.name}.trace"
    watch = ["strace", "-f", "-y", "-xx", "-s", "100000", "-e", f"trace={CALLS}", "-o", str(log)]
    subprocess.run([*watch, *scenario.program(folder)], check=True, timeout=120)
    with log.open() as lines:
        return [effect for line in lines for effect in _effects(line, folder)]


def _effects(line: str, folder: Path) -> Iterator[Effect]:
    found = _LINE.match(line)
    if found is None or int(found["result"]) < 0:
        return
    data = _bytes(found["data"] or "")
    path = Path(_bytes((found["fd"] or "").partition("<")[2].rstrip(">")).decode())
    if found["call"] in ("openat", "unlink", "rename"):
        path, data = Path(data.decode()), b""
    if path.parent != folder or path.name.endswith("-shm"):
        return
    numbers = [int(part) for part in re.findall(r"\b\d+\b", found["rest"])]
    match found["call"]:
        case "write" if path.name == ACKED:
            yield Effect("ack", at=int(data.rstrip(b".")))
        case "pwrite64":
            yield Effect("write", path.name, numbers[1], data)
        case "ftruncate":
            yield Effect("truncate", path.name, numbers[0])
        case "fsync" | "fdatasync" | "unlink" as call:
            yield Effect("unlink" if call == "unlink" else "sync", path.name)
        case "rename":
            yield Effect("rename", path.name, data=Path(_bytes(found["to"]).decode()).name.encode())
        case "openat" if "O_CREAT" in found["rest"] and path.name != ACKED:
            yield Effect("create", path.name)


def _bytes(text: str) -> bytes:
    return bytes.fromhex("".join(_HEX.findall(text)))


@dataclass(slots=True)
class Disk:
    """Files as they are surely kept, and what was written since each was last synced."""

    kept: dict[str, bytes] = field(default_factory=dict)
    loose: dict[str, list[Effect]] = field(default_factory=dict)
    acked: int = 0

    def carry_out(self, effect: Effect) -> None:
        match effect.call:
            case "ack":
                self.acked = effect.at
            case "create":
                self.kept.setdefault(effect.file, b"")
            case "unlink":
                self.kept.pop(effect.file, None)
                self.loose.pop(effect.file, None)
            case "rename":
                new = effect.data.decode()
                self.kept[new] = self.kept.pop(effect.file)
                self.loose[new] = self.loose.pop(effect.file, [])
            case "sync":
                self.kept[effect.file] = self.whole(effect.file)
                self.loose.pop(effect.file, None)
            case _:
                self.loose.setdefault(effect.file, []).append(effect)

    def whole(self, file: str) -> bytes:
        """A file as a process sees it that opens it now."""
        return laid(self.kept[file], self.loose.get(file, ()))

    def killed(self) -> dict[str, bytes]:
        """Files of a killed process: the kernel loses nothing."""
        return {file: self.whole(file) for file in self.kept}

    def without_power(self, draw: Draw) -> dict[str, bytes]:
        """Files after a power loss: of each loose write all, nothing or sectors."""
        return {
            file: laid(content, [part for e in self.loose.get(file, ()) for part in _torn(e, draw)])
            for file, content in self.kept.items()
        }


def laid(content: bytes, effects: Sequence[Effect]) -> bytes:
    """`content` after writes and truncations."""
    if not effects:
        return content
    out = bytearray(content)
    for effect in effects:
        end = effect.at + len(effect.data)
        if len(out) < end:
            out.extend(bytes(end - len(out)))
        if effect.call == "truncate":
            del out[effect.at :]
        else:
            out[effect.at : end] = effect.data
    return bytes(out)


@dataclass(slots=True)
class Draw:
    """Numbers drawn from a seed, the same ones everywhere (splitmix64)."""

    state: int

    def below(self, limit: int) -> int:
        self.state = (self.state + 0x9E3779B97F4A7C15) % 2**64
        mixed = self.state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) % 2**64
        return (mixed ^ (mixed >> 31)) % limit


def _torn(effect: Effect, draw: Draw) -> Iterator[Effect]:
    fate = draw.below(4)
    if fate == 0:
        return
    if fate < 3 or effect.call == "truncate":
        yield effect
        return
    for start in range(0, len(effect.data), SECTOR):
        if draw.below(2):
            piece = effect.data[start : start + SECTOR]
            yield Effect("write", effect.file, effect.at + start, piece)


def put(folder: Path, files: Mapping[str, bytes]) -> Path:
    """The files of an image in a folder of their own; the path of its store."""
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder / STORE
