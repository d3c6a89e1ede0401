"""``make soak``: look for hours where the tests look for seconds.

    python -m tests.soak                             the swarm and each fuzzer for a minute, and every property test
    python -m tests.soak --seconds 3600 --jobs 2     an hour each; two processes for swarm and property tests
    python -m tests.soak --only fuzz                 the fuzzers alone; or one: --only engine
    python -m tests.soak --seed 17                   the swarm's run of one seed again, and nothing else

All parts run one after the other, whatever becomes of those before. The *swarm* runs random fabrics, workloads and
faults in simulation; options that are not listed here are its own (``python -m tests.swarm --help``).
*Congestion* (``tests/congestion``) runs random path lengths and incasts in simulation, for a given time. *Scale*
(``tests/scale_comparison``) compares the scale backend with packets, for a given time. *Ranks*
(``tests/rank_faults``, which needs PyTorch) has groups of ranks recover from random faults, for a given time. The
*fuzzers* (``tests/fuzz/fuzz_*.py``, whose first lines say what each attacks) run for a given time. Tests that draw
from a fixed *seed* run with others (``tests/seeds.py``). The *property tests* run with 20,000 examples each
(hypothesis profile ``soak``), chosen at random; they print the seed that repeats them. A summary ends the output:
what passed, and of each fuzzer cases, crashes and the longest case. The status is 0 when all is well, 1 when a part
failed, 2 when the command line makes no sense, 130 after an interrupt.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import click

from mrc_common import children

ROOT = Path(__file__).resolve().parent.parent
FUZZERS = sorted(file.stem.removeprefix("fuzz_") for file in (ROOT / "tests/fuzz").glob("fuzz_*.py"))
PARTS = ("swarm", "congestion", "scale", "ranks", *FUZZERS, "seeds", "properties")
FUZZ = "fuzz"  # all fuzzers
USAGE_ERROR = 2
INTERRUPTED = 130


def swarm(options: Iterable[str], jobs: int) -> list[str]:
    """The command that runs the swarm."""
    return [*children.python("tests.swarm", "--jobs", str(jobs), *options)]


def congestion(seconds: float) -> list[str]:
    """The command that runs random worlds of congestion control."""
    return [*children.python("tests.congestion", "--seconds", f"{seconds:g}")]


def scale(seconds: float) -> list[str]:
    """The command that compares the scale backend with packets in random scenarios."""
    return [*children.python("tests.scale_comparison", "--seconds", f"{seconds:g}")]


def ranks(seconds: float) -> list[str]:
    """The command that has groups of ranks recover from random faults."""
    return [*children.python("tests.rank_faults", "--seconds", f"{seconds:g}")]


def fuzzer(name: str, seconds: float) -> list[str]:
    """The command that runs a fuzzer."""
    return [*children.python("tests.fuzz", name, "--seconds", f"{seconds:g}")]


def seeds(seconds: float) -> list[str]:
    """The command that runs tests with other seeds than theirs."""
    return [*children.python("tests.seeds", "--seconds", f"{seconds:g}")]


def properties(jobs: int) -> list[str]:
    """The command that runs the property tests."""
    spread = ["--numprocesses", str(jobs)] if jobs > 1 else []
    chosen = [
        "-m",
        "hypothesis",
        "--hypothesis-profile=soak",
        "-p",
        "no:cacheprovider",
        "-q",
        "--durations=10",
    ]
    return [*children.python("pytest", "tests", *chosen, *spread)]


def soak(commands: dict[str, list[str]]) -> int:
    """Run each of the named commands, print a summary, and return the status."""
    lines: list[str] = []
    failed = False
    status = 0
    for name, command in commands.items():
        print(f"== {name}: {subprocess.list2cmdline(command[1:])}", flush=True)
        start = time.monotonic()
        status, last_line = _run(command)
        took = time.monotonic() - start
        word = {0: "passed", INTERRUPTED: "was interrupted"}.get(status, f"FAILED with status {status}")
        lines.append(f"{name:<12}{word} after {took:.0f} s{_tried(last_line)}")
        failed = failed or status != 0
        if status in (USAGE_ERROR, INTERRUPTED):
            break
    print("\n== soak")
    print("\n".join(lines), flush=True)
    return status if status in (USAGE_ERROR, INTERRUPTED) else int(failed)


def _run(command: list[str]) -> tuple[int, str]:
    """Run a command, showing what it prints; its status and the last line of its standard output."""
    last_line = ""
    with children.popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                last_line = line.strip() or last_line
            return process.wait(), last_line
        except KeyboardInterrupt:  # the child has had it too
            process.wait()
            return INTERRUPTED, last_line


def _tried(last_line: str) -> str:
    """What a fuzzer says it has tried, in words; nothing for anything else."""
    try:
        result = json.loads(last_line)
        return (
            f": {result['cases']} cases of seed {result['seed']}, {result['crashes']} crashes,"
            f" the longest case {result['longest_case_ms']:g} ms"
        )
    except (ValueError, TypeError, KeyError):
        return ""


@click.command(
    context_settings={"help_option_names": ["-h", "--help"], "ignore_unknown_options": True},
    epilog="Other options are the swarm's: python -m tests.swarm --help",
)
@click.option("--only", type=click.Choice((*PARTS, FUZZ)), help="Run one part, or all fuzzers.")
@click.option(
    "--seconds", type=click.FloatRange(0), default=60.0, show_default=True, help="Time for all parts but the last."
)
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes for swarm and property tests."
)
@click.option("--seed", type=int, help="Replay this seed of the swarm, and nothing else.")
@click.argument("options", nargs=-1, type=click.UNPROCESSED, metavar="[SWARM OPTIONS]...")
def main(only: str | None, seconds: float, jobs: int, seed: int | None, options: tuple[str, ...]) -> None:
    """Run random fabrics and faults in simulation, the fuzzers, and the property tests at full length."""
    if seed is not None:
        if only not in (None, "swarm"):
            raise click.UsageError(f"--seed is one of the swarm; it does not go with --only {only}.")
        only, options = "swarm", ("--seed", str(seed), *options)
    commands = {"swarm": swarm(("--seconds", f"{seconds:g}", *options), jobs)}
    commands |= {"congestion": congestion(seconds), "scale": scale(seconds), "ranks": ranks(seconds)}
    commands |= {name: fuzzer(name, seconds) for name in FUZZERS}
    commands |= {"seeds": seeds(seconds), "properties": properties(jobs)}
    chosen = {None: commands.keys(), FUZZ: FUZZERS}.get(only, {only})
    sys.exit(soak({name: command for name, command in commands.items() if name in chosen}))


if __name__ == "__main__":
    main()
