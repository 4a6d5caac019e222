"""The manifests below a path: read, skipped or refused, and how that is reported."""

from __future__ import annotations

import pytest

from gitkruise.errors import InvalidManifests, SourceFailed
from gitkruise.git.manifests.reader import PLAIN, Manifests, ParseCache, read_desired
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin


def config_map(name: str, extra: str = "") -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {name}\n{extra}"


def names(manifests: Manifests) -> list[str]:
    return [document.obj["metadata"]["name"] for document in manifests.documents]


def codes(manifests: Manifests) -> list[str]:
    return [finding.code for finding in manifests.findings]


def test_manifests_are_found_by_their_names(origin: Origin, repository: Repository) -> None:
    """B-Y40"""
    found = {"a.yaml": "a", "b.YML": "b", "sub/deep/c.Yaml": "c", "z.json": "z"}
    skipped = [".hidden.yaml", "x.yaml.bak", "x.yaml~", "#x.yaml#", ".#x.yaml"]
    other = ["README.md", ".git-not/x.yaml", "x.yamlx", ".dir/y.yaml"]
    files = {f"app/{name}": config_map(value) for name, value in found.items()}
    files["app/z.json"] = '{"apiVersion": "v1", "kind": "A", "metadata": {"name": "z"}}'
    files |= {f"app/{name}": "not: [yaml" for name in skipped + other}
    manifests = read_desired(repository, origin.commit(files), "app").checked()
    assert sorted(names(manifests)) == ["a", "b", "c", "z"]
    assert manifests.documents[0].file == "app/a.yaml"


