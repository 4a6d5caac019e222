"""kustomize reads files of its commit and nothing else, in every field that names something."""

from __future__ import annotations

import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.errors import InvalidManifests
from gitkruise.git.kustomize.allowed_files import _FIELDS, _PLUGINS
from gitkruise.git.kustomize.render import Renderer
from gitkruise.git.manifests.reader import ParseCache, read_desired
from gitkruise.git.rendering.network_isolation import without_network
from gitkruise.git.repository.repository import Repository
from tests.git.kustomize.test_render import program
from tests.git.repos import Origin, run_git

pytestmark = pytest.mark.slow

POD = """apiVersion: v1
kind: ConfigMap
metadata: {name: a}
data: {}
"""


class Loopback:
    """A server on loopback that counts what it is asked for."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(200)
                self.end_headers()
                self.wfile.write(POD.encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/x.yaml"


@pytest.fixture
def loopback() -> Iterator[Loopback]:
    made = Loopback()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def plugin(kind: str, *lines: str) -> str:
    """A plugin as an indented block of inline text."""
    text = ["apiVersion: builtin", f"kind: {kind}", "metadata: {name: p}", *lines]
    return "|-\n" + "\n".join(f"  {line}" for line in text)


# Every field of a kustomization that names something; URL is the address of the server.
FIELDS = {
    "openapi.path": "openapi: {path: 'URL'}",
    "crds": "crds: ['URL']",
    "configurations": "configurations: ['URL']",
    "patches.path": "patches: [{path: 'URL'}]",
    "patchesJson6902.path": "patchesJson6902: [{path: 'URL', target: {kind: A, name: a}}]",
    "patchesStrategicMerge": "patchesStrategicMerge: ['URL']",
    "replacements.path": "replacements: [{path: 'URL'}]",
    "resources": "resources: ['URL']",
    "bases": "bases: ['URL']",
    "components": "components: ['URL']",
    "generators": "generators: ['URL']",
    "transformers": "transformers: ['URL']",
    "validators": "validators: ['URL']",
    "configMapGenerator.files": "configMapGenerator: [{name: made, files: ['URL']}]",
    "configMapGenerator.files key": "configMapGenerator: [{name: made, files: ['k=URL']}]",
    "configMapGenerator.envs": "configMapGenerator: [{name: made, envs: ['URL']}]",
    "configMapGenerator.env": "configMapGenerator: [{name: made, env: 'URL'}]",
    "secretGenerator.files": "secretGenerator: [{name: made, files: ['k=URL']}]",
    "secretGenerator.envs": "secretGenerator: [{name: made, envs: ['URL']}]",
    "secretGenerator.env": "secretGenerator: [{name: made, env: 'URL'}]",
}
PLUGINS = {
    "ConfigMapGenerator.files": ("generators", plugin("ConfigMapGenerator", "files: ['k=URL']")),
    "ConfigMapGenerator.envs": ("generators", plugin("ConfigMapGenerator", "envs: ['URL']")),
    "ConfigMapGenerator.env": ("generators", plugin("ConfigMapGenerator", "env: 'URL'")),
    "SecretGenerator.files": ("generators", plugin("SecretGenerator", "files: ['URL']")),
    "SecretGenerator.envs": ("generators", plugin("SecretGenerator", "envs: ['URL']")),
    "SecretGenerator.env": ("generators", plugin("SecretGenerator", "env: 'URL'")),
    "PatchTransformer.path": ("transformers", plugin("PatchTransformer", "path: 'URL'")),
    "PatchJson6902Transformer.path": (
        "transformers",
        plugin("PatchJson6902Transformer", "path: 'URL'", "target: {kind: ConfigMap, name: a}"),
    ),
    "PatchStrategicMergeTransformer.paths": (
        "transformers",
        plugin("PatchStrategicMergeTransformer", "paths: ['URL']"),
    ),
    "ReplacementTransformer.replacements.path": (
        "transformers",
        plugin("ReplacementTransformer", "replacements: [{path: 'URL'}]"),
    ),
    "ValueAddTransformer.targetFilePath": (
        "validators",
        plugin("ValueAddTransformer", "targetFilePath: 'URL'"),
    ),
}
ROWS = {
    **FIELDS,
    **{name: f"{field}:\n- {text}" for name, (field, text) in PLUGINS.items()},
}
# Not fetched by this version: folders it would clone, a field that plugins ignore.
UNREADABLE = {"bases", "components", "ConfigMapGenerator.env", "SecretGenerator.env"}


def tree(text: str, url: str) -> dict[str, str]:
    return {
        "app/kustomization.yaml": ("" if "resources:" in text else "resources: [a.yaml]\n")
        + text.replace("URL", url),
        "app/a.yaml": POD,
    }


def test_the_rows_have_every_field_of_the_tables() -> None:
    in_tables = {".".join(step for step in path if step != "*") for path in _FIELDS}
    in_tables |= {
        ".".join([kind, *(step for step in path if step != "*")])
        for kind, fields in _PLUGINS.items()
        for path in fields
    }
    assert {name.partition(" ")[0] for name in ROWS} == in_tables


SPELLINGS = [
    "{}",
    "HTTP{rest}",
    "git::{}",
    "{}?ref=v1",
    "https{rest}",
    "{}/../../a.yaml",
]


@pytest.mark.parametrize("name", ROWS)
def test_no_field_reaches_loopback(
    origin: Origin, repository: Repository, loopback: Loopback, name: str
) -> None:
    """Neither from a unit's branch nor from a commit that only a pull request has."""
    for spelling in SPELLINGS:
        url = spelling.format(loopback.url, rest=loopback.url.removeprefix("http"))
        commit = origin.commit(tree(ROWS[name], url), branch="main")
        run_git(origin.work, "push", "--quiet", "--force", "origin", "HEAD:refs/pull/7/head")
        with pytest.raises(InvalidManifests) as caught:
            read_desired(repository, commit, "app")
        assert caught.value.findings[0].code == "GK3402"
        assert str(caught.value.findings[0].places[0]).startswith("app/kustomization.yaml:")
    assert loopback.asked == []


