"""The command behind `make release`: build the files of a release into a folder."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from release.archives import File, compressed, tar_of
from release.distributions import build_distributions
from release.manifests import NAME, chart, image_reference, install_yaml
from release.oci import Image
from release.pages import shared_files
from release.root_files import build_base, build_image, build_program, check_builder
from release.source import NotReleasable, Source, source_of


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), show_default=True,
              help="Folder of the files; emptied first.")  # fmt: skip
@click.option("--repository", default=NAME, show_default=True,
              help="Repository of the image; with a registry, it is named by digest.")  # fmt: skip
@click.option("--no-image", is_flag=True,
              help="Leave out what needs root and mmdebstrap: the image.")  # fmt: skip
def main(out: Path, repository: str, *, no_image: bool) -> None:
    """Build the files of a release from HEAD."""
    try:
        if not no_image:
            check_builder()
        with tempfile.TemporaryDirectory() as folder:
            source = source_of(Path(folder) / "source")
            shutil.rmtree(out, ignore_errors=True)
            out.mkdir(parents=True)
            _write(source, out, repository, with_image=not no_image)
    except NotReleasable as refused:
        raise click.ClickException(str(refused)) from None
    for path in sorted(out.iterdir()):
        click.echo(f"{path.stat().st_size:>12,}  {path}")


def _write(source: Source, out: Path, repository: str, *, with_image: bool) -> None:
    _, wheel = build_distributions(source, out)
    digest = ""
    if with_image:
        image = _image(source, wheel)
        reference = image_reference(repository, source.version)
        (out / f"{NAME}-{source.version}-image-amd64.tar").write_bytes(image.archive(reference))
        # Without a registry nothing resolves a digest: a node has the image under its tag.
        digest = image.digest if "/" in repository else ""
    manifests = install_yaml(image_reference(repository, source.version, digest))
    (out / "install.yaml").write_text(manifests)
    packed = chart(source.version, source.epoch, repository=repository, digest=digest)
    (out / f"{NAME}-{source.version}.tgz").write_bytes(packed)
    shared = shared_files(source.version, source.epoch)
    files = {f"share/{path}": File(text.encode()) for path, text in shared.items()}
    archive = out / f"{NAME}-{source.version}-share.tar.gz"
    archive.write_bytes(compressed(tar_of(files, epoch=source.epoch)))


def _image(source: Source, wheel: Path) -> Image:
    work = source.root.parent
    root = work / "root"
    root.mkdir()
    base = build_base(work, source.epoch)
    build_program(source, wheel, base, root)
    return build_image(source, base, root)


if __name__ == "__main__":
    sys.exit(main())
