"""Several workloads in one file: what is read, what a tenant's transport becomes, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.experiments.files import FileError, load_text
from mrc_lab.experiments.files.transport import attributes_given
from mrc_lab.experiments.files.workloads import Collective, FlowPart, Straggler, Training, WriteBw
from mrc_lab.sweeps.grid import make_grid

HEAD = """\
fabric: {hosts: 8, planes: 2, t0: 2, t1: 2}
duration: 200us
transport: {qps: 2, paths: 4, congestion: nscc, settings: {probe_successes: 1}}
"""
TWO = f"""{HEAD}workloads:
  - {{name: web, kind: write_bw, pairs: [h1>h5, {{pair: h2>h6, message: 4K, qps: 3, start: 10us}}], start: 20us}}
  - {{name: ai, kind: training, steps: 1, gradients: 64K, compute: 10us, hosts: [h1, h2],
     transport: {{type: rc, qps: 1}}, jitter: 10%, stragglers: {{hosts: h2, slowdown: 1.5, share: 50%}}}}
"""


def case_of(text):
    (case,) = load_text(text).cases
    return case


def test_tenants_have_names_workloads_and_transports():
    case = case_of(TWO)
    assert case.tenant_names == ("web", "ai")
    web, ai = case.tenants
    assert isinstance(web.workload, WriteBw)
    assert web.workload.start == 20_000
    assert web.workload.pairs == (FlowPart("h1>h5"), FlowPart("h2>h6", message=4096, qps=3, start=10_000))
    assert isinstance(ai.workload, Training)
    assert (ai.workload.jitter, ai.workload.stragglers) == (0.1, (Straggler(("h2",), 1.5, 0.5),))


def test_a_tenants_transport_overrides_that_of_the_file():
    web, ai = case_of(TWO).tenants
    assert (web.transport.type, web.transport.qps, web.transport.paths) == ("mrc", 2, 4)
    assert attributes_given(web) == {"active_paths": 4, "cc_profile": "nscc"}
    one = case_of(f"{HEAD}workloads: [{{name: a, kind: permutation, transport: {{qps: 9}}}}]").tenants[0]
    assert (one.transport.qps, one.transport.paths) == (9, 4)
    assert (ai.transport.type, ai.transport.qps, ai.transport.paths) == ("rc", 1, None), "of another type: nothing"
    assert attributes_given(ai) == {}


def test_a_single_workload_is_an_unnamed_tenant():
    case = case_of(f"{HEAD}workload: {{kind: collective, operation: all_reduce, bytes: 64K, start: 5us}}")
    (tenant,) = case.tenants
    assert (tenant.name, case.tenant_names) == ("", ())
    assert isinstance(case.workload, Collective)
    assert (case.workload.start, tenant.transport) == (5_000, case.transport)
    assert "cc_profile" not in attributes_given(tenant), "NICs have it"


def test_variants_may_have_tenants_or_one_workload():
    text = f"""{HEAD}workload: {{kind: permutation}}
variants:
  - {{name: one}}
  - {{name: two, workloads: [{{name: a, kind: permutation}}, {{name: b, kind: permutation, shift: 1}}]}}
"""
    one, two = load_text(text).cases
    assert (one.tenant_names, two.tenant_names) == ((), ("a", "b"))


def test_variants_change_tenants_by_name_and_add_others():
    text = f"""{TWO}variants:
  - {{name: same}}
  - {{name: roce, workloads: [{{name: web, message: 1K, transport: {{type: rc}}}}]}}
  - {{name: more, workloads: [{{name: ai, kind: permutation}}, {{name: new, kind: permutation, shift: 1}}]}}
"""
    same, roce, more = load_text(text).cases
    assert same.tenants == case_of(TWO).tenants
    web, ai = roce.tenants
    assert (web.transport.type, web.workload.message, web.workload.start) == ("rc", 1024, 20_000)
    assert ai == same.tenants[1]
    assert more.tenant_names == ("web", "ai", "new")
    assert [tenant.workload.name for tenant in more.tenants] == ["write_bw", "permutation", "permutation"]
    assert more.tenants[1].transport.type == "mrc", "another kind is another tenant"
    wrong = text.replace("name: ai, kind: permutation", "name: new, kind: permutation")
    with pytest.raises(FileError, match="there are two tenants new"):
        load_text(wrong)


def test_axis_points_change_one_tenant():
    text = f"""{TWO}axis:
  - {{name: 1K, workloads: [{{name: web, message: 1K}}]}}
  - {{name: 8K, workloads: [{{name: web, message: 8K}}]}}