@pytest.mark.parametrize("name", sorted(set(ROWS) - UNREADABLE))
def test_kustomize_itself_would_fetch(
    tmp_path: Path, kubectl: str, loopback: Loopback, name: str
) -> None:
    """The rows are no imagination, and the network namespace holds without the check."""
    for path, text in tree(ROWS[name], loopback.url).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text)
    words = [kubectl, "kustomize", str(tmp_path / "app")]
    if without_network():
        subprocess.run([*without_network(), *words], capture_output=True, check=False)
        assert loopback.asked == []
    subprocess.run(words, capture_output=True, check=False)
    assert loopback.asked != []


NESTED = {
    "a nested kustomization": {
        "app/kustomization.yaml": "resources: [../base]\n",
        "base/kustomization.yaml": "configMapGenerator: [{name: made, files: ['URL']}]\n",
    },
    "a component": {
        "app/kustomization.yaml": "components: [../base]\n",
        "base/kustomization.yaml": "kind: Component\npatches: [{path: 'URL'}]\n",
    },
    "a file of plugins": {
        "app/kustomization.yaml": "transformers: [t.yaml]\n",
        "app/t.yaml": "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: p}\n"
                      "path: 'URL'\n",
    },
    "a second document of plugins": {
        "app/kustomization.yaml": "transformers: [t.yaml]\n",
        "app/t.yaml": "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {name: p}\n"
                      "prefix: a\n---\napiVersion: builtin\nkind: PatchTransformer\n"
                      "metadata: {name: q}\npath: 'URL'\n",
    },
    "a folder of plugins": {
        "app/kustomization.yaml": "generators: [plugins]\n",
        "app/plugins/kustomization.yaml": "resources: [g.yaml]\n",
        "app/plugins/g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\n"
                              "metadata: {name: p}\nfiles: ['a=URL']\n",
    },
    "an alias": {
        "app/kustomization.yaml": "commonAnnotations: {a: &u 'URL'}\ncrds: [*u]\n",
    },
    "a merged mapping": {
        "app/kustomization.yaml": "patches:\n- <<: {path: 'URL'}\n",
    },
    "inline text that is a URL as well": {
        "app/kustomization.yaml": "transformers:\n- 'URL: {apiVersion: builtin}'\n",
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NESTED)
def test_what_is_reached_from_a_kustomization_is_checked_as_well(
    origin: Origin, repository: Repository, loopback: Loopback, name: str
) -> None:
    files = {path: text.replace("URL", loopback.url) for path, text in NESTED[name].items()}
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, origin.commit(files), "app")
    assert caught.value.findings[0].code == "GK3402"
    assert loopback.asked == []


