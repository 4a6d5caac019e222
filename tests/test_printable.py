"""No finding carries characters that move a cursor, wherever it is made."""

from __future__ import annotations

import pytest

from gitkruise.errors import Finding, SourcePlace
from gitkruise.printable import UNPRINTABLE


@pytest.mark.parametrize("mark", ["\u202e", "\x1b[2J", "\r\n", "\u2066", "\x9b"])
def test_every_text_of_a_finding_is_escaped(mark: str) -> None:
    text = f"a{mark}b"
    place = SourcePlace(file=text, line=1, snippet=((1, text),), label=text)
    finding = Finding(
        code="GK2101", message=text, places=(place,), notes=(("why", text),), object=text
    )
    ((number, line),) = finding.places[0].snippet
    assert number == 1
    texts = (finding.message, finding.object, finding.notes[0][1], place.file, place.label, line)
    assert not [one for one in texts if UNPRINTABLE.search(one)]
    assert all(one.startswith("a\\") and one.endswith("b") for one in texts)
