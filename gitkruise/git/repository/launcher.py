"""The launcher of git for a repository; the one user of GitPython."""

from __future__ import annotations

from subprocess import PIPE, Popen

from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.process import Launch
from gitkruise.git.plumbing.refs import Remote
from gitkruise.git.repository.mirror import no_git


def launcher(remote: Remote) -> Launch:
    """Return the launcher of git: GitPython's runner wherever a mirror is kept.

    A repository of this machine is read without it: its import costs a command more CPU than all
    it reads (budget of a plan: 150 ms).
    """
    return process.launch if remote.path is not None else _launch_by_gitpython


def _launch_by_gitpython(command: list[str]) -> Popen[bytes]:
    """Start one complete command in its own process group."""
    import git  # noqa: PLC0415  slow to import, and runs git when it is

    try:
        running = git.Git("/").execute(
            command, istream=PIPE, as_process=True, shell=False, start_new_session=True
        )
    except git.GitCommandNotFound as error:
        raise no_git(str(error)) from error
    child, running.proc = running.proc, None  # it is ours to wait for and to end
    assert child is not None
    return child
