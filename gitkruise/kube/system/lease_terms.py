"""Name and terms of the lease of the process that applies, for commands and for the controller.

No other process takes over before the holder's record was unchanged for the whole duration, and
then at its next look: together less than 15 seconds after a holder that was killed. The holder
itself stops earlier, and bytes of a write that the server has not taken by then do not outlive the
lease in the kernel: a connection that heals later must not carry them.
"""

from __future__ import annotations

from typing import Final

SYNC_LEASE: Final = "gitkruise-sync"  # of a controller without a name of its own
DURATION_S: Final = 12
# Shares of the duration:
RENEW_WITHIN: Final = 2 / 3  # without a renewal for so long the holder stops writing
RETRY: Final = 2 / 15  # between two looks, and between two renewals
UNSENT_WITHIN: Final = 1 / 4  # the kernel drops a connection whose bytes are not acknowledged
