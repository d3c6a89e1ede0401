from pathlib import Path

import pytest

import mrc_lab.paper
from mrc_host.verbs_types import NsccProfile
from mrc_lab.experiments.files import FileError, load_file, load_text
from mrc_lab.experiments.files.loader import read_text
from mrc_lab.experiments.files.workloads import FlowPart, Incast, Permutation
from tests.mrc_lab.experiments.files.texts import SMALL, VARIANTS

PAPER = sorted(Path(mrc_lab.paper.__path__[0]).glob("*.yaml"))


def test_a_file_becomes_values_in_base_units():
    experiment = load_text(SMALL, name="small")
    (case,) = experiment.cases
    assert (experiment.name, experiment.title, case.name) == ("small", "a small one", "only")
    assert (case.fabric.rate_bps, case.duration, case.measure.bin) == (100 * 10**9, 120_000, 10_000)
    assert case.workload.pairs == (FlowPart("h1>h3"),)
    assert case.workload.message == 65536
    assert dict(case.transport.attributes) == {"mpr": 9}
    assert (case.faults[0].at, case.faults[0].until, case.faults[0].line) == (40_000, 80_000, 7)
    (expectation,) = experiment.expect
    assert (expectation.number, expectation.tolerance) == (383e9, 0.05)
    assert expectation.published.number == 383e9
    assert experiment.text == SMALL


def test_constants_of_congestion_control_are_settings():
    text = SMALL.replace("{qps: 2,", "{settings: {nscc: {gamma: 0.6, target_delay: 9us}},")
    assert dict(load_text(text).cases[0].transport.settings) == {"nscc": NsccProfile(gamma=0.6, target_delay=9_000)}
    with pytest.raises(FileError, match=r"transport.settings.nscc.gama: unknown key; did you mean gamma\?"):
        load_text(text.replace("gamma", "gama"))


def test_variants_override_the_file():
    one, two, three = load_text(VARIANTS).cases
    assert [case.name for case in (one, two, three)] == ["one", "two", "three"]
    assert (one.transport.type, one.transport.qps, one.workload.message) == ("rc", 1, 16384)
    assert (two.transport.type, two.transport.qps, two.workload.message) == ("rc", 4, 32768)
    assert isinstance(two.workload, Permutation)
    assert two.workload.shift == 2
    assert isinstance(three.workload, Incast)
    assert three.transport.type == "mrc"


