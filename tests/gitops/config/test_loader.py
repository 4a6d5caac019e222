"""gitkruise.yaml: every problem with its line, and nothing that is silently ignored."""

from __future__ import annotations

import re
from pathlib import Path
from textwrap import indent

import pytest

from gitkruise.errors import UsageProblem
from gitkruise.gitops.config.loader import load_config
from gitkruise.gitops.config.other_tools import _FIELDS
from gitkruise.kube.system.package_data import read_json
from gitkruise.wire.primitives.names import OWN_GROUP

GOOD = """\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {name: src, namespace: shop}
spec: {url: ., ref: {branch: main}, interval: 5s}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {name: out, namespace: shop}
spec: {git: {sourceRef: {name: src}}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: web, namespace: shop}
spec:
  sourceRef: {name: src}
  sinkRef: {name: out}
  drift:
    mode: correct
"""
RECEIVER = """\
    mode: correct
---
apiVersion: gitkruise.io/v1alpha1
kind: Receiver
metadata: {name: in, namespace: shop}
spec: {type: github, secretRef: {name: key}, sources: [{name: x}]}
"""
ROWS: list[tuple[str, str, str, str, str, str]] = [
    # row id, text to replace, with what, code, place, words
    ("GK7002 kind", "kind: Sink", "kind: Sinkk", "GK7002", ":7:7", "one of GitSource"),
    ("GK7002 no text", "kind: Sink", "kind: [Sink]", "GK7002", ":7:7", "one of GitSource"),
    ("GK7002 version", "v1alpha1\nkind: Unit", "v2\nkind: Unit", "GK7002", ":12:7", "v1alpha1"),
    ("GK7003 unknown field", "sinkRef:", "sinkref:", "GK7003", ":16:3", 'did you mean "sinkRef"?'),
    ("GK7003 wrong word", "correct", "fix", "GK7003", ":18:11", "fix"),
    ("GK3010 absolute", "sinkRef:", "path: /apps\n  sinkRef:", "GK3010", ":16:9", "'/apps'"),
    ("GK3010 up", "sinkRef:", "path: a/../b\n  sinkRef:", "GK3010", ":16:9", "with '..'"),
    ("GK7003 no finite number", "sinkRef:", "promotion: {steps: [{partition: 1e300}]}\n  sinkRef:",
     "GK7003", ":16:35", "1e+300 is not"),
    ("GK7003 kind", "sinkRef:", "render: {kind: jsonnet}\n  sinkRef:", "GK7003", ":16:18",
     "'jsonnet' is not one of ['auto', 'plain', 'kustomize', 'helm']"),
    ("GK7003 chart", "sinkRef:", "render: {helm: {}}\n  sinkRef:", "GK7003", ":16:12",
     "kind: helm"),
    ("GK7003 release", "sinkRef:", "render: {kind: helm, helm: {releaseName: -a}}\n  sinkRef:",
     "GK7003", ":16:44", "-a"),
    ("GK7003 chart values", "sinkRef:",
     "render: {kind: helm, helm: {valuesFrom: [{secret: a, configMap: b}]}}\n  sinkRef:",
     "GK7003", ":16:44", "names one object"),
    *(
        (f"{code} {words}", "sinkRef:", f"render: {{kind: helm, helm: {{{helm}}}}}\n  sinkRef:",
         code, f":16:{column}", words)
        for helm, code, column, words in (
            ("chart: web", "GK7003", 38, "repository is missing"),
            ("repository: 'https://a.example', version: '1'", "GK7003", 43, "chart is missing"),
            ("secretRef: {name: a}", "GK7003", 42, "there is no repository"),
            ("repository: 'https://a.example', chart: a/b, version: '1'", "GK7003", 71, "a/b"),
            ("repository: 'http://a.example', chart: a, version: '1'", "GK7003", 43, "by http"),
            ("repository: 'ftp://a.example', chart: a, version: '1'", "GK7003", 43, "http://"),
            ("repository: 'https://u:p@a.example', chart: a, version: '1'", "GK7003", 43,
             "contains credentials"),
            ("repository: 'oci://', chart: a, version: '1'", "GK7003", 43, "and a host"),
            ("repository: 'https://a.example?b', chart: a, version: '1'", "GK7003", 43, "a query"),
            ("repository: 'https://a.example', chart: a, version: newest", "GK7022", 83, "newest"),
            ("repository: 'https://a.example', chart: a, version: 1", "GK7003", 83, "'string'"),
            ("repoURL: 'https://a.example', chart: a, targetRevision: '1'", "GK7003", 31,
             "write repository"),
        )
    ),
    ("GK7003 chart path", "drift:",
     "path: a\n  render: {kind: helm, helm: {repository: oci://a, chart: a, version: x}}\n  drift:",
     "GK7003", ":17:9", "has no path"),
    *(
        (f"bases {words}", "sinkRef:", f"render: {{{render}}}\n  sinkRef:", "GK7003", column, words)
        for render, column, words in (
            ("kustomize: {remoteBases: [{url: 'ssh://git@a.example/b'}]}", ":16:44", "ssh is not"),
            (
                "kustomize: {remoteBases: [{url: /srv/b, secretRef: {name: x}}]}",
                ":16:44",
                "of this machine are not allowed",
            ),
            ("kustomize: {remoteBases: [{url: 'http://a.example/b'}]}", ":16:44", "http is not"),
            ("kustomize: {remoteBases: [{url: team/bases}]}", ":16:44", "is relative"),
            ("kustomize: {remoteBases: [{}]}", ":16:38", "'url' is a required property"),
            ("kind: plain, kustomize: {remoteBases: []}", ":16:25", "only kinds auto"),
        )
    ),
    ("GK7003 yaml 1.1", "mode: correct", "mode: off", "GK7003", ":18:11", 'quote it: "off"'),
    ("GK7003 missing", "url: ., ", "", "GK7003", ":4:7", "url"),
    ("GK7003 no name", "{name: out, namespace: shop}", "{}", "GK7003", ":8:11", "name"),
    ("GK7005 duration", "interval: 5s", "interval: fast", "GK7005", ":4:47", "fast"),
    ("GK7003 no time", "sinkRef:", "suspend: {until: tonight}\n  sinkRef:", "GK7003", ":16:20",
     "tonight"),
    ("GK7005 none", "interval: 5s", "interval: 0s", "GK7005", ":4:47", "0s is less than 100ms"),
    ("GK7005 delay", "correct", "correct\n    backoff: {base: soon}", "GK7005", ":19:21", "soon"),
    ("GK7005 no pause", "correct", "correct\n    backoff: {base: 0s}", "GK7005", ":19:21",
     "spec.drift.backoff.base: 0s is less than 100ms"),
    ("GK7005 no reset", "correct", "correct\n    backoff: {resetAfter: 0s}", "GK7005", ":19:27",
     "0s is less than 100ms"),
    ("GK7005 no patience", "sinkRef:", "health: {noProgressTimeout: 0s}\n  sinkRef:", "GK7005",
     ":16:31", "0s is less than 100ms"),
    ("GK7003 no setting", "sinkRef:", "workloads: {onPlanChange: block}\n  sinkRef:", "GK7003",
     ":16:15", 'unknown field "onPlanChange"'),
    ("GK7007 unit", "sinkRef:", "dependsOn: [{name: db}]\n  sinkRef:", "GK7007", "", "shop/db"),
    (
        "GK7030 itself", "sinkRef:", "dependsOn: [{name: web}]\n  sinkRef:", "GK7030",
        ":16:14", "shop/web → shop/web",
    ),
    (
        "GK7031 no CEL", "sinkRef:", "dependsOn: [{name: web, ready: 'phase in'}]\n  sinkRef:",
        "GK7031", ":16:34", "Syntax error",
    ),
    (
        "GK7031 no answer", "sinkRef:", "dependsOn: [{name: web, ready: phase}]\n  sinkRef:",
        "GK7031", ":16:34", "not true or false",
    ),
    ("GK7003 branch", "branch: main", "branch: a..b", "GK7003", ":4:30", "spec.ref.branch: 'a..b'"),
    ("GK7003 tag", "branch: main", "tag: 'v1 '", "GK7003", ":4:27", "spec.ref.tag: "),
    ("GK7003 ref", "branch: main", "name: HEAD", "GK7003", ":4:28", "spec.ref.name: 'HEAD'"),
    ("GK7003 no unit", "spec: {git: {sourceRef: {name: src}}}",
     "spec: {notify: [{type: slack, secretRef: {name: a}, units: [shop]}]}", "GK7003", ":9:61",
     "'shop' matches no unit"),
    ("GK7022 range", "branch: main", "semver: newest", "GK7022", ":4:30", "newest"),
    ("GK7023 keys", "interval: 5s", "verify: {mode: head}", "GK7023", ":4:37", "secretRef"),
    ("GK7023 tag", "interval: 5s", "verify: {mode: tag, secretRef: {name: k}}", "GK7023", ":4:37",
     "ref.semver"),
    *(
        (f"artifact {words}", "., ref: {branch: main}", source, "GK7003", ":4:", words)
        for source, words in (
            ("oci://a.example/b, ref: {branch: x}", "no branches"),
            ("oci://a.example/b, ref: {name: refs/heads/x}", "no refs"),
            ("oci://a.example/b, ref: {commit: x}", "no commits"),
            ("oci://a.example/b, allowForcePush: true", "free to move"),
            ("'oci://a.example/b:v1'", "the tag in ref.tag"),
            ("'oci://a.example/B'", "B is not the name"),
            ("oci://a.example", "is not the name"),
            ("oci://a.example/b, ref: {digest: x}", "sha256:HEX"),
            ("oci://a.example/b, ref: {tag: 'a b'}", "no such tag"),
            ("oci://a.example/b, ref: {semver: 1.x, semverFilter: '('}", "missing closing )"),
            ("oci://a.example/b, ref: {semverFilter: a}", "there is none"),
            ("oci://a.example/b, verify: {secretRef: {name: k}}", "provider: cosign"),
            ("oci://a.example/b, verify: {mode: range, provider: cosign}", "signatures of git"),
            ("oci://a.example/b, verify: {provider: notation}", "notation"),
            ("oci://a.example/b, layerSelector: {operation: unpack}", "unpack"),
            ("oci://a.example/b, ignore: x, layerSelector: {operation: copy}", "takes every file"),
            ("., layerSelector: {mediaType: x}", "git has no layers"),
            ("., layerSelector: {}", "git has no layers"),
            ("., ref: {digest: x}", "write ref.commit"),
            ("., ref: {semver: 1.x, semverFilter: x}", "tags of registries"),
            ("., verify: {provider: cosign, secretRef: {name: k}}", "verify.mode"),
            ("., verify: {matchOIDCIdentity: [{issuer: a, subject: b}]}", "for artifacts"),
            ("., verify: {matchOIDCIdentity: []}", "for artifacts"),
        )
    ),
    *(
        (f"{code} {words}", "url: ., ref: {branch: main}",
         f"url: oci://a.example/b, verify: {{provider: cosign{verify}}}", code, place, words)
        for verify, code, place, words in (
            ("", "GK7023", ":4:32", "no keys and no identities"),
            (", matchOIDCIdentity: []", "GK7023", ":4:59", "is empty"),
            (", secretRef: {name: k}, matchOIDCIdentity: [{issuer: a, subject: b}]", "GK7023",
             ":4:81", "keys and identities"),
            (", secretRef: {name: k}, trustedRootSecretRef: {name: k}", "GK7003", ":4:103",
             "it is for keyless signatures"),
            (", matchOIDCIdentity: [{issuer: '(', subject: b}]", "GK7003", ":4:88",
             "issuer: it is no regular expression: error parsing regexp"),
            (", matchOIDCIdentity: [{issuer: a}]", "GK7003", ":4:79", "subject"),
            (", matchOIDCIdentity: [{issuer: a, subject: ''}]", "GK7003", ":4:100", "subject"),
        )
    ),
    ("GK7076 sink", "url: ., ref: {branch: main}", "url: oci://a.example/b", "GK7076",
     ":9:25", "which has no branches"),
    ("GK7007 source of a sink", "git: {sourceRef: {name: src}", "git: {sourceRef: {name: x}",
     "GK7007", ":9:25", "shop/x"),
    ("GK7007 source of a receiver", "    mode: correct\n", RECEIVER, "GK7007", ":23:56", "shop/x"),
    ("GK7003 pointer", "correct", "correct\n    ignore: [{paths: [spec/replicas]}]", "GK7003",
     ":19:23", "spec/replicas"),
    ("GK7003 empty rule", "correct", "correct\n    ignore: [{}]", "GK7003", ":19:14", "{}"),
    ("GK7007 source", "Ref: {name: src}\n  s", "Ref: {name: x}\n  s", "GK7007", ":15:14", "shop/x"),
    ("GK7007 sink", "sinkRef: {name: out}", "sinkRef: {name: none}", "GK7007", ":16:12",
     "shop/out"),
    (
        "GK7031 health", "drift:", 'health: {exprs: [{kind: A, current: "status. =="}]}\n  drift:',
        "GK7031", ":17:39", "Syntax error",
    ),
    (
        "GK7031 no function", "drift:",
        'health: {exprs: [{kind: A, current: "ok(status)"}]}\n  drift:',
        "GK7031", ":17:39", "'ok'",
    ),
    ("GK7003 name", "sinkRef:", "render: {substitute: {vars: {a-b: c}}}\n  sinkRef:", "GK7003",
     ":16:32", "'a-b' is no name"),
    ("GK7003 no source", "sinkRef:", "render: {substitute: {from: [{}]}}\n  sinkRef:", "GK7003",
     ":16:32", "names one object"),
    ("Flux namespace", "sinkRef:", "targetNamespace: x\n  sinkRef:", "GK7003", ":16:3",
     "write target.namespace"),
    ("Flux postBuild", "sinkRef:", "postBuild: {substitute: {A: b}}\n  sinkRef:", "GK7003", ":16:3",
     "write render.substitute: vars"),
    ("Flux prune", "sinkRef:", "prune: true\n  sinkRef:", "GK7003", ":16:10",
     "write prune: {enabled: true}"),
    ("Flux source", "sourceRef: {name: src}\n  sinkRef:",
     "sourceRef: {kind: GitRepository, name: src}\n  sinkRef:", "GK7003", ":15:15",
     "a unit follows a GitSource"),
    ("Flux values", "sinkRef:",
     "render: {kind: helm, helm: {valuesFrom: [{kind: Secret, name: a}]}}\n  sinkRef:", "GK7003",
     ":16:45", "write configMap: NAME or secret: NAME"),
    ("Flux kind", "gitkruise.io/v1alpha1\nkind: Unit",
     "kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization", "GK7002", ":12:7",
     "a gitkruise Unit does this: sourceRef, path, target.namespace"),
    ("Argo kind", "gitkruise.io/v1alpha1\nkind: Unit", "argoproj.io/v1alpha1\nkind: Application",
     "GK7002", ":12:7", "a gitkruise Unit does this: sourceRef for source.repoURL"),
    ("GK1 yaml", "spec: {git", "spec: git: {", "GK1", ":9:", ""),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_refused(tmp_path: Path, row: tuple[str, ...]) -> None:
    _, old, new, code, place, words = row
    assert old in GOOD
    file = tmp_path / "gitkruise.yaml"
    file.write_text(GOOD.replace(old, new))
    with pytest.raises(UsageProblem) as caught:
        load_config(file)
    finding = caught.value.findings[0]
    assert finding.code.startswith(code)
    assert place in "".join(str(p) for p in finding.places)
    text = " ".join(
        [finding.message, *(p.label for p in finding.places), *dict(finding.notes).values()]
    )
    assert words in text


def test_fields_that_are_advised_exist() -> None:
    schema = read_json("json", f"Unit-{OWN_GROUP}-v1alpha1.json")["properties"]["spec"]
    advised = [text for (kind, _), text in _FIELDS.items() if kind == "Unit"]
    paths = {path for text in advised for path in re.findall(r"write ([a-z]\w+(?:\.\w+)+)", text)}
    assert len(paths) > 10
    for path in paths:
        node = schema
        for name in path.split("."):
            node = node["properties"][name]


def test_fields_of_other_tools_are_not_ours() -> None:
    for kind, path in _FIELDS:
        node = read_json("json", f"{kind}-{OWN_GROUP}-v1alpha1.json")
        *parents, name = path.split(".")
        for parent in parents:
            node = node["properties"][parent]
            node = node.get("items", node)
        assert name not in node.get("properties", {}) or name == "prune", path


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match="GK7001"):
        load_config(tmp_path / "none.yaml")


