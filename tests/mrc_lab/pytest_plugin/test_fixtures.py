"""The pytest plugin as users have it: a pytest of its own, in this process, runs their test files.

pytester forgets what the inner pytest has imported. So that there are no two of a class, all that the plugin imports
when it is used is imported here before.
"""

from __future__ import annotations

import importlib
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from mrc_common.c_build.object_cache import default_cache
from mrc_lab.cli.main import run as run_mrc
from tests.docs.blocks import ROOT, blocks

for module in (
    "mrc_lab.experiments.running.simulated_backend",
    "mrc_lab.pytest_plugin.fabric_under_test",
    "mrc_lab.pytest_plugin.marker",
    "mrc_lab.reports.report",
    "mrc_lab.reports.run_and_report",
    "simulation.world",
):
    importlib.import_module(module)

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.usefixtures("own_cache")
CACHE = default_cache().parent


@pytest.fixture
def own_cache(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """pytester sets HOME, but compiled switches are in our cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(CACHE))


def run(pytester: pytest.Pytester, text: str, *options: str) -> pytest.RunResult:
    """Run a test file; the plugin is loaded as if its entry point were installed, whether it is or not."""
    pytester.makepyfile(test_own=text)
    return run_files(pytester, *options)


def run_files(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    return pytester.runpytest_inprocess(
        "-p", "no:mrc", "-p", "mrc_lab.pytest_plugin.fixtures", "-p", "no:randomly", *options
    )


def test_a_test_gets_a_simulated_fabric_by_default(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_own(mrc_fabric):
            assert mrc_fabric.backend == "sim"
            assert len(mrc_fabric.fabric.nics) == 4
            report = mrc_fabric.write("h1", "h3", "1M")
            assert (report.nbytes, report.wrong_bytes) == (1 << 20, 0)
            assert report.counters.data_sent == 256
            assert sum(mrc_fabric.link_bytes().values()) > 4 << 20  # four links each
        """,
    )
    result.assert_outcomes(passed=1)


def test_marks_of_module_and_test_together_give_the_fabric(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        import pytest
        pytestmark = pytest.mark.mrc(planes=1, hosts=2)
        @pytest.mark.mrc(hosts=6, rate="10G")
        def test_own(mrc_fabric):
            assert (mrc_fabric.fabric.planes, len(mrc_fabric.fabric.nics)) == (1, 6)
            assert {link.rate_bps for link in mrc_fabric.fabric.links} == {10**10}
        """,
    )
    result.assert_outcomes(passed=1)


def test_a_fault_takes_effect_and_ends_with_its_block(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from topologies.faults.loss import Loss
        def test_own(mrc_fabric):
            flow = mrc_fabric.flow("h1", "h3")
            with mrc_fabric.fault("h1@p1 down"):
                assert flow.write("1M").paths == {0: 4}
            mrc_fabric.wait("1ms")
            assert flow.usable_paths() == {0: 4, 1: 4}
            fault = mrc_fabric.fault(Loss("h1@p0", 0.2))
            assert flow.write("1M").counters.lost > 0
            fault.clear()
            fault.clear()
            mrc_fabric.wait("1ms")
            assert flow.write("64K").counters.lost == 0
            mrc_fabric.fault("h1@p0 down for 1us")
            mrc_fabric.wait("1ms")  # its time is over when the test ends
        """,
    )
    result.assert_outcomes(passed=1)


def test_a_wrong_byte_and_a_lost_write_fail_the_test(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        from mrc_lab.workloads.verified_write import Transfer
        def test_wrong(mrc_fabric, monkeypatch):
            from mrc_lab.workloads import verified_write
            flow = mrc_fabric.flow("h1", "h3")
            steps = verified_write._one_round
            def spoiled(near, far, length):
                yield from steps(near, far, length)
                far.memory.buffer[7] ^= 1
            monkeypatch.setattr(verified_write, "_one_round", spoiled)
            flow.write("64K")
        def test_lost(mrc_fabric):
            mrc_fabric.fault("h3@p* down")
            mrc_fabric.write("h1", "h3", "64K")
        def test_next(mrc_fabric):
            mrc_fabric.write("h1", "h3", "64K")
        """,
    )
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*1 of 65536 bytes that h1 wrote are wrong at h3*", "*CompletionError*"])


def test_flows_written_together_share_their_receiver(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_own(mrc_fabric):
            alone = mrc_fabric.write("h1", "h4", "1M")
            flows = [mrc_fabric.flow(host, "h4") for host in ("h1", "h2", "h3")]
            for report in mrc_fabric.write_all(flows, "1M"):
                assert report.seconds > 2 * alone.seconds
        """,
    )
    result.assert_outcomes(passed=1)


