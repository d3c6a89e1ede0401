"""``mrc completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_MRC_COMPLETE"


@click.command(epilog="Example: mrc completion bash >~/.local/share/bash-completion/completions/mrc")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print what makes a shell complete mrc's subcommands and options.

    bash reads the file in the example by itself; for zsh put it as _mrc into a folder of its fpath, for fish as
    ~/.config/fish/completions/mrc.fish.
    """
    made = get_completion_class(shell)
    assert made is not None, "click knows these three"
    root = context.find_root()
    script = made(root.command, {}, root.info_name or "mrc", VARIABLE)
    click.echo(script.source_template % script.source_vars())