"""
    assert [case.tenants[0].workload.message for case in load_text(text).cases] == [1024, 8192]


LINE = "line 5: workloads[0]"
REFUSED = [
    ("name: web, ", "", "line 5: workloads[0]: name is missing: what this tenant is called"),
    ("name: web", "name: 7", "line 5: workloads[0].name: '7' must be letters, digits and - + _, 32 at most"),
    ("name: web", "name: a.b", "must be letters, digits and - + _"),
    ("name: web", "name: ai", "line 6: workloads[1]: there are two tenants ai"),
    ("kind: write_bw", "kind: write", f"{LINE}.kind: 'write' is unknown; did you mean write_bw?"),
    ("kind: write_bw, ", "", f"{LINE}: kind is missing; known are write_bw"),
    ("h1>h5", "h1>h99", f"{LINE}: fabric experiment has no NIC that matches 'h99'"),
    ("message: 4K", "mesage: 4K", f"{LINE}.pairs[1].mesage: unknown key; did you mean message?"),
    ("pair: h2>h6, ", "", f"{LINE}.pairs[1]: pair is missing: source and destination"),
    ("start: 20us", "start: 200us", f"{LINE}: a pair begins when the run is over: see start"),
    ("start: 20us", "start: 195us", f"{LINE}: a pair begins when the run is over: see starts"),
    ("start: 20us", "starts: [1us, 2us]", "h2>h6 has a start of its own, so starts cannot be there too"),
    ("type: rc", "type: tcp", "line 7: workloads[1].transport.type: 'tcp' is unknown; known are mrc, rc"),
    ("type: rc", "spraying: reactive", "transport.spraying: belongs to NICs, which tenants share"),
    ("type: rc", "settings: {}", "transport.settings: belongs to NICs, which tenants share: write it under transport"),
    ("type: rc", "evs: 0", "transport.evs: is 0, but must be 1 to 4096"),
    ("type: rc", "type: rc, evs: 1", "transport.evs: applies to mrc and uet only: rc has no entropy values"),
    ("type: rc", "type: rc, paths: 2", "transport.paths: applies to mrc and uet only: rc has no entropy values"),
    ("type: rc", "type: rc, congestion: nscc", "line 7: workloads[1].transport.congestion: Congestion control 'nscc'"),
    ("type: rc", "ev_choice: coordinated", "transport.ev_choice: entropy values are coordinated for flows of mrc"),
    ("hosts: [h1, h2]", "hosts: h1", "line 6: workloads[1]: needs two hosts or more, but has 1"),
    ("hosts: h2, ", "hosts: h3, ", "line 6: workloads[1]: h3 is a straggler, but takes no part: see hosts"),
    ("compute: 10us, ", "", "jitter and stragglers apply to computing, which takes no time here: give compute"),
    ("slowdown: 1.5", "slowdown: 0.5", "stragglers.slowdown: is 0.5, but must be 1 to 1000"),
    ("jitter: 10%", "jitter: 110%", "workloads[1].jitter: is 110%, but must be 0 % to 100 %"),
    ("gradients: 64K", "gradients: 2G", "takes 20 GiB of memory, but 8 GiB is the most"),
    ("workloads:\n", "workload: {kind: permutation}\nworkloads:\n", "line 6: workloads: is there beside workload"),
]


@pytest.mark.parametrize(("old", "new", "problem"), REFUSED)
def test_invalid_tenants_are_refused_with_line_and_reason(old, new, problem):
    assert old in TWO
    with pytest.raises(FileError) as found:
        load_text(TWO.replace(old, new, 1))
    assert problem in str(found.value)


@pytest.mark.parametrize("key", ["spraying: oblivious", "path_selection: recycle"])
@pytest.mark.parametrize("kind", ["uet", "rc", "rc_sr", "rc_ar"])
def test_what_only_mrc_has_is_refused_where_nothing_is_of_it(key, kind):
    transport = f"transport: {{type: {kind}, {key}}}"
    text = f"fabric: {{hosts: 8}}\nduration: 200us\n{transport}\nworkload: {{kind: permutation}}"
    with pytest.raises(FileError, match=rf"transport\.{key.split(':')[0]}: applies to mrc only"):
        load_text(text)
    assert load_text(text.replace(f"type: {kind}, {key}", "type: mrc, spraying: oblivious"))


def test_what_only_mrc_has_may_be_there_if_one_tenant_is_of_it():
    text = TWO.replace("qps: 2, paths: 4", "spraying: oblivious, paths: 4", 1)
    assert [tenant.transport.type for tenant in load_text(text).cases[0].tenants] == ["mrc", "rc"]


def test_a_file_needs_a_workload():
    with pytest.raises(FileError, match="workload is missing: what the hosts do"):
        load_text(HEAD)
    with pytest.raises(FileError, match=r"workloads: needs at least 1, but has 0"):
        load_text(f"{HEAD}workloads: []")


@pytest.mark.parametrize(
    ("selection", "problem"),
    [
        ("{metric: throughput, of: {tenant: wed}}", "there is no tenant wed; did you mean web?"),
        ("{metric: busbw}", "tenant is missing: whose busbw? There are web, ai"),
        ("{metric: algbw, of: {tenant: web}}", "algbw is a metric of collectives: use throughput"),
        ("{metric: trimmed, of: {tenant: web}}", "trimmed is of links"),
        ("{metric: link_throughput, of: {tenant: web, link: h1@p0}}", "link_throughput is of links"),
    ],
)
def test_impossible_tenant_metrics_are_refused(selection, problem):
    with pytest.raises(FileError, match=r"line 8: report\[0\]") as found:
        load_text(f"{TWO}report: [{selection}]")
    assert problem in str(found.value)


def test_naming_a_tenant_in_a_single_workload_file_is_refused():
    text = f"{HEAD}workload: {{kind: permutation}}\nreport: [{{metric: throughput, of: {{tenant: a}}}}]"
    with pytest.raises(FileError, match="there is no tenant a: the file has one workload, without a name"):
        load_text(text)


def test_a_sweep_sets_keys_of_tenants_by_number_and_by_name(tmp_path: Path):
    file = tmp_path / "two.yaml"
    file.write_text(TWO)
    grid = make_grid([file], ["workloads.0.message=4K,8K", "workloads.ai.transport.qps=1,3"], [1])
    tenants = [load_text(run.text).cases[0].tenants for run in grid.runs]
    assert [(web.workload.message, ai.transport.qps) for web, ai in tenants] == [
        (4096, 1), (4096, 3), (8192, 1), (8192, 3),
    ]  # fmt: skip
    with_variant = f"{TWO}variants: [{{name: a}}, {{name: b, workloads: [{{name: ai, transport: {{qps: 2}}}}]}}]"
    file.write_text(with_variant)
    assert len(make_grid([file], ["workloads.0.message=4K,8K"], [1]).runs) == 2, "of another tenant than the variant's"
    for key in ("workloads.1.transport.qps", "workloads.ai.transport.qps"):
        with pytest.raises(FileError, match=rf"variants\[1\]: sets {key} itself"):
            make_grid([file], [f"{key}=1,3"], [1])
    file.write_text(TWO)
    with pytest.raises(FileError, match=r"workloads.al: is not a place in the list: it has 2 .* called web, ai"):
        make_grid([file], ["workloads.al.message=4K"], [1])
    with pytest.raises(FileError, match=r"workloads\.0\.message and --set workloads\.web\.message are one key"):
        make_grid([file], ["workloads.0.message=4K", "workloads.web.message=8K"], [1])
    changes = "variants: [{name: a}, {name: b, workloads: [{name: web, message: 2K}]}]"
    file.write_text(TWO + changes)
    assert len(make_grid([file], ["workloads.ai.transport.qps=1,3"], [1]).runs) == 2
    for key in ("workloads.web.message", "workloads.0.message"):
        with pytest.raises(FileError, match=rf"sets {key} itself"):
            make_grid([file], [f"{key}=4K,8K"], [1])
    file.write_text(f"{TWO}variants: [{{name: a}}, {{name: b, workload: {{kind: permutation}}}}]")
    with pytest.raises(FileError, match=r"sets workloads\.0\.message itself"):
        make_grid([file], ["workloads.0.message=4K,8K"], [1])
