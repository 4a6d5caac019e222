"""The container image: Debian packages as one layer, gitkruise and programs of Go as another."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from release.archives import tar_of_folder, unpack
from release.oci import Image, image, layer
from release.program import HOME, compile_program, write_program
from release.source import NotReleasable, Source

SUITE: Final = "trixie"
# git carries fetches and pushes; ssh is for git@ remotes, gpg for OpenPGP signatures of commits;
# google-re2 is linked with the library of C++.
PACKAGES: Final = (
    "python3", "git", "openssh-client", "ca-certificates", "gpg", "gpg-agent", "libstdc++6",
)  # fmt: skip
USER: Final = 65532
STATE: Final = "/var/lib/gitkruise"
_UNREAD: Final = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    "/usr/share/info/*",
)
_COPYRIGHT: Final = "/usr/share/doc/*/copyright"
# ssh refuses a user without an entry. Logs and caches hold times of the build.
_HOOKS: Final = (
    f'echo "gitkruise:x:{USER}:{USER}::{STATE}:/usr/sbin/nologin" >> "$1/etc/passwd"',
    f'echo "gitkruise:x:{USER}:" >> "$1/etc/group"',
    f'install -d -o {USER} -g {USER} "$1{STATE}"',
    'rm -rf "$1"/var/cache/ldconfig "$1"/var/log/*',
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoProgram:
    """A program of a Go module; `pins` is the folder whose go.mod names the module's version."""

    name: str
    module: str
    package: str  # below the module
    pins: str
    version_variable: str  # set by the linker

    def version(self, source: Source) -> str:
        """The version that the tests use, and so the image."""
        text = (source.root / self.pins / "go.mod").read_text()
        (version,) = re.findall(
            rf"^(?:require|\t) ?{re.escape(self.module)} (v\S+)$", text, re.MULTILINE
        )
        return str(version)

    def build(self, source: Source, out: Path) -> None:
        """Build it without paths and times of this machine."""
        flags = f"-s -w -buildid= -X {self.version_variable}={self.version(source)}"
        words = ("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", str(out))
        variables = {**os.environ, "CGO_ENABLED": "0"}  # noqa: TID251  for a child process
        subprocess.run(
            (*words, self.module + self.package),
            cwd=source.root / self.pins,
            check=True,
            env=variables,
        )


# kustomize takes a third of the place of kubectl, which has the same kustomize inside.
PROGRAMS: Final = (
    GoProgram(
        name="kustomize", module="sigs.k8s.io/kustomize/kustomize/v5", package="",
        pins="release/kustomize", version_variable="sigs.k8s.io/kustomize/api/provenance.version",
    ),
    GoProgram(
        name="helm", module="helm.sh/helm/v3", package="/cmd/helm", pins="tests/git/helm/program",
        version_variable="helm.sh/helm/v3/internal/version.version",
    ),
)  # fmt: skip
ENVIRONMENT: Final = (
    f"PATH=/{HOME}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LANG=C.UTF-8",
    "PYTHONUNBUFFERED=1",
)


def check_builder() -> None:
    """Refuse a machine that cannot build the image.

    Raises NotReleasable.
    """
    missing = [
        name for name in ("mmdebstrap", "chroot", "dpkg-deb", "go") if not shutil.which(name)
    ]
    if missing or os.geteuid() != 0:
        why = f"{', '.join(missing)} missing" if missing else "it needs root"
        raise NotReleasable(f"image: {why}; next: leave it and the package out with --no-image")


def build_base(work: Path, epoch: int) -> Path:
    """Install Debian's packages into a tar, with mmdebstrap from its archive."""
    out = work / "base.tar"
    kept = [f"--dpkgopt=path-exclude={path}" for path in _UNREAD]
    kept.append(f"--dpkgopt=path-include={_COPYRIGHT}")
    hooks = [f"--customize-hook={line}" for line in _HOOKS]
    words = ("mmdebstrap", "--quiet", "--mode=root", "--variant=essential",
             f"--include={','.join(PACKAGES)}", *kept, *hooks, SUITE, str(out))  # fmt: skip
    variables = {**os.environ, "SOURCE_DATE_EPOCH": str(epoch)}  # noqa: TID251  for a child process
    subprocess.run(words, check=True, env=variables)
    return out


def modules_of_image(source: Source) -> Mapping[str, str]:
    """The modules of the image's programs, with their versions."""
    return {program.module: program.version(source) for program in PROGRAMS}


def build_program(source: Source, wheel: Path, base: Path, root: Path) -> None:
    """Write gitkruise below a root folder, compiled by the interpreter of the base."""
    unpacked = root.with_name(root.name + "-base")
    unpack(base, unpacked)
    write_program(source, wheel, root)
    compile_program(root, unpacked)


def build_image(source: Source, base: Path, root: Path) -> Image:
    """Put the image together; `root` holds gitkruise, and gets the programs of Go."""
    programs = root / "usr" / "local" / "bin"
    programs.mkdir(parents=True)
    for program in PROGRAMS:
        program.build(source, programs / program.name)
    layers = [layer(base.read_bytes()), layer(tar_of_folder(root, epoch=source.epoch))]
    named = {
        "org.opencontainers.image.title": "gitkruise",
        "org.opencontainers.image.version": source.version,
        "org.opencontainers.image.revision": source.commit,
        "org.opencontainers.image.licenses": "Apache-2.0",
    }
    settings = {
        "User": f"{USER}:{USER}",
        "Env": [*ENVIRONMENT, f"GITKRUISE_COMMIT={source.commit}"],
        "Entrypoint": ["gitkruise"],
        "Cmd": ["run", "--config", "/etc/gitkruise"],
        "Labels": named,
    }
    return image(layers, settings, epoch=source.epoch, annotations=named)
