"""Components that do not run are reported, each once and by one part of the program."""

from __future__ import annotations

import pytest

from gitkruise.errors import Finding, SourceFailed
from gitkruise.gitops.runtime.component_errors import ComponentErrors

AWAY = SourceFailed(Finding(code="GK3101", message="cannot reach the git remote"))


def test_a_unit_of_a_file_that_waits_for_the_remote_of_its_sink_is_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    errors = ComponentErrors(patient=True)
    for _ in range(2):
        errors.clear()
        errors.failed(("Sink", "shop/out"), AWAY, raised=True)
        assert errors.blocked(("Unit", "shop/web"), ("Sink", "shop/out"))
        assert errors.blocked(("Unit", "shop/own"), ("Sink", "shop/out"))
        errors.log_waiting({}, apart={("Unit", "shop/own")})
    messages = [record.getMessage() for record in caplog.records]
    assert [text.partition(" error=")[0] for text in messages] == [
        "event=not-started kind=Sink name=shop/out", "event=not-started kind=Unit name=shop/web",
    ]  # fmt: skip
    errors.clear()
    errors.log_waiting({})
    errors.failed(("Sink", "shop/out"), AWAY, raised=True)
    errors.log_waiting({})
    assert len(caplog.records) == 3, "it was there in between"
