"""Links as the kernel's counters and messages show them."""

from __future__ import annotations

from pathlib import Path

import pytest

from mrc_lab.web.feed import Feed
from mrc_lab.web.link_sampler import MAX_LINKS_PER_S, PERIOD_S, LinkSampler, significant
from mrc_lab.web.records import FabricLayout, LinkView, StateSection
from topologies import addressing
from topologies.clos import multi_plane_clos

FABRIC = multi_plane_clos("lab", hosts=2, planes=1, t0=2, t1=2, rate_bps=10**9)
LINK = FABRIC.link("t0-0:t1-0@p0")


class Kernel:
    """A /proc/net/dev with one interface that counts."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.count(0, 0)

    def count(self, received: int, sent: int) -> None:
        name = addressing.interface_name(FABRIC, LINK.switch_end)
        row = [received, 1, 0, 0, 0, 0, 0, 0, sent, 1, 0, 0, 0, 0, 0, 0]
        self.file.write_text(f"head\nhead\n{name}: {' '.join(map(str, row))}\n")


def test_rates_are_of_the_time_between_two_samples(tmp_path: Path) -> None:
    kernel, now = Kernel(tmp_path / "dev"), [0]
    feed = Feed(FabricLayout(FABRIC))
    sampler = LinkSampler(FABRIC, feed, lambda: now[0], kernel.file)
    sampler.sample()
    kernel.count(received=1_000_000, sent=2_500_000)
    now[0] = 500_000_000
    sampler.sample()  # the lower end's switch sends upwards: 2.5 MB in half a second are 40 Mb/s
    assert feed.section(StateSection.LINKS)[LINK.name] == LinkView(True, 40_000_000, 16_000_000)


def test_counter_that_starts_again_is_no_traffic(tmp_path: Path) -> None:
    kernel, now = Kernel(tmp_path / "dev"), [0]
    feed = Feed(FabricLayout(FABRIC))
    sampler = LinkSampler(FABRIC, feed, lambda: now[0], kernel.file)
    kernel.count(10**9, 10**9)
    sampler.sample()
    kernel.count(5, 5)
    now[0] = 10**9
    sampler.sample()
    assert feed.section(StateSection.LINKS)[LINK.name] == LinkView(True, 0, 0)


def test_link_that_goes_down_is_published_at_once_and_stays_down_in_samples(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path / "dev")
    feed = Feed(FabricLayout(FABRIC))
    sampler = LinkSampler(FABRIC, feed, devices=kernel.file)
    sampler.changed(LINK.name, False)
    assert feed.section(StateSection.LINKS)[LINK.name] == LinkView(False)
    sampler.sample()
    sampler.sample()
    assert feed.section(StateSection.LINKS)[LINK.name] == LinkView(False)
    sampler.changed(LINK.name, True)
    assert feed.section(StateSection.LINKS)[LINK.name] == LinkView(True)


@pytest.mark.parametrize(("exact", "rounded"), [(0, 0), (7, 7), (999, 999), (1234, 1230), (98765432, 98800000)])
def test_three_significant_digits_are_kept(exact: int, rounded: int) -> None:
    assert significant(exact) == rounded


def test_links_of_large_fabrics_are_read_less_often() -> None:
    small = multi_plane_clos("small", hosts=4, planes=2, t0=2, t1=4, rate_bps=10**9)
    large = multi_plane_clos("large", hosts=256, planes=4, t0=32, t1=32, rate_bps=10**9)
    periods = [LinkSampler(fabric, Feed(FabricLayout(fabric))).period_s for fabric in (small, large)]
    assert periods == [PERIOD_S, len(large.links) / MAX_LINKS_PER_S]
    assert periods[1] > PERIOD_S


def test_sampler_survives_that_no_descriptor_is_left(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    kernel, now = Kernel(tmp_path / "dev"), [0]
    feed = Feed(FabricLayout(FABRIC))
    sampler = LinkSampler(FABRIC, feed, lambda: now[0], kernel.file)
    sampler._try_to_sample()
    kernel.file.unlink()
    for _ in range(3):
        sampler._try_to_sample()
    assert [record.message for record in caplog.records] == ["links cannot be read for now: No such file or directory"]
    for now[0], received in ((10**9, 0), (2 * 10**9, 10**6)):
        kernel.count(received, 0)
        sampler._try_to_sample()
    assert feed.section(StateSection.LINKS)[LINK.name] == LinkView(True, 0, 8_000_000)
