"""Archives of charts: those that were fetched, and their files."""

from __future__ import annotations

import hashlib
from typing import Final

from gitkruise.errors import Finding, InvalidManifests, SourceFailed
from gitkruise.git.helm.release import FetchedChart
from gitkruise.git.rendering.archive import UNREADABLE, unpacked
from gitkruise.printable import shown

ANOTHER_VERSION: Final = "name another version, or report it to the chart's author"


def files_of(chart: FetchedChart, data: bytes) -> dict[str, bytes]:
    """Return the files of an archive by their paths below its one folder.

    Raises SourceFailed GK3416 if the archive is another than the one that was fetched, and
    InvalidManifests GK3415 for one that is not unpacked.
    """
    if hashlib.sha256(data).hexdigest() != chart.digest:
        raise SourceFailed(
            Finding(
                code="GK3416",
                message=f"the cached archive of {chart} is not the one that was fetched",
                notes=(
                    ("unchanged", "what runs stays as it is; it is fetched again"),
                    ("next", "remove the folder charts of the state directory if it persists"),
                ),
            )
        )
    try:
        return unpacked(data, inside="the chart's folder")
    except UNREADABLE as error:
        raise InvalidManifests(
            Finding(
                code="GK3415",
                message=f"the archive of {chart} is not unpacked: {shown(str(error), 300)}",
                notes=(("next", ANOTHER_VERSION),),
            )
        ) from error
