"""Every way a command ends has its code, and an error is never 1."""

from __future__ import annotations

import signal
import socket
from pathlib import Path

import pytest

import gitkruise.errors
from gitkruise.errors import DiagnosticError, GitkruiseError
from tests.cli.calls import ROOT, Caller, Terminal, environment
from tests.cli.shop import Checkout, cloneset
from tests.conftest import need

pytestmark = pytest.mark.slow

BAD = "apiVersion: apps.kruise.io/v1alpha1\nkind: CloneSet\nmetadata:\n  nam: x\n"


def errors() -> list[type[GitkruiseError]]:
    found = vars(gitkruise.errors).values()
    bases = {GitkruiseError, DiagnosticError}  # never raised themselves
    known = [e for e in found if isinstance(e, type) and issubclass(e, GitkruiseError)]
    return [e for e in known if e not in bases]


@pytest.mark.parametrize("error", errors(), ids=lambda e: e.__name__)
def test_no_error_says_the_answer_is_no(error: type[GitkruiseError]) -> None:
    assert error.exit_code in {2, 3, 4, 5, 6, 7, 70}


@pytest.fixture
def shop(checkout: Checkout) -> Checkout:
    checkout.commit("first", {"checkout.yaml": cloneset("v1")})
    checkout.commit("second", {"checkout.yaml": cloneset("v2")})
    return checkout


def test_0_a_plan_with_changes(gk: Caller, shop: Checkout) -> None:
    assert gk("plan", cwd=shop.folder).code == 0


def test_1_a_plan_asked_whether_there_are_changes(gk: Caller, shop: Checkout) -> None:
    assert gk("plan", "--exit-code", cwd=shop.folder).code == 1
    shop.commit("nothing", {"NOTES.md": "hello\n"})
    assert gk("plan", "--exit-code", cwd=shop.folder).code == 0


def test_1_findings_in_validate(gk: Caller) -> None:
    (gk.folder / "a.yaml").write_text(BAD)
    assert gk("validate").code == 1


def test_1_no_sandbox_runs(gk: Caller) -> None:
    assert gk("sandbox", "status").code == 1


USAGE = [
    "nonsense", "plan --nonsense", "get", "get nonsense", "get pods a b", "get cs/",
    "get units/x y",
    "get rollouts --exit-when-done", "get rollouts -w -o json", "status --state nonsense",
    "validate no-such-file", "get pods sidecarset/x", "status --sandbox --context x",
    "sandbox up --speed 0", "sandbox up --port 70000", "sandbox up --detach --ephemeral",
    "history --limit 0",
    "run --config nowhere.yaml", "plan --feature-gates Nonsense=true", "validate --namespace",
]  # fmt: skip


@pytest.mark.parametrize("line", USAGE)
def test_2_wrong_usage(gk: Caller, line: str) -> None:
    ended = gk(*line.split())
    assert (ended.code, ended.out) == (2, "")
    assert ended.err


def test_3_invalid_manifests(gk: Caller, shop: Checkout) -> None:
    shop.commit("broken", {"checkout.yaml": BAD})
    ended = gk("plan", cwd=shop.folder)
    assert (ended.code, ended.out) == (3, "")
    assert "checkout.yaml:4:3" in ended.err


def test_4_no_repository(gk: Caller) -> None:
    for command in ("plan", "history", "status --repo nowhere", "init", "wait", "images",
                    "promote cloneset/x", "bootstrap clusters/x"):  # fmt: skip
        ended = gk(*command.split())
        assert (ended.code, "GK3103" in ended.err) == (4, True)
        assert str(gk.folder) in ended.err or "at nowhere: no such folder" in ended.err
        assert "next: name a repository or checkout: --repo" in ended.err


def test_4_a_commit_that_is_not_there(gk: Caller, shop: Checkout) -> None:
    ended = gk("plan", "v9", cwd=shop.folder)
    assert (ended.code, 'no commit "v9"' in ended.err) == (4, True)


def test_4_a_dirty_working_tree(gk: Caller, shop: Checkout) -> None:
    shop.write({"checkout.yaml": cloneset("v3")})
    ended = gk("plan", cwd=shop.folder)
    assert (ended.code, "GK3203" in ended.err, "checkout.yaml" in ended.err) == (4, True, True)


def kubeconfig(folder: Path, port: int = 1) -> Path:
    """One whose server does not listen, or listens at a port."""
    file = folder / "kubeconfig"
    file.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: prod\n"
        f"clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n"
        "contexts: [{name: prod, context: {cluster: c, user: u}}]\n"
        "users: [{name: u, user: {token: t}}]\n"
    )
    return file


