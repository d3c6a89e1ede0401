"""Links of an experiment's fabric that differ in rate or delay, or are missing; and a third tier."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import FileError
from mrc_lab.experiments.files.checks import build_fabric
from mrc_lab.experiments.files.model import Selection
from mrc_lab.experiments.running import emulated_backend, scaling
from mrc_lab.reports.metrics import compute
from tests.mrc_lab.experiments.running.cases import case_of, run
from topologies.link_rules import LinkRule

WRITE = "{kind: write_bw, pairs: h1>h3, message: 4K, outstanding: 1}"
BULK = "{kind: write_bw, pairs: h1>h3, outstanding: 8}"


def fabric(links, shape="planes: 2, t0: 2, t1: 2, hosts: 4"):
    return {"fabric": f"{{{shape}, rate: 100G, links: {links}}}"}


def fastest_write(**parts):
    case = case_of(WRITE, "1ms", **parts)
    return compute("completion_time", case, run(case), Selection(statistic="min"))


def test_later_rules_override_earlier_ones():
    case = case_of(WRITE, **fabric('{t0-t1: {rate: 40G, delay: 5us}, "t0-0:t1-1@p0": missing, "h3@p*": {rate: 10G}}'))
    assert case.fabric.links == (
        LinkRule("t0-t1", 40 * 10**9, 5_000),
        LinkRule("t0-0:t1-1@p0", missing=True),
        LinkRule("h3@p*", 10 * 10**9),
    )
    made = build_fabric(case.fabric)
    assert {link.name for link in made.links if link.rate_bps == 10 * 10**9} == {"h3@p0", "h3@p1"}
    assert "t0-0:t1-1@p0" not in {link.name for link in made.links}
    assert {link.delay_ns for link in made.links} == {None, 5_000}


def test_delays_by_link_class_appear_in_every_rtt():
    usual = fastest_write()
    assert fastest_write(**fabric("{t0-t1: {delay: 21us}}")) == pytest.approx(usual + 4 * 20_000, abs=10)
    assert fastest_write(**fabric('{"h3@p*": {delay: 11us}}')) == pytest.approx(usual + 2 * 10_000, abs=10)


def test_rates_by_link_class_limit_throughput():
    slow = case_of(BULK, "400us", **fabric("{t0-t1: {rate: 20G}}"))
    rate = compute("throughput", slow, run(slow), Selection())
    assert 0.7 * 80e9 < rate < 80e9, "four uplinks of 20 Gb/s"


def test_a_third_tier_can_have_long_links_between_pods():
    shape = "planes: 2, pods: 2, t0: 2, t1: 2, t2: 2, hosts: 8"
    near, far = (
        case_of(f"{{kind: write_bw, pairs: h1>{host}, message: 4K, outstanding: 1}}", "1ms",
                **fabric("{t1-t2: {delay: 50us}}", shape))
        for host in ("h3", "h5")
    )  # fmt: skip
    times = [compute("completion_time", case, run(case), Selection(statistic="min")) for case in (near, far)]
    assert 200_000 < times[1] - times[0] < 210_000, "four times 50 us, and some switches"


@pytest.mark.parametrize(
    ("links", "problem"),
    [
        ("{t0-t2: {rate: 1G}}", "no link matches 't0-t2': names are as in h1@p0, classes are nic-t0, t0-t1"),
        ("{t1-t2: {rate: 1G}}", "there are no t1-t2 links in this fabric"),
        ("{t0-t1: gone}", "fabric.links.t0-t1: must be missing, or a mapping, not 'gone'"),
        ("{t0-t1: {rat: 1G}}", "fabric.links.t0-t1.rat: unknown key; did you mean rate?"),
        ("{t0-t1: {delay: 5}}", "'5' has no unit"),
        ("{'h1@p*': missing}", "h1"),
    ],
)
def test_invalid_rules_are_refused_with_line_and_reason(links, problem):
    with pytest.raises(FileError, match="line 1: ") as found:
        case_of(WRITE, **fabric(links))
    assert problem in str(found.value)


def test_emulation_scales_rates_and_refuses_delays():
    case = case_of(WRITE, **fabric("{t0-t1: {rate: 400G}}"))
    scale = scaling.scale_of([case])
    rates = {link.kind.value: link.rate_bps for link in scaling.scaled_fabric(case, scale).links}
    assert rates["t0-t1"] == pytest.approx(4 * rates["nic-t0"], rel=1e-6)
    half = replace(case, fabric=replace(case.fabric, links=()))
    assert scale == pytest.approx(scaling.scale_of([half]) / 4), "the fastest link has what the machine carries"
    emulated_backend.check(case, scale)
    slow = case_of(WRITE, **fabric("{t0-t1: {delay: 5us}}"))
    with pytest.raises(
        ExperimentError, match=r"emulated links have no propagation delay, but fabric\.links gives one to t0-t1"
    ):
        emulated_backend.check(slow, scale)