def test_the_same_seed_gives_the_same_run(pytester: pytest.Pytester) -> None:
    text = """
        def test_own(mrc_fabric, record_property):
            mrc_fabric.fault("h1@p0 loss 5%")
            record_property("all", repr(mrc_fabric.write("h1", "h3", "1M")))
    """
    found = []
    for seed in ("7", "7", "8"):
        run(pytester, text, "--mrc-seed", seed, "--junitxml", "junit.xml").assert_outcomes(passed=1)
        found.append(properties(pytester.path / "junit.xml"))
    assert [one["mrc seed"] for one in found] == ["7", "7", "8"]
    assert found[0]["all"] == found[1]["all"] != found[2]["all"]
    assert int(found[0]["h1>h3 retransmitted"]) > 0


def properties(file: Path) -> dict[str, str]:
    return {one.attrib["name"]: one.attrib["value"] for one in ElementTree.parse(file).iter("property")}


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("hosts=3", "*@pytest.mark.mrc, line 1: hosts: 3 hosts*"),
        ("hots=4", "*hots*"),
        ('backend="simulation"', "the backend is sim or emulation, not 'simulation'"),
        ("seed=-1", "the seed is a whole number, 0 or more, not -1"),
        ('congestion="aimdd"', "*aimdd*"),
        ('plugins="plugins.py"', "plugins is a list of files, as in ['plugins.py']"),
        ('plugins=["missing.py"]', "The plugin *missing.py cannot be read: No such file or directory."),
        ('file="missing.yaml"', "*missing.yaml: cannot be read: No such file or directory"),
        ('file="lab.yaml", hosts=4', "the fabric is that of lab.yaml: leave hosts out"),
        ('program="missing.json"', "*missing.json cannot be read*"),
        ('program="lab.yaml"', "*lab.yaml is no P4 program: give a .p4 file, or BMv2's JSON*"),
        ("hosts=object()", "@pytest.mark.mrc: *"),
        ("8", "@pytest.mark.mrc takes named values only, as in hosts=8"),
    ],
)
def test_a_wrong_mark_fails_with_one_sentence(pytester: pytest.Pytester, mark: str, message: str) -> None:
    result = run(pytester, f"import pytest\n@pytest.mark.mrc({mark})\ndef test_own(mrc_fabric): pass\n")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([message])
    assert "Traceback" not in result.stdout.str()
    assert "fixtures.py" not in result.stdout.str()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--mrc-backend", "mininet"), "ERROR: --mrc-backend is sim or emulation, not 'mininet'"),
        (("--mrc-seed", "x"), "ERROR: --mrc-seed is a whole number, 0 or more, not 'x'"),
    ],
)
def test_a_wrong_option_ends_pytest_at_once(pytester: pytest.Pytester, options: tuple[str, str], message: str) -> None:
    result = run(pytester, "def test_own(): pass\n", *options)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_the_configuration_file_sets_defaults(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nmrc_seed = 9\n")
    text = "def test_own(mrc_fabric, request): assert ('mrc seed', 9) in request.node.user_properties\n"
    run(pytester, text).assert_outcomes(passed=1)
    run(pytester, text.replace("9", "3"), "--mrc-seed", "3").assert_outcomes(passed=1)


def test_a_program_of_the_users_runs_on_the_switches(pytester: pytest.Pytester) -> None:
    text = (ROOT / "p4src/build/fabric.json").read_text()
    (pytester.path / "own.json").write_text(text)
    (pytester.path / "wrong.json").write_text("{}")
    body = "import pytest\n@pytest.mark.mrc(program='own.json')\ndef test_own(mrc_fabric):\n"
    body += "    mrc_fabric.write('h1', 'h3', '64K')\n"
    run(pytester, body).assert_outcomes(passed=1)
    refused = run(pytester, body.replace("own.json", "wrong.json"))
    refused.assert_outcomes(errors=1)
    assert "Traceback" not in refused.stdout.str()
    assert "fixtures.py" not in refused.stdout.str()


def test_the_example_passes_and_its_results_can_be_compared(pytester: pytest.Pytester) -> None:
    for name in ("plugins.py", "incast.yaml", "test_aimd.py"):
        (pytester.path / name).write_text((ROOT / "examples" / name).read_text())
    for results in ("before", "after"):
        run_files(pytester, "--mrc-results", results).assert_outcomes(passed=3)
    found = [pytester.path / results / "incast/latest" for results in ("before", "after")]
    page = pytester.path / "compare.html"
    assert run_mrc(["compare", *map(str, found), "--output", str(page)]) == 0
    assert "mean throughput" in page.read_text("utf-8")


def test_an_experiment_that_does_not_pass_fails_the_test(pytester: pytest.Pytester) -> None:
    text = (ROOT / "examples/incast.yaml").read_text().replace("10G", "10T")
    (pytester.path / "incast.yaml").write_text(text)
    (pytester.path / "plugins.py").write_text((ROOT / "examples/plugins.py").read_text())
    result = run(pytester, "def test_own(mrc_experiment): mrc_experiment('incast.yaml')\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["fail *throughput: * Gb/s (>= 10000 Gb/s)", "report: *report.html"])
    result = run(pytester, "def test_own(mrc_experiment): mrc_experiment('missing.yaml')\n")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*missing.yaml: cannot be read: No such file or directory"])


def test_the_test_on_the_page_is_that_of_the_example() -> None:
    example = (ROOT / "examples/test_aimd.py").read_text()
    (block,) = (block for block in blocks("python anywhere") if block.page == "ci.md")
    body = block.text.partition("(mrc_fabric):\n")[2]
    assert body
    assert body in example


def test_pytest_loads_nothing_of_the_testbed_until_a_fixture_is_used(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytester.makepyfile(
        test_own="""
        import sys
        def test_own():
            rooms = ("mrc_host", "simulation", "topologies", "numpy")
            assert not [name for name in sys.modules if name.split(".")[0] in rooms]
            assert not [name for name in sys.modules if name.startswith("mrc_lab.") and "pytest_plugin" not in name]
        """
    )
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    options = ("-p", "no:mrc", "-p", "mrc_lab.pytest_plugin.fixtures")
    pytester.runpytest_subprocess(*options).assert_outcomes(passed=1)


@pytest.mark.root
def test_the_same_test_runs_on_an_emulated_fabric(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
        def test_own(mrc_fabric):
            assert mrc_fabric.backend == "emulation"
            flows = [mrc_fabric.flow("h1", "h3"), mrc_fabric.flow("h2", "h4", transport="rc")]
            for report in mrc_fabric.write_all(flows, "256K"):
                assert report.nbytes == 256 << 10
            with mrc_fabric.fault("h1@p1 down"):
                assert flows[0].write("256K").paths.keys() == {0}
            assert sum(mrc_fabric.link_bytes().values()) > 1 << 20
        """,
        "--mrc-backend", "emulation",
    )  # fmt: skip
    result.assert_outcomes(passed=1)


def test_a_failing_test_shows_the_users_own_frames(pytester: pytest.Pytester) -> None:
    text = """
        def check(fabric):
            fabric.write("h1", "h1", "1M")  # to itself

        def test_own(mrc_fabric):
            check(mrc_fabric)
        """
    shown = str(run(pytester, text).stdout)
    assert "to itself" in shown
    assert "test_own.py:" in shown
    assert "fabric_under_test.py" not in shown
    assert "fabric_under_test.py" in str(run(pytester, text, "--full-trace").stdout)
