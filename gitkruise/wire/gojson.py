"""JSON as Go's encoding/json writes it, byte for byte."""

from __future__ import annotations


class RawJSON(bytes):
    """JSON text kept exactly as it came, in place of a decoded value (a ControllerRevision's data).

    An opaque leaf: patches replace it whole, codecs write it verbatim.
    """
