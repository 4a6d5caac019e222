"""What automatic actions say of their failures."""

from __future__ import annotations

from gitkruise.errors import DiagnosticError
from gitkruise.git.plumbing.errors import refusal
from gitkruise.git.plumbing.process import Result
from gitkruise.gitops.actions.loop import error_line


def test_a_refused_push_is_reported_in_the_words_of_the_server() -> None:
    output = b"!\tabc:refs/heads/main\t[remote rejected] (pre-receive hook declined)\n"
    error = refusal("https://git/shop", Result(1, output, "remote: main is protected\n"))
    assert isinstance(error, DiagnosticError)
    assert error_line(error) == (
        "GK3106: the push to https://git/shop was refused "
        "(main is protected [remote rejected] (pre-receive hook declined))"
    )
