"""gitkruise completion: print the script that completes commands and options in a shell."""

from __future__ import annotations

import click

from gitkruise.cli.console.command import ExitCodesCommand


@click.command(cls=ExitCodesCommand)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Examples:
      eval "$(gitkruise completion bash)"
      eval "$(gitkruise completion zsh)"
      gitkruise completion fish > ~/.config/fish/completions/gitkruise.fish

    Units and objects come from gitkruise.yaml and the status branches of the current repository;
    nothing is fetched.
    """
    from click.shell_completion import get_completion_class  # noqa: PLC0415  only for completion

    script = get_completion_class(shell)
    assert script is not None
    root = ctx.find_root().command
    click.echo(script(root, {}, "gitkruise", "_GITKRUISE_COMPLETE").source())