def test_a_directory_is_read_whole_and_urls_are_relative_to_it(tmp_path: Path) -> None:
    for number, text in enumerate(GOOD.split("---\n")):
        (tmp_path / f"{number}.yaml").write_text(text)
    (tmp_path / ".hidden.yaml").write_text("no: thing")
    config = load_config(tmp_path)
    assert list(config.units) == ["shop/web"]
    assert config.source_of(config.units["shop/web"]).spec.url == str(tmp_path)
    sink = config.sink_of(config.units["shop/web"])
    assert sink
    assert sink.name == "out"


def test_the_items_of_a_list_are_documents(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    items = "".join(indent(text, "  ").replace("  ", "- ", 1) for text in GOOD.split("---\n"))
    file.write_text(f"apiVersion: v1\nkind: List\nitems:\n{items}")
    config = load_config(file)
    assert (list(config.sources), list(config.units)) == (["shop/src"], ["shop/web"])
    file.write_text(file.read_text().replace("sinkRef:", "sinkref:"))
    with pytest.raises(UsageProblem, match="sinkref") as caught:
        load_config(file)
    assert caught.value.findings[0].places[0].line == 17


@pytest.mark.parametrize(
    ("text", "code"),
    [("hello", "GK2002"), ("- a", "GK2002"), ("a: [", "GK1101"), ("---\na: b\n" * 1001, "GK9004")],
    ids=["text", "list", "no YAML", "too many"],
)
def test_what_cannot_be_a_configuration_is_named_with_a_next_step(
    tmp_path: Path, text: str, code: str
) -> None:
    file = tmp_path / "gitkruise.yaml"
    file.write_text(text)
    with pytest.raises(UsageProblem) as caught:
        load_config(file)
    (finding,) = caught.value.findings
    assert (finding.code, finding.notes[0][0]) == (code, "next")


def test_off_in_quotes_is_a_mode(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    file.write_text(GOOD.replace("mode: correct", 'mode: "off"'))
    assert load_config(file).units["shop/web"].spec.drift.mode == "off"


def test_an_approval_is_read_from_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "gitkruise.yaml"
    noted = "name: web, annotations: {gitkruise.io/approve: 0a1b2c3d4e5f}"
    file.write_text(GOOD.replace("name: web", noted))
    assert load_config(file).units["shop/web"].approved == "0a1b2c3d4e5f"


@pytest.mark.parametrize("mode", ["head", "firstParent", "range"])
def test_commits_of_a_branch_may_be_verified(tmp_path: Path, mode: str) -> None:
    text = GOOD.replace("interval: 5s", f"verify: {{mode: {mode}, secretRef: {{name: keys}}}}")
    (tmp_path / "gitkruise.yaml").write_text(text)
    (source,) = load_config(tmp_path / "gitkruise.yaml").sources.values()
    assert source.spec.verify is not None
    assert source.spec.verify.mode == mode


@pytest.mark.parametrize(
    "render",
    [
        "kind: helm, helm: {values: 'dbPassword: canary'}",
        "kind: helm, helm: {values: [canary]}",
        "substitute: {vars: {PLAIN: [canary]}}",
        "substitute: {vars: {PASSWORD: 771177}}",
        "substitute: 'https://u:canary@a.example'",
        "kustomize: {password: 1}, helm: {token: [canary]}, substitute: [{token: canary}]",
    ],
)
def test_a_refusal_quotes_no_value_that_may_be_a_secret(tmp_path: Path, render: str) -> None:
    file = tmp_path / "gitkruise.yaml"
    file.write_text(GOOD.replace("sinkRef:", f"render: {{{render}}}\n  sinkRef:"))
    with pytest.raises(UsageProblem) as caught:
        load_config(file)
    text = str(caught.value)
    assert "GK7003" in text
    assert not re.search("canary|771177", text)
