"""Progress of a promotion in words."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gitkruise.wire.primitives.times import format_duration

if TYPE_CHECKING:
    from gitkruise.model.gitops.promotion import PromotionRecord


def progress(promotion: PromotionRecord, now: datetime) -> str:
    """Return `step 1 of 3; partition 50% in 8m`, or the reason why the next step waits."""
    behind = f"step {promotion.step} of {promotion.steps}"
    onto = "all" if promotion.next in {"0", "0%"} else f"partition {promotion.next}"
    if promotion.offered:
        return f"{behind}; {onto} is proposed: {promotion.offered}"
    if promotion.why:
        return f"{behind}; not on to {onto}: {promotion.why}"
    if promotion.due is None or promotion.due - now < timedelta(seconds=1):
        return f"{behind}; {onto} is next"
    note = f" ({promotion.note})" if promotion.note else ""
    return f"{behind}; {onto} in {format_duration(promotion.due - now)}{note}"
