"""Whatever a file says, the scale backend reads or refuses, at its line."""

from __future__ import annotations

import pytest

from mrc_host.config import TransportSettings
from mrc_lab.errors import FileError
from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.files import scale_checks as checks
from mrc_lab.experiments.files.metric_names import METRICS
from mrc_lab.experiments.running.run_experiment import check
from topologies.faults import KINDS

FABRIC = "fabric: {hosts: 8, planes: 2, t0: 2, t1: 2, rate: 100G}\n"
WORK = "workload: {kind: permutation, shift: 4}\n"
REST = "duration: 1ms\n"


def refused(text: str) -> str:
    with pytest.raises(FileError) as caught:
        check(load_text(text), "scale")
    return str(caught.value)


def test_more_ports_than_a_p4_switch_has_are_refused_at_their_key_only_where_there_are_packets():
    text = "fabric: {hosts: 512, planes: 1, t0: 512, t1: 1, rate: 100G}\n" + WORK + REST
    experiment = load_text("backend: scale\n" + text)
    check(experiment, "scale")
    with pytest.raises(FileError, match=r"line 2: fabric\.\w+: switch t1-0@p0 has 512 ports, but a P4 switch has 509"):
        check(experiment, "sim")
    with pytest.raises(FileError, match=r"line 1: fabric\.\w+: switch t1-0@p0 has 512 ports"):
        load_text(text)


def test_a_file_that_asks_for_nothing_else_passes():
    check(load_text(FABRIC + WORK + REST), "scale")


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        (FABRIC + WORK + REST + "timing: published_testbed\n", 4, "timing"),
        (FABRIC.replace("rate: 100G", "rate: 100G, pfc: yes") + WORK + REST, 1, "fabric.pfc"),
        (FABRIC.replace("rate: 100G", "rate: 100G, reroute: 1ms") + WORK + REST, 1, "fabric.reroute"),
        (FABRIC.replace("rate: 100G", "rate: 100G, queues: {trim: 50}") + WORK + REST, 1, "fabric.queues"),
        (
            "fabric: {hosts: 8, planes: 2, pods: 2, t0: 1, t1: 2, t2: 2, t2_wiring: mesh}\n" + WORK + REST,
            1,
            "fabric.t2_wiring",
        ),
        (FABRIC + WORK + REST + "measure: {queues: yes}\n", 4, "measure.queues"),
        (FABRIC + WORK + REST + "measure: {links: yes}\n", 4, "measure.links"),
        (FABRIC + WORK + REST + "transport:\n  type: rc_sr\n", 5, "transport.type"),
        (FABRIC + WORK + REST + "transport:\n  type: uet\n", 5, "transport.type"),
        (FABRIC + WORK + REST + "transport: {congestion: none}\n", 4, "transport.congestion"),
        (FABRIC + WORK + REST + "transport: {spraying: oblivious}\n", 4, "transport.spraying"),
        (FABRIC + WORK + REST + "transport: {evs: 2}\n", 4, "transport.evs"),
        (FABRIC + WORK + REST + "transport: {planes: [0]}\n", 4, "transport.planes"),
        (FABRIC + WORK + REST + "transport: {settings: {plane_skew_limit: 4}}\n", 4, "settings.plane_skew_limit"),
        (FABRIC + WORK + REST + "transport: {settings: {ev_min_active: 4}}\n", 4, "settings.ev_min_active"),
        (FABRIC + WORK + REST + "transport: {attributes: {mpr: 9}}\n", 4, "attributes.mpr"),
        (FABRIC + "workload: {kind: flows, load: 50%, sizes: 1M}\n" + REST, 2, "workload.kind"),
        (
            FABRIC
            + "workload: {kind: collective, operation: all_reduce, bytes: 1M}\n"
            + REST
            + "transport: {type: rc}\n",
            4,
            "transport.type",
        ),
        (FABRIC + WORK + REST + "expect:\n- {metric: wrong_bytes, relation: at_most, value: 0}\n", 5, "metric"),
        (FABRIC + WORK + REST + "report:\n- {metric: timeouts}\n", 5, "metric"),
        (FABRIC + WORK + REST + "transport: {type: rc}\nreport:\n- {metric: lost}\n", 6, "metric"),
    ],
)
def test_what_is_not_computed_is_refused_at_its_line(text, line, key):
    message = refused(text)
    assert f"line {line}: " in message
    assert key in message
    assert message.count(". ") == 0  # one sentence


