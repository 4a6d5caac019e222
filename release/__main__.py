"""The command behind `make release`: build the parts of a release into a folder."""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import click

from release.distributions import build_distributions
from release.manifests import NAME, chart, image_reference, install_yaml
from release.source import NotReleasable, Source, source_of


@click.command()
@click.option("--out", type=click.Path(path_type=Path), default=Path("dist"), show_default=True,
              help="Folder of the files; emptied first.")  # fmt: skip
@click.option("--repository", default=NAME, show_default=True,
              help="Repository of the image, with its registry.")  # fmt: skip
@click.option("--digest", default="", help="Digest of the image in that repository.")
def main(out: Path, repository: str, digest: str) -> None:
    """Build the files of a release from HEAD."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            source = source_of(Path(folder) / "source")
        except NotReleasable as refused:
            raise click.ClickException(str(refused)) from None
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        _write(source, out, repository, digest)
    for path in sorted(out.iterdir()):
        click.echo(f"{path.stat().st_size:>12,}  {path}")


def _write(source: Source, out: Path, repository: str, digest: str) -> None:
    build_distributions(source, out)
    image = image_reference(repository, source.version, digest)
    (out / "install.yaml").write_text(install_yaml(image))
    packed = chart(source.version, source.epoch, repository=repository, digest=digest)
    (out / f"{NAME}-chart-{source.version}.tgz").write_bytes(packed)


if __name__ == "__main__":
    sys.exit(main())