UNKNOWN = {
    "another case of a field": "Crds: ['URL']\n",
    "a letter that folds": "re\u017fources: ['URL']\n",
    "another case inside": "patches: [{Path: 'URL'}]\n",
    "another case in a plugin": "transformers:\n- " + plugin("PatchTransformer", "PATH: 'URL'"),
    "another spelling of the kind": "transformers:\n- |-\n  apiVersion: builtin\n  Kind: X\n",
    "a list of plugins": "transformers:\n- '{kind: List, apiVersion: v1, items: []}'\n",
    "a plugin that is a program": "generators:\n- |-\n  apiVersion: acme.io/v1\n  kind: Prog\n",
    "an unknown field": "remoteThings: ['URL']\n",
    "computed plugins": "transformers: [plugins]\n",
    "a plugin that is no text": "transformers: [{kind: PatchTransformer}]\n",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_on_the_list_is_refused(
    origin: Origin, repository: Repository, loopback: Loopback, name: str
) -> None:
    files = {
        "app/kustomization.yaml": UNKNOWN[name].replace("URL", loopback.url),
        "app/plugins/kustomization.yaml": "namePrefix: 'http:'\nresources: [p.yaml]\n",
        "app/plugins/p.yaml": POD,
    }
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, origin.commit(files), "app")
    assert caught.value.findings[0].code == "GK3407"
    assert loopback.asked == []


REMOTE = [
    "github.com/a/b", "GitHub.com/a/b//c", "git@host.example:a/b", "me@host.example:a/b",
    "host.example/a/b.git?ref=main", "git::ssh://host.example/a", "file:///etc", "gh:a/b",
    "s3::https://x.example/a", "ssh://host.example/a", "bitbucket.org/a/b", "a//b",
]  # fmt: skip


@pytest.mark.parametrize("value", REMOTE)
@pytest.mark.parametrize("field", ["resources", "bases", "components", "transformers", "crds"])
def test_remote_spellings_are_refused(
    origin: Origin, repository: Repository, field: str, value: str
) -> None:
    commit = origin.commit({"app/kustomization.yaml": f"{field}: ['{value}']\n"})
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, commit, "app")
    assert caught.value.findings[0].code == "GK3402"


OUTSIDE = [
    ("crds: [/etc/passwd]", "GK3404"),
    ("configurations: [../../x]", "GK3404"),
    ("crds: [../other.yaml]", "GK3404"),
    ("crds: [gone.yaml]", "GK3404"),
    ("configMapGenerator: [{name: made, files: [k=../other.yaml]}]", "GK3404"),
    ("transformers: [../other.yaml]", "GK3404"),
    ("components: [a.yaml]", "GK3404"),
]


@pytest.mark.parametrize(("text", "code"), OUTSIDE)
def test_files_outside_the_folder_are_refused(
    origin: Origin, repository: Repository, text: str, code: str
) -> None:
    files = {"app/kustomization.yaml": text, "other.yaml": POD, "app/a.yaml": POD}
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, origin.commit(files), "app")
    assert caught.value.findings[0].code == code