def test_one_file_may_be_the_path(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({"app/a.yaml": config_map("a"), "app/b.yaml": config_map("b")})
    assert names(read_desired(repository, commit, "app/a.yaml")) == ["a"]


@pytest.mark.parametrize("name", [".gitkruiseignore", ".sourceignore"])
def test_ignored_files_are_not_looked_at(origin: Origin, repository: Repository, name: str) -> None:
    rules = "# drafts\n/drafts/\n*.tmp.yaml\n!keep.tmp.yaml\nbroken.y*ml\n"
    commit = origin.commit({
        f"app/{name}": rules, "app/a.yaml": config_map("a"), "app/drafts/d.yaml": "not: [yaml",
        "app/sub/drafts/e.yaml": config_map("e"), "app/x.tmp.yaml": "not: [yaml",
        "app/keep.tmp.yaml": config_map("keep"), "app/broken.yaml": "not: [yaml",
    })  # fmt: skip
    manifests = read_desired(repository, commit, "app", ignore=["a.yaml"]).checked()
    assert names(manifests) == ["keep", "e"]


def test_lists_are_expanded_once(origin: Origin, repository: Repository) -> None:
    text = (
        "apiVersion: v1\nkind: List\nitems:\n"
        "- {apiVersion: v1, kind: A, metadata: {name: a}}\n"
        "- {apiVersion: v1, kind: B, metadata: {name: b}}\n"
        "- {apiVersion: v1, kind: List, items: []}\n- just text\n"
    )
    manifests = read_desired(repository, origin.commit({"l.yaml": text}))
    assert names(manifests) == ["a", "b"]
    assert [str(document) for document in manifests.documents] == ["l.yaml:4", "l.yaml:5"]
    assert codes(manifests) == ["GK2010", "GK2002"]


def test_items_of_a_typed_list_need_no_kind(origin: Origin, repository: Repository) -> None:
    text = (
        "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n"
        "- {apiVersion: v2, kind: B, metadata: {name: b}}\n- {kind: C, metadata: {name: c}}\n"
    )
    manifests = read_desired(repository, origin.commit({"l.yaml": text}))
    found = [(d.obj["apiVersion"], d.obj["kind"], str(d)) for d in manifests.documents]
    assert found == [("v1", "ConfigMap", "l.yaml:4"), ("v2", "B", "l.yaml:5")]
    (finding,) = manifests.findings
    assert (finding.code, str(finding.places[0])) == ("GK2001", "l.yaml:6:3")


def test_a_list_of_a_template_may_be_empty(origin: Origin, repository: Repository) -> None:
    files = {"a.yaml": "apiVersion: v1\nkind: List\nitems:\n", "b.yaml": config_map("b")}
    manifests = read_desired(repository, origin.commit(files)).checked()
    assert names(manifests) == ["b"]


SHAPES = [
    ("B-M01-version", "kind: A\n", "GK2001", "a.yaml:1"),
    ("B-M01-kind", "apiVersion: v1\n", "GK2001", "a.yaml:1"),
    ("B-M01-number", "apiVersion: v1\nkind: 5\n", "GK2001", "a.yaml:2:7"),
    ("B-M02-list", "- a\n", "GK2002", "a.yaml:1:1"),
    ("B-M02-list-bare", "apiVersion: v1\nkind: List\n", "GK2002", "a.yaml:1"),
    ("B-M02-list-items", "apiVersion: v1\nkind: List\nitems: {}\n", "GK2002", "a.yaml:3:8"),
    ("B-M02-list-kind", "apiVersion: v1\nkind: List\nitems: [{a: b}]\n", "GK2001", "a.yaml:3:9"),
    ("B-M02-scalar", "hello\n", "GK2002", "a.yaml:1:1"),
    ("B-G14", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "GK3013",
     "a.yaml:1"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "code", "where"), [r[1:] for r in SHAPES], ids=[r[0] for r in SHAPES]
)
def test_what_is_no_object_is_refused(
    origin: Origin, repository: Repository, text: str, code: str, where: str
) -> None:
    manifests = read_desired(repository, origin.commit({"a.yaml": text}))
    (finding,) = manifests.findings
    assert finding.code == code
    assert str(finding.places[0]).startswith(where)
    with pytest.raises(InvalidManifests):
        manifests.checked()


ENTRIES = [
    ("B-G11-symlink", "120000 blob {link}\tlink.yaml\n", "GK3011", "-> ../../etc/passwd"),
    ("B-G13-submodule", "160000 commit {id}\tsub\n", "GK3012", "a submodule"),
    ("B-G12-dotgit", "100644 blob {blob}\t.GIT\n", "GK3014", "may have this name"),
    ("B-G12-zero-width", "100644 blob {blob}\t.g\u200cit\n", "GK3014", "may have this name"),
    ("B-G12-mode", "100664 blob {blob}\tok.txt\n", "", ""),
]  # fmt: skip


@pytest.mark.parametrize(
    ("entry", "code", "says"), [r[1:] for r in ENTRIES], ids=[r[0] for r in ENTRIES]
)
def test_odd_tree_entries_are_refused(
    origin: Origin, repository: Repository, entry: str, code: str, says: str
) -> None:
    blob, link = origin.blob(b"x"), origin.blob(b"../../etc/passwd")
    commit = origin.plant(entry.format(blob=blob, link=link, id="1" * 40))
    findings = read_desired(repository, commit).findings
    assert [finding.code for finding in findings] == ([code] if code else [])
    assert all(says in finding.message for finding in findings)


def test_names_that_are_not_utf8_are_refused(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({"a\udcff.yaml": config_map("a")})
    (finding,) = read_desired(repository, commit).findings
    assert finding.code == "GK3015"
    assert finding.places[0].file == "a\\udcff.yaml"


def test_a_large_file_is_refused_before_it_is_read(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({"a.yaml": b"#" * (9 << 20), "b.yaml": config_map("b")})
    cache = ParseCache()
    manifests = read_desired(repository, commit, cache=cache)
    assert (codes(manifests), cache.parsed) == (["GK9005"], 1)


def test_configuration_and_kustomizations_are_not_objects(
    origin: Origin, repository: Repository
) -> None:
    commit = origin.commit({
        "gitkruise.yaml": "apiVersion: gitkruise.io/v1alpha1\nkind: Unit\nmetadata: {name: u}\n",
        "base/kustomization.yaml": "resources: [a.yaml]\n", "base/a.yaml": config_map("a"),
        "teams/units.yaml": "apiVersion: gitkruise.io/v1alpha1\nkind: Unit\nmetadata: {name: v}\n",
        "k.yaml": "apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Component\n",
    })  # fmt: skip
    manifests = read_desired(repository, commit, rendering=PLAIN).checked()
    assert names(manifests) == ["a", "v"]
    assert [document.obj["metadata"]["name"] for document in manifests.config] == ["u"]


CHARTED = {"Chart.yaml": "apiVersion: v2\nname: x\nversion: 1.0.0\n", "templates/a.yaml": "{{ x }}"}
UNRENDERED: dict[str, tuple[dict[str, str], list[str], str]] = {
    # files, the places of what is refused, and what to do about it
    "a kustomization": (
        {"apps/web/kustomization.yaml": "namePrefix: a-", "apps/web/a.yaml": "{"},
        ["apps/web/kustomization.yaml"], "or set render.kind: plain"),
    "its bases": (
        {"apps/web/kustomization.yml": "", "apps/web/base/Kustomization": ""},
        ["apps/web/kustomization.yml"], "the path apps/web and list apps/web/ in"),
    "a chart": (
        {f"apps/web/{name}": text for name, text in CHARTED.items()},
        ["apps/web/Chart.yaml"], "path apps/web and render.kind: helm, and list"),
    "a chart at the path": (
        {f"apps/{at}{name}": text for name, text in CHARTED.items() for at in ("", "charts/b/")},
        ["apps/Chart.yaml"], "set render.kind: helm in this unit"),
    "one that is ignored": (
        {"apps/web/kustomization.yaml": "", ".gitkruiseignore": "web/"}, [], ""),
    "an object in a file of that name": ({"apps/web/Chart.yaml": config_map("chart")}, [], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", UNRENDERED)
def test_a_folder_that_nothing_renders_is_refused_and_not_read_as_it_is(
    origin: Origin, repository: Repository, name: str
) -> None:
    files, places, next_ = UNRENDERED[name]
    commit = origin.commit({"apps/own.yaml": config_map("own"), **files})
    manifests = read_desired(repository, commit, "apps")
    assert [str(f.places[0]) for f in manifests.findings if f.code == "GK3421"] == places
    assert len(manifests.findings) == len(places)
    assert all(next_ in dict(finding.notes)["next"] for finding in manifests.findings)
    assert names(manifests) in (["own"], ["own", "chart"], [])


def test_all_problems_of_a_commit_are_reported_together(
    origin: Origin, repository: Repository
) -> None:
    commit = origin.commit({f"f{n:02}.yaml": "a: [1\n" for n in range(23)} | {
        "good.yaml": config_map("good")})  # fmt: skip
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, commit).checked()
    findings = caught.value.findings
    assert len(findings) == 21
    assert {finding.code for finding in findings[:20]} == {"GK1101"}
    assert findings[20].message == "and 3 more problems"


def test_only_what_changed_is_parsed_again(origin: Origin, repository: Repository) -> None:
    cache = ParseCache()
    first = origin.commit({f"d{n}/f.yaml": config_map(f"n{n}") for n in range(30)})
    one = read_desired(repository, first, cache=cache)
    second = origin.commit({"d7/f.yaml": config_map("changed"), "copy.yaml": config_map("n1")})
    two = read_desired(repository, second, cache=cache)
    assert cache.parsed == 31
    assert one.tree != two.tree
    copies = [d.file for d in two.documents if d.obj["metadata"]["name"] == "n1"]
    assert copies == ["copy.yaml", "d1/f.yaml"]


def test_an_unchanged_path_has_the_same_tree(origin: Origin, repository: Repository) -> None:
    first = origin.commit({"app/a.yaml": config_map("a"), "other": "1"})
    second = origin.commit({"other": "2"})
    trees = {read_desired(repository, commit, "app").tree for commit in (first, second)}
    assert len(trees) == 1


def test_a_missing_path_is_not_an_empty_one(origin: Origin, repository: Repository) -> None:
    commit = origin.commit({"app/README.md": "nothing here"})
    assert read_desired(repository, commit, "app").documents == ()
    with pytest.raises(SourceFailed):
        read_desired(repository, commit, "gone")
