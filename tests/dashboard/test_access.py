"""Access to the dashboard's data: its token, its session, and who may ask at all."""

from __future__ import annotations

import pytest

from gitkruise.dashboard.access import HEADERS, BrowserAccess

ACCESS = BrowserAccess("t" * 43, 8800)
HERE = "127.0.0.1:8800"

REFUSALS = {
    "by address": ({"Host": HERE}, 0),
    "by name": ({"Host": "localhost:8800"}, 0),
    "IPv6": ({"Host": "[::1]:8800"}, 0),
    "its own page": ({"Host": HERE, "Origin": f"http://{HERE}"}, 0),
    "no Host": ({}, 421),
    "another port": ({"Host": "127.0.0.1:80"}, 421),
    "a name that leads here": ({"Host": "rebound.example.com:8800"}, 421),
    "a name that begins alike": ({"Host": "127.0.0.1:8800.example.com"}, 421),
    "a page of another site": ({"Host": HERE, "Origin": "https://evil.example.com"}, 403),
    "another server of this machine": ({"Host": HERE, "Origin": "http://127.0.0.1:9000"}, 403),
    "its own name over another scheme": ({"Host": HERE, "Origin": f"https://{HERE}"}, 403),
    "a sandboxed frame": ({"Host": HERE, "Origin": "null"}, 403),
}


@pytest.mark.parametrize("row", REFUSALS)
def test_only_pages_of_this_server_may_ask(row: str) -> None:
    headers, status = REFUSALS[row]
    assert ACCESS.refusal(headers) == status


SESSIONS = {
    "its own": (f"gitkruise-8800={ACCESS.session}", True),
    "among others": (f"theme=dark; gitkruise-8800={ACCESS.session}; a=b", True),
    "none": ("", False),
    "empty": ("gitkruise-8800=", False),
    "wrong": ("gitkruise-8800=" + "0" * 64, False),
    "the token": (f"gitkruise-8800={ACCESS.token}", False),
    "of another port": (f"gitkruise-8801={ACCESS.session}", False),
    "of another token": (f"gitkruise-8800={BrowserAccess('u' * 43, 8800).session}", False),
    "no cookie at all": ("\x00;;=;", False),
    "other letters": ("gitkruise-8800=é", False),
}


@pytest.mark.parametrize("row", SESSIONS)
def test_a_session_is_that_of_this_token_and_port(row: str) -> None:
    cookie, known = SESSIONS[row]
    assert ACCESS.known({"Cookie": cookie}) is known


def test_scripts_cannot_read_the_cookie_and_other_sites_do_not_send_it() -> None:
    assert ACCESS.set_cookie().endswith("; Path=/; HttpOnly; SameSite=Strict")
    assert ACCESS.opens("t" * 43)
    assert not ACCESS.opens("é")


def test_pages_run_no_inline_script_and_are_shown_in_no_frame() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert HEADERS["X-Frame-Options"] == "DENY"
