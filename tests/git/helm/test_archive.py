"""Archives of charts: what is unpacked, and what is refused."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from collections.abc import Callable

import pytest

from gitkruise.errors import InvalidManifests, SourceFailed
from gitkruise.git.helm.archive import files_of
from gitkruise.git.helm.release import FetchedChart
from gitkruise.git.rendering import archive
from tests.gitops.charts.hosts import packed


def of(data: bytes) -> FetchedChart:
    return FetchedChart(
        repository="https://charts.example", name="web", version="1.0.0",
        digest=hashlib.sha256(data).hexdigest(), archive="/nonexistent",
    )  # fmt: skip


def refusal(data: bytes) -> str:
    with pytest.raises(InvalidManifests) as caught:
        files_of(of(data), data)
    (finding,) = caught.value.findings
    assert finding.code == "GK3415"
    assert "the archive of chart web 1.0.0 is not unpacked" in finding.message
    return finding.message


def member(change: Callable[[tarfile.TarInfo], None], content: bytes = b"") -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as made:
        info = tarfile.TarInfo("web/file")
        info.size = len(content)
        change(info)
        made.addfile(info, io.BytesIO(content))
    return target.getvalue()


def test_files_are_named_below_the_folder_of_the_chart() -> None:
    data = packed({"web/Chart.yaml": "a", "./web/templates/x.yaml": "b", "web/a b.txt": ""})
    assert files_of(of(data), data) == {
        "Chart.yaml": b"a", "templates/x.yaml": b"b", "a b.txt": b"",
    }  # fmt: skip


def test_another_archive_is_not_read() -> None:
    with pytest.raises(SourceFailed, match="GK3416"):
        files_of(of(b"x"), packed({"web/Chart.yaml": "a"}))


PATHS = [
    "../x", "web/../../x", "/etc/passwd", "web/../x", "file", "web\\x/y", "web/a\nb", "C:\\x/y",
    f"web/{'x' * 2000}",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_a_path_that_leads_elsewhere_is_refused(path: str) -> None:
    assert "is not a path below the chart's folder" in refusal(packed({path: "x"}))


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE]
)
def test_a_link_or_a_device_is_refused(kind: bytes) -> None:
    def change(info: tarfile.TarInfo) -> None:
        info.type, info.linkname = kind, "/etc/passwd"

    assert "web/file is a link or a device" in refusal(member(change))


def test_a_file_twice_is_refused() -> None:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz") as made:
        for name in ("web/x", "web/./x"):
            made.addfile(tarfile.TarInfo(name), io.BytesIO())
    assert "it has x twice" in refusal(target.getvalue())


def test_a_file_in_the_place_of_a_folder_is_refused() -> None:
    assert "x is a file and a folder" in refusal(packed({"web/x": "", "web/x/y/z": ""}))


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "BYTES_MAX", 1 << 20)
    monkeypatch.setattr(archive, "FILES_MAX", 10)
    many = packed({f"web/{number}": "" for number in range(11)})
    assert "more than 10 files or 1 MiB" in refusal(many)
    assert "more than 10 files or 1 MiB" in refusal(packed({"web/x": b"\0" * (1 << 20) + b"x"}))
    headers = io.BytesIO()
    with tarfile.open(fileobj=headers, mode="w", format=tarfile.PAX_FORMAT) as made:
        info = tarfile.TarInfo("web/x")
        info.pax_headers = {"comment": "x" * (3 << 20)}
        made.addfile(info)
    assert "unpacks to more than 1 MiB" in refusal(gzip.compress(headers.getvalue()))


WHOLE = packed({"web/Chart.yaml": "a" * 5000})
BROKEN = [b"", b"x", WHOLE[:-20], gzip.compress(b"x"), gzip.compress(b"x" * 2000)]


@pytest.mark.parametrize("data", BROKEN, ids=range(len(BROKEN)))
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    refusal(data)