@pytest.mark.parametrize(
    ("old", "new", "expected_message"),
    [
        ("planes: 2,", "plains: 2,", r"f, line 2: fabric.plains: unknown key; did you mean planes\?"),
        ("mpr: 9", "mpp: 9", r"line 3: transport.attributes.mpp: unknown key; did you mean mpr\?"),
        (
            "{qps: 2,",
            "{qps: 2, congestion: quantum,",
            "line 3: transport.congestion: Unknown .* use 'nscc', 'fixed' or",
        ),
        ("{qps: 2,", "{qps: 2, congestion: dcqcn,", "line 3: transport.congestion: .* not for an MRC queue pair"),
        ("{qps: 2,", "{type: rc, congestion: nscc,", "line 3: transport.congestion: .* not for an RC queue pair"),
        ("{qps: 2,", "{congestion: nscc, window: 64K,", "line 3: transport.congestion: .* leave window out"),
        ("{qps: 2,", "{spraying: wild,", "line 3: transport.spraying: .*reactive"),
        ("duration:", "durration:", r"line 5: durration: unknown key; did you mean duration\?"),
        ("duration: 120us\n", "", "line 1: duration is missing"),
        ("120us", "120", "line 5: duration: '120' has no unit: write 120us"),
        ("rate: 100G", "rate: quick", "line 2: fabric.rate: must be a rate such as 100G"),
        ("planes: 2", "planes: 9", "line 2: fabric.planes: is 9, but must be 1 to 8"),
        ("planes: 2", "planes: two", "line 2: fabric.planes: must be a whole number, not 'two'"),
        ("hosts: 4", "hosts: 5", "line 2: fabric.hosts: 5 hosts cannot be spread evenly"),
        (
            "h1>h3",
            "h1>h13",
            r"line 4: workload: .*'h13': did you mean h3 or h1\?",
        ),
        ("h1>h3", "h1>h1", "leads from a host to itself"),
        ("h1>h3", "h1-h3", "write source>destination, as in h1>h3"),
        ("bidirectional: yes", "bidirectional: perhaps", "must be yes or no, not 'perhaps'"),
        (
            "write_bw",
            "write_bandwidth",
            r"line 4: workload.kind: 'write_bandwidth' is unknown; did you mean write_bw\?",
        ),
        ("kind: write_bw, ", "", "line 4: workload: kind is missing; known are write_bw"),
        ("link: h1@p0", "link: h1@p7", r"line 7: faults\[0\]: .*no link that matches 'h1@p7': did you mean"),
        ("kind: link_down", "kind: link_dwn", r"line 7: faults\[0\].kind: .*did you mean link_down\?"),
        ("link: h1@p0", "link: h1@p0, plane: 1", r"line 7: faults\[0\].plane: unknown key"),
        ("until: 80us", "until: 30us", r"line 7: faults\[0\]: is over at 30 us, before it begins at 40 us"),
        ("until: 80us", "until: 40us", "before it begins"),
        ("until: 80us", "until: 130us", "is over at 130 us, after the run, which lasts 120 us"),
        ("at: 40us, until: 80us", "at: 120us", "begins at 120 us, but the run is over at 120 us"),
        ("warmup: 20us", "warmup: 120us", "line 8: measure: the warm-up is as long as the run"),
        ("bin: 10us", "bin: 200us", "a time bin .* is longer than the run"),
        ("metric: throughput", "metric: troughput", r"line 10: expect\[0\].metric: .*did you mean throughput\?"),
        ("value: 383G, tolerance", "value: 383s, tolerance", r"line 10: expect\[0\].value: must be a rate"),
        ("relation: about", "relation: near", r"expect\[0\].relation: 'near' is unknown"),
        ("end: 40us", "end: 140us", r"line 11: expect\[0\].of: the window ends after the run"),
        ("end: 40us", "start: 30us, end: 20us", "the window ends before it begins"),
        ("end: 40us", "start: 30us, end: 35us", "the window is shorter than a time bin"),
        ("end: 40us", "variant: two", "there is no variant two"),
        ("statistic: median", "statistic: mode", "statistic: 'mode' is unknown"),
        ("statistic: median", "link: h1@p0", "link belongs to link_throughput"),
        ("metric: throughput", "metric: trimmed", "trimmed is of the whole run, with its warm-up: leave end out"),
        ("certainty: D", "certainty: sure", "certainty: 'sure' is unknown"),
        (
            "title: a small one",
            "name: a/b",
            "name 'a/b' must be letters, digits and . - ",
        ),
        ("mpr: 9", "path_mtu: 8192", "do not fit an MTU of 4500"),
        ("message: 64K", "starts: [0us, 5us]", "starts has 2 times for 1 pair"),
        ("{qps: 2,", "{ev_choice: coordinated,", "line 3: transport.ev_choice: coordinated needs paths"),
        ("{qps: 2,", "{ev_choice: coordinated, paths: 3,", "a multiple of the planes"),
        ("{qps: 2,", "{ev_choice: coordinated, paths: 16,", "as many as there are at most"),
        ("{qps: 2, attributes: {mpr: 9}}", "{type: rc, ev_choice: coordinated}", "for flows of mrc only"),
        ("message: 64K", "starts: 120us", "a pair begins when the run is over"),
        ("message: 64K", "uplinks: [[0]]", "line 4: workload.uplinks: applies to rc and rc_sr only: the path of mrc"),
        ("{qps: 2, attributes: {mpr: 9}}", "{type: rc, attributes: {udp_sport: 50000}}", "udp_sport: unknown key"),
        ("expect:", "report: [{metric: algbw}]\nexpect:", r"report\[0\].*algbw is a metric of collectives"),
        ("expect:", "report: [{metric: lost, of: {variant: one}}]\nexpect:", r"report\[0\].*leave out variant"),
        ("expect:", "report: [{metric: los}]\nexpect:", r"report\[0\].metric: .*did you mean lost\?"),
        ("rate: 100G", "rate: 1e999999999G", "line 2: fabric.rate: must be a rate such as 100G"),
        ("rate: 100G", "rate: " + 5000 * "9", "line 2: fabric.rate: must be a rate such as .{,80}$"),
        ("rate: 100G", "rate: -1", "line 2: fabric.rate: is -1, but must be 1 b/s to 1000000 Gb/s"),
        ("rate: 100G", "rate: 100G, delay: 1000000s", "line 2: fabric.delay: is 1000000s, but must be 0 ns to 1 s"),
        ("rate: 100G", "rate: 100G, mtu: 65535", "line 2: fabric.mtu: is 65535, but must be 1280 to 65471"),
        ("value: 383G, tolerance", "value: 1e400, tolerance", r"expect\[0\].value: must be a rate"),
        ("bin: 10us", "bin: 1ns", "line 8: measure.bin: is 1ns, but must be 1 us to 3600 s"),
        ("message: 64K", "message: 2G", "line 4: workload.message: is 2G, but must be 1 B to 1 GiB"),
        ("workload:", "x-workload: {}\nworkload:", "line 4: x-workload: unknown key"),
        ("mpr: 9", "retry_count: 99999", "line 3: transport: retry_count must be between 0 and 255"),
        ("mpr: 9", "path_mtu: 0", "line 3: transport: path_mtu must be between 256 and 4368"),
        ("{qps: 2,", "{settings: {max_backoff: 99},", "line 3: transport: .*max_backoff must be between 0 and 25"),
        ("{qps: 2,", "{settings: {nscc: {target_delay: 0us}},", "line 3: transport: NSCC's target delay"),
        ("{qps: 2,", "{paths: 4000000,", "line 3: transport: active_paths must be between 1 and"),
        ("title: a small one", 'title: "\\ud800"', "line 1: holds '.*ud800', which cannot be shown"),
        ("title: a small one", 'title: "\\e[31m"', "line 1: holds '.*x1b', which cannot be shown"),
    ],
)
def test_mistakes_are_reported_with_line_key_and_suggestion(old, new, expected_message):
    assert old in SMALL
    with pytest.raises(FileError, match=expected_message) as caught:
        load_text(SMALL.replace(old, new, 1), source="f")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "workload",
    [
        "{kind: collective, operation: all_reduce, bytes: 1000G}",
        "{kind: training, steps: 1, gradients: [200M, 800M]}",
        "{kind: permutation, message: 1G, hosts: h*}",
        "{kind: incast, target: h1, sources: ['h[2-8]'], message: 1G}",
        "{kind: write_bw, pairs: [h1>h3, h2>h4, h5>h6], bidirectional: yes, message: 1G}",
    ],
)
def test_experiments_too_large_for_memory_are_refused(workload):
    text = f"fabric: {{hosts: 8}}\nworkload: {workload}\nduration: 1ms\n"
    with pytest.raises(FileError, match=r"line 2: workload: .* of memory, but 8 GiB is the most: make it smaller"):
        load_text(text, source="f")