FULL = {
    "app/kustomization.yaml": f"""\
resources: [a.yaml, ../base]
commonAnnotations: {{docs: https://docs.example/x}}
patches:
- path: p.yaml
- patch: |-
    - op: add
      path: /data/url
      value: http://127.0.0.1:9/
  target: {{kind: ConfigMap, name: a}}
patchesStrategicMerge:
- |-
  apiVersion: v1
  kind: ConfigMap
  metadata: {{name: a}}
  data: {{merged: https://merged.example/}}
configMapGenerator:
- {{name: files, files: [icon@2x.png, key=p.yaml], envs: [e.env], literals: [u=http://x.example]}}
transformers:
- t.yaml
- {plugin("AnnotationsTransformer", "annotations: {z: http://z.example}",
          "fieldSpecs: [{path: metadata/annotations, create: true}]")}
generators: [plugins]
""",
    "app/a.yaml": POD,
    "app/p.yaml": POD.replace("data: {}", "data: {patched: 'yes'}"),
    "app/e.env": "E=1\n",
    "app/icon@2x.png": "x",
    "app/t.yaml": "apiVersion: builtin\nkind: PrefixTransformer\nmetadata: {name: p}\n"
                  "prefix: my-\nfieldSpecs: [{path: metadata/name}]\n",
    "app/plugins/kustomization.yaml": "resources: [g.yaml]\n",
    "app/plugins/g.yaml": "apiVersion: builtin\nkind: ConfigMapGenerator\n"
                          "metadata: {name: made}\nenvs: [e.env]\n",
    "base/kustomization.yaml": "resources: [b.yaml]\n",
    "base/b.yaml": POD.replace("name: a", "name: b"),
}  # fmt: skip


@pytest.mark.usefixtures("kubectl")
def test_everything_local_is_rendered_as_before(origin: Origin, repository: Repository) -> None:
    manifests = read_desired(repository, origin.commit(FULL), "app").checked()
    found = {re.sub(r"-\w{10}$", "", d.obj["metadata"]["name"]): d.obj for d in manifests.documents}
    assert sorted(found) == ["my-a", "my-b", "my-files", "my-made"]
    assert found["my-a"]["data"] == {
        "patched": "yes", "url": "http://127.0.0.1:9/", "merged": "https://merged.example/",
    }  # fmt: skip
    assert found["my-a"]["metadata"]["annotations"]["z"] == "http://z.example"
    assert sorted(found["my-files"]["data"]) == ["E", "icon@2x.png", "key", "u"]


_LEAVE = """
import ctypes, sys
libc = ctypes.CDLL(None)
sys.exit(bool(libc.unshare(0x50000000) and libc.unshare(0x40000000)))
"""


def test_isolation_is_left_out_only_where_the_kernel_forbids_it() -> None:
    tried = subprocess.run([sys.executable, "-c", _LEAVE], check=False, capture_output=True)
    assert bool(without_network()) is (tried.returncode == 0)


def test_a_renderer_has_no_network_where_the_kernel_allows_that(
    origin: Origin, repository: Repository, tmp_path: Path, loopback: Loopback
) -> None:
    if not without_network():
        pytest.skip("no network namespaces: sysctl user.max_user_namespaces, seccomp")
    ask = f"import urllib.request as u; u.urlopen({loopback.url!r}, timeout=5).read()"
    script = f'unset HTTP_PROXY HTTPS_PROXY\nexec {sys.executable} -c "{ask}"'
    search = program(tmp_path / "bin", script)
    with pytest.raises(InvalidManifests) as caught:
        Renderer(repository, ParseCache(), search=search).render(origin.commit(FULL), "app")
    assert caught.value.findings[0].code == "GK3403"
    assert loopback.asked == []
