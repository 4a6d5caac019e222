"""What a plan shows: object changes, and what they do to pods."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gitkruise.errors import Finding
from gitkruise.model.change import Change

if TYPE_CHECKING:
    from gitkruise.gitops.preview import Forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """Object changes in key order, and what they do to pods. `live`: pods have their real names."""

    changes: tuple[Change, ...]
    forecast: Forecast | None
    live: bool
    unplayed: tuple[Finding, ...] = field(default=())  # why some rollout could not be played
