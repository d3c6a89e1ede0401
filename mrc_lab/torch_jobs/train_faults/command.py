"""``mrc train-faults``."""

from __future__ import annotations

from pathlib import Path

import click

from mrc_common.units import counted

RECOVERY = 6  # timeouts until ranks give a recovery up


@click.command(
    "train-faults", epilog="Example: sudo mrc train-faults --only cut-port --only rank-killed --output /tmp/faults"
)
@click.option("--only", multiple=True, metavar="NAME", help="Only this case or stack; may be repeated.")
@click.option("--hosts", type=int, default=4, show_default=True, help="Hosts, with a rank in each: 4, 6 or 8.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=1, max=3600),
    default=10.0,
    show_default=True,
    metavar="SECONDS",
    help="How long an operation may take, and ranks wait for each other before they go on.",
)
@click.option("--output", type=click.Path(path_type=Path), help="Folder of the table. [default: results/train-faults]")
@click.option("--list", "listed", is_flag=True, help="Only list what there is.")
def train_faults(only: tuple[str, ...], hosts: int, timeout: float, output: Path | None, listed: bool) -> int:
    """Train a small GPT under faults, over gloo, RoCE and MRC, and tabulate what each needed to go on.

    Measures the times to detect a failure, to abort, to reconfigure and to the next step, and compares the weights with
    an uninterrupted job's. Writes train-faults.md and train-faults.csv. It needs root and PyTorch. Repeating the
    command runs only what is missing.
    """
    from dataclasses import asdict

    from mrc_lab.errors import ExperimentError
    from mrc_lab.sweeps.version import digest
    from mrc_lab.torch_jobs.demo_run import GPT
    from mrc_lab.torch_jobs.installation import require_torch
    from mrc_lab.torch_jobs.train_faults.cases import check_hosts, load
    from mrc_lab.torch_jobs.train_faults.results import NAME, opened
    from mrc_lab.torch_jobs.train_faults.run_case import LabSettings, run_case
    from mrc_lab.torch_jobs.train_faults.table import headline, markdown, outcome, rows_of, tidy
    from topologies.emulation import requirements

    matrix = load().only(only)
    if listed:
        click.echo(f"stacks: {', '.join(stack.name for stack in matrix.stacks)}")
        if beside := [stack.name for stack in load().stacks if stack.beside and stack not in matrix.stacks]:
            click.echo(f"stacks that run only if they are named: {', '.join(beside)}")
        for case in matrix.cases:
            click.echo(f"{case.name}: {case.title}")
        return 0
    check_hosts(hosts)
    requirements.check()
    require_torch()
    if not GPT.exists():
        raise ExperimentError(
            "the program that this trains is not installed", f"Run it in a checkout, which has {GPT.name}."
        )
    settings = LabSettings(hosts=hosts, operation_s=timeout, recovery_s=RECOVERY * timeout)
    with opened(output or Path("results", NAME), asdict(settings)) as results:
        done = results.done(matrix)
        other = sum(record.get("sources") != digest() for record in done.values())
        if other:
            click.echo(f"note: {counted(other, 'run')} in {results.path} by another version of this project", err=True)
        for case in matrix.cases:
            for stack in matrix.stacks:
                if (case.name, stack.name) not in done:
                    record = run_case(matrix, case, stack, settings, results.log(case.name, stack.name))
                    record["sources"] = digest()
                    results.keep(record)
                    done[case.name, stack.name] = record
                    (row,) = rows_of(matrix.only((case.name, stack.name)), done)
                    click.echo(f"{case.name}, {stack.name}: {outcome(row.runs[stack.name])}", err=True)
        rows = rows_of(matrix, done)
        results.write(f"{NAME}.md", markdown(matrix, rows, done))
        results.write(f"{NAME}.csv", tidy(rows))
    click.echo(headline(rows))
    click.echo(f"table: {results.path / NAME}.md, {results.path / NAME}.csv")
    return 0
