"""The plugin that pytest loads: options, the marker `mrc`, and the fixtures `mrc_fabric` and `mrc_experiment`.

pytest loads it in every project of an environment that has the testbed, so it imports nothing of the testbed until a
test asks for a fixture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from mrc_lab.pytest_plugin.fabric_under_test import FabricUnderTest
    from mrc_lab.reports.run_and_report import FinishedRun

_HIDE = "__tracebackhide__"
_FIXTURES = {"mrc_fabric", "mrc_experiment"}
_ROOT = Path(__file__).resolve().parents[2]
_ROOMS = ("controller", "mrc_common", "mrc_host", "mrc_lab", "p4runtime_shim", "p4src", "simulation", "topologies")
MARKER = "mrc(planes=, hosts=, backend=, seed=, plugins=, congestion=, ...): the fabric of mrc_fabric (docs/ci.md)"
_OPTIONS = (
    ("backend", "sim", "where fabrics of mrc_fabric are: sim or emulation, which needs root"),
    ("seed", "1", "seed of simulations"),
    ("results", "results", "folder for the results of mrc_experiment"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Each option is also one of the configuration file: mrc_backend, mrc_seed, mrc_results."""
    group = parser.getgroup("mrc", "MRC testbed")
    for name, default, help_text in _OPTIONS:
        group.addoption(f"--mrc-{name}", dest=f"mrc_{name}", default=None, help=f"{help_text} (default: {default})")
        parser.addini(f"mrc_{name}", help_text, default=default)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, and check the options before anything runs."""
    config.addinivalue_line("markers", MARKER)
    backend, seed = _option(config, "backend"), _option(config, "seed")
    if backend not in ("sim", "emulation"):
        raise pytest.UsageError(f"--mrc-backend is sim or emulation, not {backend!r}")
    if not (seed.isascii() and seed.isdigit()):
        raise pytest.UsageError(f"--mrc-seed is a whole number, 0 or more, not {seed!r}")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    """Of a test of a fabric that fails, show the frames of the user's own files; all of them with --full-trace.

    pytest leaves out the frames whose names include ``__tracebackhide__``: modules of others have it meanwhile.
    """
    others: list[dict[str, Any]] = []
    if call.excinfo is not None and _FIXTURES & set(getattr(item, "fixturenames", ())):
        entries = call.excinfo.traceback
        if any(_is_users(Path(str(entry.path)), item) for entry in entries):
            frames = (entry.frame for entry in entries if not _is_users(Path(str(entry.path)), item))
            others = [frame.f_globals for frame in frames if _HIDE not in frame.f_globals]
    for names in others:
        names[_HIDE] = True
    yield
    for names in others:
        names.pop(_HIDE, None)


@pytest.fixture
def mrc_fabric(request: pytest.FixtureRequest) -> Iterator[FabricUnderTest]:
    """A fabric that is up for this test, as its marker `mrc` describes it; see docs/ci.md."""
    from mrc_lab.pytest_plugin.fabric_under_test import FabricUnderTest
    from mrc_lab.pytest_plugin.marker import read_marker
    from mrc_lab.pytest_plugin.running_fabric import emulated, free_name, simulated

    def record(name: str, value: object) -> None:
        request.node.user_properties.append((name, value))

    given, config = _marked(request.node), request.config
    backend = given.get("backend", _option(config, "backend"))
    with ExitStack() as stack:
        with _user_errors():
            name = free_name() if backend == "emulation" else "pytest"
            wanted = read_marker(given, request.path.parent, backend, int(_option(config, "seed")), name)
            if wanted.backend == "sim":
                record("mrc seed", wanted.seed)
                world = simulated(wanted.fabric, seed=wanted.seed, program=wanted.program)
            else:
                world = emulated(wanted.fabric, program=wanted.program)
            fabric = FabricUnderTest(stack.enter_context(world), wanted.backend, record)
        stack.callback(fabric.close)
        yield fabric


@pytest.fixture
def mrc_experiment(request: pytest.FixtureRequest) -> Callable[..., FinishedRun]:
    """``mrc_experiment("incast.yaml")`` runs an experiment file beside the test, and fails unless it passes.

    Its result folder, which ``mrc compare`` takes, is in that of the option --mrc-results. `seed` and `backend`
    override the command line.
    """

    def run(file: str | Path, *, seed: int | None = None, backend: str | None = None) -> FinishedRun:
        from mrc_lab.experiments.files import load_file
        from mrc_lab.pytest_plugin.running_fabric import free_name
        from mrc_lab.reports.run_and_report import run_and_report

        config = request.config
        results = config.rootpath / _option(config, "results")
        with _user_errors():
            experiment = load_file(request.path.parent / file)
            chosen = int(_option(config, "seed")) if seed is None else seed
            where = backend or _option(config, "backend")
            name = free_name() if where == "emulation" else "experiment"
            done = run_and_report(experiment, where, chosen, results, name=name)
        request.node.user_properties.append(("mrc result", str(done.folder)))
        if done.summary["verdict"] != "pass":
            lines = sorted(done.lines(), key=lambda line: line.startswith("pass "))  # what is wrong goes first
            pytest.fail("\n".join([*lines, f"report: {done.folder / 'report.html'}"]), pytrace=False)
        return done

    return run


def _is_users(file: Path, item: pytest.Item) -> bool:
    """Whether a file belongs to the user's project: not to the testbed, Python or what is installed."""
    if any(file.is_relative_to(_ROOT / room) for room in _ROOMS) or "site-packages" in file.parts:
        return False
    return file.is_relative_to(item.config.rootpath) or file.is_relative_to(item.path.parent)


def _option(config: pytest.Config, name: str) -> str:
    """An option of the command line, else of the configuration file."""
    given: str | None = config.getoption(f"mrc_{name}")
    return str(config.getini(f"mrc_{name}")) if given is None else given


def _marked(node: pytest.Item) -> dict[str, Any]:
    """The marker's values; those nearest to the test win."""
    given: dict[str, Any] = {}
    for marker in reversed(list(node.iter_markers("mrc"))):
        if marker.args:
            pytest.fail("@pytest.mark.mrc takes named values only, as in hosts=8", pytrace=False)
        given |= marker.kwargs
    return given


@contextmanager
def _user_errors() -> Iterator[None]:
    """Errors that the user can correct fail the test with their sentence, without a traceback."""
    from mrc_common.c_build.errors import CBuildError
    from mrc_host.errors import MrcError
    from mrc_lab.errors import ExperimentError
    from p4runtime_shim.errors import SwitchError
    from simulation.errors import SimulationError
    from topologies.emulation.errors import EmulationError
    from topologies.errors import FabricError

    try:
        yield
    except (ExperimentError, CBuildError, EmulationError, FabricError, MrcError, SimulationError, SwitchError) as error:
        hint = getattr(error, "hint", "")
        pytest.fail(f"{error}\n{hint}" if hint else str(error), pytrace=False)