@pytest.mark.parametrize("command", ["status", "get rollouts", "get pods -w", "get events -o json"])
def test_5_an_unreachable_cluster(gk: Caller, command: str) -> None:
    ended = gk(*command.split(), "--kubeconfig", str(kubeconfig(gk.folder)))
    assert (ended.code, "GK4101" in ended.err, '"prod"' in ended.err) == (5, True, True)
    assert "nothing was read or written" in ended.err


def test_5_the_next_step_asks_the_same_cluster(gk: Caller) -> None:
    named = f"--kubeconfig {kubeconfig(gk.folder)}"
    ended = gk("status", "-o", "json", *named.split())
    (text,) = (n["text"] for n in ended.obj["items"][0]["notes"] if n["label"] == "next")
    assert text.partition("   ")[0] == f"gitkruise doctor cluster {named}"
    doctor = gk(*text.partition("   ")[0].split()[1:])
    assert 'context "prod"' in doctor.out
    assert "next: check address and credentials; kubectl version" in doctor.out


def test_5_no_cluster_at_all(gk: Caller) -> None:
    ended = gk("status")
    assert (ended.code, "GK4106" in ended.err) == (5, True)


def test_5_no_sandbox_to_use(gk: Caller) -> None:
    ended = gk("status", "--sandbox")
    assert (ended.code, "GK4130" in ended.err) == (5, True)


def test_an_error_under_json_is_a_list_of_findings(gk: Caller) -> None:
    ended = gk("get", "rollouts", "-o", "json", "--kubeconfig", str(kubeconfig(gk.folder)))
    assert ended.obj["kind"] == "FindingList"
    assert ended.obj["items"][0]["code"] == "GK4101"


@pytest.mark.slow
def test_130_interrupted(cluster: Path) -> None:
    words = ["get", "rollouts", "-n", "empty", "-w", "--kubeconfig", str(cluster)]
    with Terminal(words, environment()) as terminal:
        terminal.read_until("no rollouts in namespace empty")
        terminal.signal(signal.SIGINT)
        assert terminal.end() == 130
        assert "Traceback" not in terminal.raw


@pytest.mark.parametrize("command", ["webhook", "dashboard --listen 127.0.0.1:0"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_0_a_signal_while_the_api_server_does_not_answer(
    tmp_path: Path, command: str, number: signal.Signals
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        words = [
            *command.split(),
            "--kubeconfig",
            str(kubeconfig(tmp_path, silent.getsockname()[1])),
        ]
        with Terminal(words, environment(HOME=str(tmp_path))) as terminal:
            asked, _ = silent.accept()
            with asked:
                assert asked.recv(1)
                terminal.signal(number)
                assert terminal.end() == 0


@pytest.mark.parametrize("command", ["why", "plan", "upgrade", "recreate", "sandbox backup"])
def test_help_lists_130(gk: Caller, command: str) -> None:
    assert "  130  interrupted\n" in gk(*command.split(), "--help").out


@pytest.mark.parametrize("command", ["run", "webhook", "agent", "dashboard", "demo", "sandbox up"])
def test_help_does_not_where_a_signal_is_the_way_to_end(gk: Caller, command: str) -> None:
    assert "interrupted" not in gk(*command.split(), "--help").out


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    words = f"{sys.executable} -m gitkruise validate -o json {ROOT}/tests/golden | true"
    script = f"set -o pipefail; {words}; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script], env=environment(), capture_output=True, text=True, cwd=tmp_path,
        check=True,
    )  # fmt: skip
    assert done.stdout.strip() in {"141", "0", "1"}  # 0 or 1 when all was written before
    assert done.stderr == ""


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("command", ["explain GK1203", "explain GK1203 -o json", "plan --help"])
def test_a_full_disk_below_the_output_is_named(
    tmp_path: Path, command: str, unbuffered: str
) -> None:
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    full = Path("/dev/full")
    need("a device that is full", present=full.exists(), how="run it on Linux")
    words = [sys.executable, "-m", "gitkruise", *command.split()]
    with full.open("w") as out:
        done = subprocess.run(
            words, env=environment(PYTHONUNBUFFERED=unbuffered), stdout=out,
            stderr=subprocess.PIPE, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(
        "error[GK7094]: cannot write to standard output: No space left on device\n"
    )
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", ["status", "validate", "plan", "run"])
def test_a_directory_that_was_removed_is_named(tmp_path: Path, command: str) -> None:
    import subprocess  # noqa: PLC0415
    import sys  # noqa: PLC0415

    words = f'mkdir here; cd here; rmdir "$PWD"; {sys.executable} -m gitkruise {command}'
    done = subprocess.run(
        ["bash", "-c", words], env=environment(), capture_output=True, text=True, cwd=tmp_path,
        check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith("error[GK7095]: the current directory was removed\n")