@pytest.mark.parametrize(
    ("key", "value"),
    [("kernel_switches", "[t1-0@p0]"), ("queues", "{trim: 50}"), ("reroute", "1ms"), ("queues", "{pfc: yes}")],
)
def test_what_a_fabric_file_asks_for_is_refused_where_it_is_named(key, value, tmp_path):
    common = "name: lab\nplanes: 2\nt0: 2\nt1: 2\nhosts: 8\nrate: 100G\n"
    (tmp_path / "fabric.yaml").write_text(common)
    text = f"{WORK}fabric: {{file: fabric.yaml}}\n{REST}"
    check(load_text(text, source=str(tmp_path / "trial.yaml")), "scale")
    (tmp_path / "fabric.yaml").write_text(f"{common}{key}: {value}\n")
    with pytest.raises(FileError, match=r"line 2: fabric\.file: the scale backend computes no") as caught:
        check(load_text(text, source=str(tmp_path / "trial.yaml")), "scale")
    assert key in str(caught.value) or "pfc" in value


def test_three_tiers_pass_and_a_file_of_a_mesh_is_refused_where_it_is_named(tmp_path):
    common = "name: lab\nplanes: 2\npods: 2\nt0: 2\nt1: 2\nt2: 2\nhosts: 8\nrate: 100G\n"
    text = f"{WORK}fabric: {{file: fabric.yaml}}\n{REST}"
    (tmp_path / "fabric.yaml").write_text(common)
    check(load_text(text, source=str(tmp_path / "trial.yaml")), "scale")
    (tmp_path / "fabric.yaml").write_text(f"{common}t2_wiring: mesh\n")
    with pytest.raises(FileError, match=r"line 2: fabric\.file: .*take t2_wiring: groups"):
        check(load_text(text, source=str(tmp_path / "trial.yaml")), "scale")


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if kind.name not in checks.FAULTS])
def test_kinds_of_faults_that_are_not_computed_are_refused(kind):
    fields = {
        parameter.name: parameter.examples[0].replace("0x402", "1")
        for parameter in kind.parameters
        if parameter.required
    }
    given = "".join(
        f', {name}: "{value}"' if value[0] in "ht" else f", {name}: {value}" for name, value in fields.items()
    )
    message = refused(f"{FABRIC}{WORK}{REST}faults:\n- {{kind: {kind.name}, at: 1us{given}}}\n")
    assert "line 5: " in message
    assert kind.name in message


@pytest.mark.parametrize(
    "fault",
    [
        "kind: loss, link: h1@p0, probability: 1%",
        "kind: corruption, link: h1@p0, probability: 1%",
        "kind: blackhole, switch: t0-0@p0",
    ],
)
def test_losses_at_nics_are_refused(fault):
    assert "no losses at NICs" in refused(f"{FABRIC}{WORK}{REST}faults:\n- {{{fault}, at: 1us}}\n")


def test_random_loss_is_refused_for_rc():
    fault = "faults:\n- {kind: loss, link: 't0-0:t1-0@p0', probability: 1%, at: 1us}\n"
    assert "for rc" in refused(f"{FABRIC}{WORK}{REST}transport: {{type: rc}}\n{fault}")


def test_tenants_have_one_type_of_transport():
    tenants = (
        "workloads:\n"
        "- {name: a, kind: permutation, shift: 4}\n"
        "- {name: b, kind: permutation, shift: 4, transport: {type: rc}}\n"
    )
    assert "line 4: " in refused(FABRIC + tenants + REST)


def test_tenants_have_as_many_paths():
    tenants = (
        "workloads:\n"
        "- {name: a, kind: permutation, shift: 4, transport: {paths: 2}}\n"
        "- {name: b, kind: permutation, shift: 4, transport: {paths: %d}}\n"
    )
    check(load_text(FABRIC + tenants % 2 + REST), "scale")
    assert "line 4: " in refused(FABRIC + tenants % 4 + REST)


def test_a_metric_of_another_backend_is_nobodys_business_here():
    text = FABRIC + WORK + REST + "expect:\n- {metric: wrong_bytes, relation: at_most, value: 0, backend: sim}\n"
    check(load_text(text), "scale")


def test_what_is_listed_as_read_exists():
    assert set(checks.METRICS) <= set(METRICS)
    assert set(checks.FAULTS) <= set(KINDS)
    assert set(checks._SETTINGS) <= set(TransportSettings.__dataclass_fields__)
