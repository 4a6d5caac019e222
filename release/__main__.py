"""The command behind `make release`: build the files of a release into a folder."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from release.archives import File, compressed, tar_of
from release.bill import bill_of_distributions, bill_of_image
from release.debian import ARCHITECTURE, build_package
from release.distributions import build_distributions
from release.manifests import NAME, chart, image_reference, install_yaml
from release.pages import shared_files
from release.provenance import BUILDER, digests_of, sign, statement, write_sums
from release.root_files import (
    build_base,
    build_image,
    build_program,
    check_builder,
    modules_of_image,
)
from release.source import NotReleasable, Source, source_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The commit, the folder of the files, and the repository that the image will be in."""

    source: Source
    out: Path
    repository: str

    def path(self, end: str) -> Path:
        return self.out / f"{NAME}-{self.source.version}{end}"


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), show_default=True,
              help="Folder of the files; emptied first.")  # fmt: skip
@click.option("--repository", default=NAME, show_default=True,
              help="Repository of the image; with a registry, it is named by digest.")  # fmt: skip
@click.option("--no-image", is_flag=True,
              help="Leave out what needs root and mmdebstrap: image and package.")  # fmt: skip
@click.option("--builder", default=BUILDER, show_default=True,
              help="Identity of the builder, a URI, for the provenance.")  # fmt: skip
@click.option("--sign", "key", default="", metavar="KEY", help="Sign SHA256SUMS with a gpg key.")
def main(out: Path, repository: str, builder: str, key: str, *, no_image: bool) -> None:
    """Build the files of a release from HEAD."""
    try:
        if not no_image:
            check_builder()
        with tempfile.TemporaryDirectory() as folder:
            source = source_of(Path(folder) / "source")
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            release = Release(source=source, out=out, repository=repository)
            _write(release, builder, with_image=not no_image)
    except NotReleasable as refused:
        raise click.ClickException(str(refused)) from None
    sums = write_sums(out)
    if key:
        sign(sums, key)
    for path in sorted(out.iterdir()):
        click.echo(f"{path.stat().st_size:>12,}  {path}")


def _write(release: Release, builder: str, *, with_image: bool) -> None:
    source = release.source
    _, wheel = build_distributions(source, release.out)
    shared = shared_files(source.version, source.epoch)
    pinned = _write_image_and_package(release, wheel, shared) if with_image else ""
    # Without a registry nothing resolves a digest: a node has the image under its tag.
    digest = pinned if "/" in release.repository else ""
    reference = image_reference(release.repository, source.version, digest)
    (release.out / "install.yaml").write_text(install_yaml(reference))
    packed = chart(source.version, source.epoch, repository=release.repository, digest=digest)
    release.path(".tgz").write_bytes(packed)
    files = {f"share/{path}": File(text.encode()) for path, text in shared.items()}
    release.path("-share.tar.gz").write_bytes(compressed(tar_of(files, epoch=source.epoch)))
    release.path(".cdx.json").write_text(bill_of_distributions(source))
    digests = digests_of(release.out.iterdir())
    if pinned:
        digests[image_reference(release.repository, source.version)] = pinned
    parameters = {"repository": release.repository, "image": with_image}
    text = statement(source, digests, parameters, builder=builder)
    release.path(".intoto.json").write_text(text)


def _write_image_and_package(release: Release, wheel: Path, shared: Mapping[str, str]) -> str:
    """Write the package, the image and its list of components; return the image's digest."""
    source = release.source
    work = source.root.parent
    root = work / "root"
    root.mkdir()
    base = build_base(work, source.epoch)
    build_program(source, wheel, base, root)
    package = release.out / f"{NAME}_{source.version}_{ARCHITECTURE}.deb"
    build_package(source, root, shared, package)
    image = build_image(source, base, root)
    reference = image_reference(release.repository, source.version)
    release.path("-image-amd64.tar").write_bytes(image.archive(reference))
    bill = bill_of_image(source, base, modules_of_image(source))
    release.path("-image-amd64.cdx.json").write_text(bill)
    return image.digest


if __name__ == "__main__":
    sys.exit(main())