@pytest.mark.parametrize(
    ("old", "new", "expected_message"),
    [
        ("name: two", "name: one", "there are two variants one"),
        ("  - name: two\n    transport: {type: rc, qps: 4}", "  - transport: {type: rc, qps: 4}", "name is missing"),
        ("qps: 4", "qpz: 4", r"line 8: transport.qpz: unknown key; did you mean qps\?"),
        ("    workload: {message: 32K}", "    title: x", "line 9: variants.*title: unknown key; a variant may change"),
        ("shift: 2", "shift: 4", "leads everyone to itself"),
        ("sources: [h3, h4]", "sources: [h1, h4]", "cannot be target and source"),
        ("sources: [h3, h4]", "sources: [h9]", "'h9'"),
    ],
)
def test_every_variant_is_checked(old, new, expected_message):
    assert old in VARIANTS
    with pytest.raises(FileError, match=expected_message):
        load_text(VARIANTS.replace(old, new, 1))


def test_with_variants_an_expectation_must_name_one():
    expect = "expect: [{metric: throughput, relation: about, value: 1G}]\n"
    with pytest.raises(FileError, match=r"of: \{variant: \.\.\.\} is missing; there are one, two, three"):
        load_text(VARIANTS + expect)
    ratio = (
        "expect: [{metric: throughput, relation: at_most, value: 0.5, of: {variant: one}, against: {variant: two},"
        ' published: {value: "0.4", certainty: C}}]\n'
    )
    (expectation,) = load_text(VARIANTS + ratio).expect
    assert (expectation.unit, expectation.number, expectation.published.number) == ("share", 0.5, 0.4)


