"""Lists of components (SBOM) in CycloneDX: of the distributions, and of the image."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from release.source import NotReleasable, Source

NAME: Final = "gitkruise"
_PIN: Final = re.compile(r"^(\S+)==(\S+)(?: ;[^\\]*)? \\\n((?:^ +\S.*\n)+)", re.MULTILINE)
_VIA: Final = re.compile(r"^ +#(?: via)?(?: +(\S+))?", re.MULTILINE)
_STATUS: Final = "./var/lib/dpkg/status"


@dataclass(frozen=True, slots=True)
class Pin:
    """One line of requirements.txt; `wanted_by` names the pins and files that want it."""

    name: str
    version: str
    wanted_by: tuple[str, ...]


def read_pins(requirements: str) -> tuple[Pin, ...]:
    """The pins of a file that pip-compile wrote.

    Raises NotReleasable when the file has a pin that is not read.
    """
    pins = tuple(
        Pin(name, version, tuple(filter(None, _VIA.findall(rest))))
        for name, version, rest in _PIN.findall(requirements)
    )
    if len(pins) != len(re.findall(r"^\S+==", requirements, re.MULTILINE)):
        raise NotReleasable("requirements.txt has a pin of an unknown form")
    return pins


def bill_of_distributions(source: Source) -> str:
    """gitkruise and its pinned dependencies, with their dependencies."""
    return _text(source, "distributions", _pinned(source))


def bill_of_image(source: Source, base: Path, modules: Mapping[str, str]) -> str:
    """The same, with the Debian packages of the image and the Go modules of its programs."""
    built = (_component(name, version, "golang") for name, version in modules.items())
    more = [*_debian(base), *built]
    return _text(source, "image", _pinned(source), more)


def _pinned(source: Source) -> Mapping[str, tuple[Component, Pin]]:
    pins = read_pins((source.root / "requirements.txt").read_text())
    return {pin.name: (_component(pin.name, pin.version, "pypi"), pin) for pin in pins}


def _debian(base: Path) -> Iterator[Component]:
    """The installed packages of a root file system in a tar."""
    with tarfile.open(base) as tar:
        status = tar.extractfile(_STATUS)
        if status is None:
            raise NotReleasable(f"the image has no {_STATUS}")
        text = status.read().decode()
    for paragraph in text.strip().split("\n\n"):
        fields = dict(re.findall(r"^([A-Z]\S*): (.*)$", paragraph, re.MULTILINE))
        yield _component(
            fields["Package"], fields["Version"], "deb", "debian", arch=fields["Architecture"]
        )


def _component(name: str, version: str, kind: str, group: str = "", **more: str) -> Component:
    url = PackageURL(kind, group or None, name, version, more or None)
    text = url.to_string()
    return Component(name=name, version=version, type=ComponentType.LIBRARY, purl=url, bom_ref=text)


def _text(
    source: Source,
    what: str,
    pinned: Mapping[str, tuple[Component, Pin]],
    more: Sequence[Component] = (),
) -> str:
    """The document; its serial number and time are those of the commit."""
    program = Component(
        name=NAME, version=source.version, type=ComponentType.APPLICATION, bom_ref=NAME,
        purl=PackageURL("pypi", None, NAME, source.version),
    )  # fmt: skip
    bom = Bom(
        serial_number=uuid5(NAMESPACE_URL, f"{NAME}:{what}:{source.commit}"),
        metadata=BomMetaData(
            component=program, timestamp=datetime.fromtimestamp(source.epoch, UTC)
        ),
        components=[*(component for component, _ in pinned.values()), *more],
    )
    wanted: dict[str, list[Component]] = {name: [] for name in (NAME, *pinned)}
    for component, pin in pinned.values():
        for parent in pin.wanted_by:
            # A word that is no pin is pyproject.toml, or the project itself.
            wanted[parent if parent in pinned else NAME].append(component)
    for name, needs in wanted.items():
        bom.register_dependency(program if name == NAME else pinned[name][0], set(needs))
    bom.register_dependency(program, more)
    return str(JsonV1Dot6(bom).output_as_string(indent=2)) + "\n"
