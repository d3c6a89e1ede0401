"""The command group and what happens to errors: a message and a hint, never a traceback.

A command's module is imported when the command is run, completed or listed: the modules of all commands together
import gRPC, YAML and most of the product, which takes as long as what many a command does.
"""

from __future__ import annotations

import sys

import click

from controller.errors import ControllerError
from mrc_common.c_build.errors import CBuildError
from mrc_common.grpc_endpoint import EndpointError
from mrc_common.suggestions import did_you_mean, nearest
from mrc_host.errors import MrcError
from mrc_lab.command_table import COMMANDS, load
from mrc_lab.errors import ExperimentError
from p4runtime_shim.errors import SwitchError
from simulation.errors import SimulationError
from topologies.emulation.errors import EmulationError
from topologies.errors import FabricError

CANNOT, INTERRUPTED = 3, 130
_DOCTOR = "Run 'mrc doctor' to see what is missing here."
_HELP = """An emulated multi-plane Clos with P4 switches and software MRC NICs.

\b
Exit statuses:
  0    done, and every check passed
  1    done, but a check failed (the demo's summary says which)
  2    invalid arguments
  3    failed or incomplete; the message says why
  130  interrupted (128 + the signal's number); demos and sweeps keep what is done
"""


class _Group(click.Group):
    """Imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, in alphabetical order."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name; None if there is none."""
        if cmd_name not in COMMANDS:
            return None
        command = load(COMMANDS[cmd_name])
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the arguments begin with. Raises UsageError with the nearest ones for an unknown name."""
        name = args[0]
        if name in COMMANDS or name.startswith("-"):
            return super().resolve_command(ctx, args)
        raise click.UsageError(" ".join(filter(None, [f"No such command {name!r}.", _command_hint(name)])), ctx)


def _command_hint(name: str) -> str:
    """What the user of an unknown command may have meant: a command of the prompt, or one that is spelled alike."""
    from mrc_lab.prompt import command_help  # only for an error: it knows every kind of fault

    if name in command_help.COMMANDS:
        return f'It is one of the prompt: mrc shell [FABRIC] -c "{command_help.COMMANDS[name].example}"'
    return did_you_mean(name, COMMANDS).capitalize()


@click.group(cls=_Group, help=_HELP, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mrc-testbed", prog_name="mrc")
@click.option("--traceback", is_flag=True, help="Show a traceback for errors, for a bug report.")
@click.pass_context
def group(context: click.Context, traceback: bool) -> None:
    """Keep the group's options for errors."""
    context.obj = {"traceback": traceback}


_OTHER_WORDS = {  # options that other programs have for ours
    **dict.fromkeys(("port", "bind", "address", "addr", "host"), "listen"),
    **dict.fromkeys(("out", "outdir", "output-dir", "results-dir"), "results"),
    **dict.fromkeys(("dry-run", "validate"), "check"),
    **dict.fromkeys(("workers", "processes", "parallel"), "jobs"),
}


def main() -> None:
    """Run this process's command line and end."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit status."""
    try:
        return int(group.main(arguments, prog_name="mrc", standalone_mode=False) or 0)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.NoSuchOption as error:
        options = [name for each in error.ctx.command.params for name in each.opts] if error.ctx else []
        bare = {name.lstrip("-"): name for name in options if name.startswith("--")}
        wanted = error.option_name.lstrip("-")
        ours = _OTHER_WORDS.get(wanted, "")
        near = [ours] if ours in bare else nearest(wanted, bare, cutoff=0.6)
        hint = f" Did you mean {' or '.join(bare[name] for name in near)}?" if near else ""
        click.UsageError(f"No such option {error.option_name!r}.{hint}", ctx=error.ctx).show()
        return error.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        print("\nmrc: interrupted", file=sys.stderr)
        return INTERRUPTED
    except ExperimentError as error:
        return _echo(arguments, error, error.hint)
    except (
        EmulationError,
        FabricError,
        MrcError,
        CBuildError,
        ControllerError,
        EndpointError,
        SimulationError,
        SwitchError,
    ) as error:
        return _echo(arguments, error, "")
    except ImportError as error:
        return _echo(arguments, error, _DOCTOR)
    except OSError as error:
        return _echo(arguments, _in_words(error), "" if "/" in str(error.filename or "/") else _DOCTOR)
    except Exception as error:
        return _echo(arguments, error, "This is a bug: run 'mrc --traceback ...' and report what it prints.")


def _in_words(error: OSError) -> OSError:
    """What could not be read, written or started, and why, without the number."""
    if error.strerror is None:
        return error
    words = ": ".join(filter(None, (str(error.filename or ""), error.strerror)))
    return OSError(words).with_traceback(error.__traceback__)


def _echo(arguments: list[str], error: Exception, hint: str) -> int:
    if "--traceback" in arguments:
        raise error
    message = str(error) or type(error).__name__
    print(f"mrc: {message}", *filter(None, [hint]), sep="\n     ", file=sys.stderr)
    return CANNOT
