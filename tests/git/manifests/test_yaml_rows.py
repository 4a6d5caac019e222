"""Bad YAML ends in one named error at its line and column, and never in a crash."""

from __future__ import annotations

import pytest

from gitkruise.git.parsing.documents import Limits, parse_file


def bomb() -> str:
    levels = "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8)
    )
    return "a: &a [x,x,x,x,x,x,x,x,x]\n" + levels.replace("n:", "z:")


REFUSED = [
    ("B-Y01", "[" * 30_000, "GK9002", "1:101"),
    ("B-Y02", "{a: " * 30_000, "GK9002", "1:401"),
    ("B-Y02-tight", "{a:" * 30_000, "GK1101", "1:3"),
    ("B-Y03", "\n".join(" " * i + "a:" for i in range(900)), "GK9002", "101:101"),
    ("B-Y04", bomb(), "GK9003", "5:23"),
    ("B-Y05", "a: &a [*a]", "GK1011", "1:8"),
    ("B-Y06", "a: *b", "GK1010", "1:4"),
    ("B-Y08", "a: &x {k: 1, l: 2, m: 3, o: 4, p: 5}\nb:\n  <<: [" + ",".join(["*x"] * 10_000) + "]",
     "GK9003", "3:13643"),
    ("B-Y09", "b:\n  <<: 5", "GK1005", "2:7"),
    ("B-Y10", "replicas: 3\nreplicas: 30", "GK1003", "2:1"),
    ("B-Y11", 'a: 1\n"a": 2', "GK1003", "2:1"),
    ("B-Y12", "1: x", "GK1004", "1:1"),
    ("B-Y12-true", "true: x", "GK1004", "1:1"),
    ("B-Y13-null", "null: x", "GK1004", "1:1"),
    ("B-Y13-list", "? [a, b]\n: c", "GK1004", "1:3"),
    ("B-Y13-float", "1.5: x", "GK1004", "1:1"),
    ("B-Y20-nan", "a: .nan", "GK1006", "1:4"),
    ("B-Y20-inf", "a: -.INF", "GK1006", "1:4"),
    ("B-Y20-huge", "a: 1e400", "GK1006", "1:4"),
    ("B-Y21", "a: " + "9" * 5_000, "GK1007", "1:4"),
    ("B-Y22", f"a: {2**63}", "GK1007", "1:4"),
    ("B-Y22-neg", f"a: {-(2**63) - 1}", "GK1007", "1:4"),
    ("B-Y24-python", "a: !!python/object/apply:os.system [x]", "GK1008", "1:4"),
    ("B-Y24-ref", "a: !Ref x", "GK1008", "1:4"),
    ("B-Y24-binary", "a: !!binary aGk=", "GK1008", "1:4"),
    ("B-Y24-set", "a: !!set {b}", "GK1008", "1:4"),
    ("B-Y24-omap", "a: !!omap []", "GK1008", "1:4"),
    ("B-Y24-timestamp", "a: !!timestamp 2024-01-01", "GK1008", "1:4"),
    ("B-Y25-version", "%YAML 9.9\n---\na: 1", "GK1101", "1:1"),
    ("B-Y25-tag", "%TAG ! tag:x,2000:\n---\na: 1", "GK1009", "1:1"),
    ("B-Y25-other", "%FOO\n---\na: 1", "GK1101", "1:5"),
    ("B-Y27-le", "a: 1".encode("utf-16"), "GK1001", ""),
    ("B-Y27-be", b"\xfe\xff\0a", "GK1001", ""),
    ("B-Y28", b"x: 1\na: \xe9", "GK1001", "2"),
    ("B-Y29-overlong", b"a: \xc0\x80", "GK1001", "1"),
    ("B-Y29-surrogate", 'a: "\\ud800"', "GK1001", "1:7"),
    *((f"B-Y30-{ord(c):x}", f"a: x{c}", "GK1002", "1:5") for c in "\0\x07\x7f\x85\u2028"),
    ("B-Y30-key", "\u202ea: x", "GK1014", "1:1"),
    ("B-Y30-image", "image: x\u202ey", "GK1014", "1:8"),
    ("B-Y30-escaped", '"a\\x07": x', "GK1002", "1:1"),
    ("B-Y32", "a:\n\tb: 1", "GK1101", "2:1"),
    ("B-Y34", "---\na: 1\n" * 10_001, "GK9004", "2001:1"),
    ("B-Y35", 'a: "' + "x" * 1_150_000 + '"', "GK9005", "1:1"),
    ("B-Y36", b"x" * (20 << 20), "GK9005", ""),
    ("B-Y37", 'a: "' + "x" * 1_000_000, "GK1101", "1:4"),
    ("B-Y37-bracket", "a: [" + "x" * 1_000_000, "GK1101", "1:4"),
    ("B-Y38-key", "? " + "x" * 1_000_000 + "\n: 1", "GK9001", "1:3"),
    ("B-Y38-keys", "{" + ",".join(f"k{i}: 1" for i in range(60_000)) + "}", "GK9001", "1:88892"),
    ("B-Y38-items", "- 1\n" * 200_000, "GK9001", "100001:3"),
    ("B-Y39-nan", '{"a": NaN}', "GK1006", "1:7"),
    ("B-Y39-twice", '{"a": 1, "a": 2}', "GK1003", "1:10"),
    ("B-Y39-comma", '{"a": 1,}', "GK1101", "1:9"),
    ("B-Y39-comment", '{"a": 1 // x\n}', "GK1101", "1:9"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "code", "where"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_bad_yaml_is_refused_by_name_and_place(text: str | bytes, code: str, where: str) -> None:
    parsed = parse_file(text.encode() if isinstance(text, str) else text, "a.yaml")
    errors = [finding for finding in parsed.findings if finding.is_error]
    assert [finding.code for finding in errors] == [code]
    assert str(errors[0].places[-1]) == f"a.yaml:{where}".rstrip(":")


ACCEPTED = [
    ("B-Y07", "a: &x 1\nb: &x 2\nc: *x", [{"a": 1, "b": 2, "c": 2}], ["GK1012"]),
    ("B-Y08", "a: &x {k: 1}\nb:\n  <<: [*x, *x]", [{"a": {"k": 1}, "b": {"k": 1}}], []),
    ("B-Y08-over", "a: &x {k: 1}\nb:\n  k: 2\n  <<: *x", [{"a": {"k": 1}, "b": {"k": 1}}],
     ["GK1005"]),
    ("B-Y14", "env: no", [{"env": False}], ["GK1013"]),
    ("B-Y15", "a: 0644\nb: 0o644", [{"a": 420, "b": 420}], []),
    ("B-Y16", "a: 22:22", [{"a": "22:22"}], []),
    ("B-Y17", "a: 1_000", [{"a": 1000}], ["GK1013"]),
    ("B-Y18", "a: 0b11\nb: 0x1F", [{"a": 3, "b": 31}], []),
    ("B-Y19", "a: 1.10\nb: 1234567e5\nc: 0e12345", [{"a": 1.1, "b": 123456700000, "c": 0}], []),
    ("B-Y23", "a: 2024-01-01", [{"a": "2024-01-01"}], []),
    ("B-Y25-1.2", "%YAML 1.2\n---\na: 1", [{"a": 1}], []),
    ("B-Y26", "\ufeffa: 1", [{"a": 1}], []),
    ("B-Y30-text", "text: x\u202ey", [{"text": "x\u202ey"}], []),
    ("B-Y31-crlf", "a:\r\n  b: 1\r\n", [{"a": {"b": 1}}], []),
    ("B-Y31-mixed", "a:\r\n  b: 1\n  c: |\r\n    x\n", [{"a": {"b": 1, "c": "x\n"}}], []),
    ("B-Y31-cr", "a:\r  b: 1\r", [{"a": {"b": 1}}], []),
    *((f"B-Y33-{n}", text, [], []) for n, text in enumerate(["", "# x\n", "---", "---\n...\n"])),
    ("B-Y36-documents", f"---\na: {'x' * 10**6}\n" * 4, [{"a": "x" * 10**6}] * 4, []),
    ("null-skipped", "---\n---\na: 1\n---\nnull\n", [{"a": 1}], []),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "objects", "noted"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED]
)
def test_unusual_yaml_is_read(text: str, objects: list[object], noted: list[str]) -> None:
    parsed = parse_file(text.encode(), "a.yaml")
    assert [document.obj for document in parsed.documents] == objects
    assert [(f.code, f.severity) for f in parsed.findings] == [(code, "warning") for code in noted]


def test_all_problems_of_a_file_are_reported() -> None:
    text = "a: 1\na: 2\n---\nb: .nan\n---\n1: x\n"
    codes = [finding.code for finding in parse_file(text.encode(), "a.yaml").findings]
    assert codes == ["GK1003", "GK1006", "GK1004"]


def test_problems_of_one_file_are_counted_up_to_a_limit() -> None:
    text = "".join(f"a{i}: .nan\n" for i in range(500))
    assert len(parse_file(text.encode(), "a.yaml", Limits(findings=7)).findings) == 7


def test_a_secret_beyond_the_limit_is_not_quoted() -> None:
    text = '{"kind": "\\u0053ecret", "data": {"password": "hunter2", "x": "' + "x" * 100 + '"}}'
    (finding,) = parse_file(text.encode(), "a.json", Limits(document_chars=100)).findings
    assert finding.code == "GK9005"
    assert "hunter2" not in repr(finding)


@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize(
    ("limits", "text", "code"),
    [
        (Limits(nesting=10), lambda n: "[" * n + "]" * n, "GK9002"),
        (Limits(map_keys=10), lambda n: "".join(f"k{i}: 1\n" for i in range(n)), "GK9001"),
        (Limits(items=10), lambda n: "- 1\n" * n, "GK9001"),
        (Limits(documents=10), lambda n: "---\na: 1\n" * n, "GK9004"),
        (Limits(file_bytes=10), lambda n: "a: " + "x" * (n - 3), "GK9005"),
        (Limits(document_chars=10), lambda n: "a: 1\n---\nb: " + "x" * (n - 7), "GK9005"),
        (Limits(key_chars=10), lambda n: "x" * n + ": 1", "GK9001"),
        (Limits(nodes=10), lambda n: "- 1\n" * (n - 1), "GK9001"),
    ],
    ids=["nesting", "keys", "items", "documents", "bytes", "document", "key", "nodes"],
)
def test_a_limit_holds_exactly(limits: Limits, text: object, code: str, extra: int) -> None:
    assert callable(text)
    findings = parse_file(text(10 + extra).encode(), "a.yaml", limits).findings
    assert [finding.code for finding in findings] == ([code] if extra > 0 else [])