def test_unreadable_files_are_reported(tmp_path):
    with pytest.raises(FileError, match="cannot be read: No such file"):
        load_file(tmp_path / "none.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileError, match="UTF-8"):
        load_file(tmp_path / "binary.yaml")


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_paper_files_are_valid_and_state_what_is_scaled(path):
    experiment = load_file(path)
    assert experiment.figure
    assert experiment.about
    assert experiment.scaled
    if path.stem.startswith("ablation"):  # nothing was published: metrics side by side, and verdicts only on claims
        assert experiment.report
        assert len(experiment.cases) > 1
    else:
        assert experiment.published.numbers or experiment.published.curves


def test_paper_files_exist():
    assert len(PAPER) >= 6


def test_an_endless_device_file_is_refused() -> None:
    with pytest.raises(FileError, match="/dev/zero: cannot be read: It is a device, not a regular file"):
        read_text(Path("/dev/zero"), FileError)


@pytest.mark.parametrize(
    ("uplinks", "message"),
    [
        ("[[4]]", r"workload.uplinks: h1 has no uplink 4 towards h3 in plane 0: there are 0, 1"),
        ("[[0], [1]]", "workload.uplinks: lists 2 flows of 1"),
        ("[[]]", "uplinks"),
    ],
)
def test_uplinks_must_be_of_flows_and_exist(uplinks: str, message: str) -> None:
    text = (
        "fabric: {planes: 1, t0: 2, t1: 2, hosts: 4}\ntransport: {type: rc}\n"
        f"workload: {{kind: write_bw, pairs: [h1>h3], uplinks: {uplinks}}}\nduration: 1ms\n"
    )
    with pytest.raises(FileError, match=message):
        load_text(text)


def test_uplinks_need_a_single_plane_and_known_flows() -> None:
    whole = "transport: {type: rc}\nduration: 1ms\nfabric: {planes: %d, t0: 2, t1: 2, hosts: 4}\nworkload: {%s}\n"
    with pytest.raises(FileError, match="needs a fabric of one plane"):
        load_text(whole % (2, "kind: write_bw, pairs: [h1>h3], uplinks: [[0]]"))
    with pytest.raises(FileError, match="give the permutation a shift"):
        load_text(whole % (1, "kind: permutation, uplinks: [[0]]"))


@pytest.mark.parametrize("pattern", ["h1>h3", "h3>h1", "*>h3"])
def test_flows_are_selected_by_their_names(pattern):
    load_text(f"{SMALL}\nreport: [{{metric: throughput, of: {{flows: '{pattern}'}}}}]")


@pytest.mark.parametrize(
    ("pattern", "hint"), [("h1>h4", "did you mean h1>h3"), ("h4>*", "there are 2, as h1>h3"), ("h1>h3#2", "did you")]
)
def test_flows_that_the_workload_does_not_have_are_refused(pattern, hint):
    with pytest.raises(FileError, match=f"no flow is called {pattern.replace('*', '.')}; {hint}"):
        load_text(f"{SMALL}\nreport: [{{metric: throughput, of: {{flows: '{pattern}'}}}}]")


def test_flows_left_to_chance_may_be_called_anything():
    text = SMALL.replace("write_bw, pairs: h1>h3, bidirectional: yes", "permutation")
    load_text(f"{text}\nreport: [{{metric: throughput, of: {{flows: 'h1>h9'}}}}]")
