"""``mrc completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_MRC_COMPLETE"
# click's own, except that names such as t0-0:t1-0@p0 stay whole: bash breaks words at : and @ (COMP_WORDBREAKS), and
# wants only what comes behind the last of these.
_BASH = """\
%(complete_func)s() {
    local line="${COMP_LINE:0:COMP_POINT}" IFS=$' \\t\\n' response type value mark cut=""
    local -a words
    read -ra words <<<"$line"
    [[ "$line" == *[[:space:]] ]] && words+=("")
    local current="${words[-1]}"
    for mark in : @; do
        if [[ "$COMP_WORDBREAKS" == *"$mark"* && "$current" == *"$mark"* ]]; then
            local before="${current%%"${current##*"$mark"}"}"
            (( ${#before} > ${#cut} )) && cut="$before"
        fi
    done
    response=$(env COMP_WORDS="${words[*]}" COMP_CWORD=$((${#words[@]} - 1)) %(complete_var)s=bash_complete $1)
    COMPREPLY=()
    while IFS=',' read -r type value; do
        case "$type" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${value#"$cut"}") ;;
        esac
    done <<<"$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


@click.command(epilog="Example: mrc completion bash >~/.local/share/bash-completion/completions/mrc")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    bash loads the file of the example automatically; for zsh save the script as _mrc in a folder of its fpath, for
    fish as ~/.config/fish/completions/mrc.fish.
    """
    made = get_completion_class(shell)
    assert made is not None, "click knows these three"
    root = context.find_root()
    script = made(root.command, {}, root.info_name or "mrc", VARIABLE)
    click.echo((_BASH if shell == "bash" else script.source_template) % script.source_vars())
