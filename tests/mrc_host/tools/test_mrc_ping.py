"""mrc_ping: what it measures, prints and returns, over agents on fake NICs whose probes come back as a test wants."""

from __future__ import annotations

import asyncio
import json
import math
import re
from pathlib import Path

import pytest

from mrc_host.tools import mrc_ping
from mrc_host.tools.pinger import Pinger, PingPlan, RoundTrips, round_trips
from mrc_host.tools.session import ToolError
from mrc_host.verbs_types import DestinationInfo, ProbeEvent
from tests.mrc_host.agent.conftest import Agents

EVS = [plane << 10 | uplink for plane in range(2) for uplink in range(4)]
QUICK = ("-i", "0.002", "-W", "0.5")


def ping(agents: Agents, *flags: str) -> int:
    return mrc_ping.main(["-d", str(agents.paths[0]), *QUICK, *flags])


def outcomes(agents: Agents, planned: dict[int, list[int | None]]) -> None:
    agents.call(lambda: agents.nics[0].control.rtts.update(planned), 10)


def table(text: str) -> dict[int, list[str]]:
    """The rows of the table by entropy value."""
    rows = [line.split() for line in text.splitlines() if re.match(r" +\d+  0x", line)]
    return {int(row[1], 16): [row[0], *row[2:]] for row in rows}


def test_statistics_are_shown_for_every_path(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes(agents, {0: [1_000_000, 3_000_000, None, 2_000_000, 1_000_000], 0x401: [None], 0x402: [5_000_000]})
    assert ping(agents, "h2", "-c", "5") == 1
    printed = capsys.readouterr().out
    assert printed.startswith("MRC_PING h2 (fd00:6d:7263::2): 8 paths in 2 planes\n")
    rows = table(printed)
    assert list(rows) == EVS
    mdev = math.sqrt(((1 - 1.75) ** 2 * 2 + (3 - 1.75) ** 2 + (2 - 1.75) ** 2) / 4)
    assert rows[0] == ["0", "-", "5", "4", "20.0%", f"1.000/1.750/3.000/{mdev:.3f}"]
    assert rows[0x401] == ["1", "-", "5", "0", "100.0%", "-"]
    assert rows[0x402] == ["1", "-", "5", "5", "0.0%", "5.000/5.000/5.000/0.000"]
    assert "40 probes sent, 34 answered, 15.0% loss" in printed
    assert re.search(r"rtt min/avg/max/mdev = 0.001/.*/5.000/.* ms, processing at h2 excluded", printed)
    assert re.findall("never answered: (.*)", printed) == ["plane 1 ev=0x00000401"]
    assert "lost on the way back: h2 chooses" in printed
    assert "our port of plane 1 has no link" in printed  # the fake's


def test_each_probe_prints_one_row_unless_quiet(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes(agents, {1: [2_000_000, None, 1000]})
    assert ping(agents, "h2", "-c", "2", "--ev", "1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "h2: plane 0 ev=0x00000001 seq=1 time=2.000 ms" in lines
    assert "h2: plane 0 ev=0x00000001 seq=2 no answer" in lines
    assert ping(agents, "h2", "-c", "2", "-q") == 0
    assert "seq=" not in capsys.readouterr().out


@pytest.mark.parametrize("destination", ["h2", "fd00:6d:7263::2"])
def test_paths_can_be_chosen(agents: Agents, capsys: pytest.CaptureFixture[str], destination: str) -> None:
    for flags, chosen in (
        (("--plane", "1"), EVS[4:]),
        (("--ev", "0x402", "--ev", "3"), [3, 0x402]),
        (("--plane", "1", "--ev", "0x402", "--ev", "3"), [0x402]),
    ):
        assert ping(agents, destination, "-c", "1", *flags) == 0
        assert list(table(capsys.readouterr().out)) == chosen


def test_the_summary_as_json(agents: Agents, capsys: pytest.CaptureFixture[str]) -> None:
    outcomes(agents, {0: [1000, 2000], 1: [None]})
    assert ping(agents, "h2", "-c", "2", "--json", "--ev", "0", "--ev", "1") == 1
    result = json.loads(capsys.readouterr().out)
    assert (result["destination"], result["address"]) == ("h2", "fd00:6d:7263::2")
    assert result["paths"] == [
        {
            "plane": 0, "ev": 0, "switches": [], "way": [], "sent": 2, "answered": 2, "loss": 0.0,
            "rtt_ns": {"min": 1000, "avg": 1500.0, "max": 2000, "mdev": 500.0}, "service_time_subtracted": True,
        },
        {
            "plane": 0, "ev": 1, "switches": [], "way": [], "sent": 2, "answered": 0, "loss": 1.0, "rtt_ns": None,
            "service_time_subtracted": False,
        },
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["h9"], "No NIC is called h9: there are h2"),
        (["fd00::9"], "No NIC is called fd00::9"),
        (["h2", "--ev", "0x77"], "No path to h2 has the entropy value 0x77"),
        (["h2", "--plane", "5"], "No path to h2 is in plane 5: its planes are [0, 1]"),
        (["h2", "--plane", "1", "--ev", "1"], "both that entropy value and that plane"),
        (["h2", "-W", "61"], "at most 60 seconds"),
        (["h2", "-i", "0.001", "-W", "2"], "16000 probes could be in flight at once, but the limit is 1024: raise -i"),
    ],
)
def test_impossible_requests_are_refused(
    agents: Agents, capsys: pytest.CaptureFixture[str], flags: list[str], why: str
) -> None:
    assert ping(agents, *flags) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith("mrc_ping: ")
    assert why in captured.err
    assert captured.out == ""


def test_a_missing_agent_and_wrong_flags_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert mrc_ping.main(["-d", str(tmp_path / "none.sock"), "h2"]) == 2
    assert "mrc_ping: " in capsys.readouterr().err
    for words in (["h2"], ["-d", "x", "h1", "h2"], ["-d", "x", "h2", "-c", "0"], ["-d", "x", "h2", "-i", "0"]):
        with pytest.raises(SystemExit, match="2"):
            mrc_ping.main(words)


def test_without_round_trips_there_are_no_statistics() -> None:
    assert round_trips([]) is None
    assert round_trips([7]) == RoundTrips(7, 7.0, 7, 0.0)


class HalfDeaf:
    """A controller whose probes on odd paths are never done with."""

    def __init__(self) -> None:
        self.probes: list[int] = []

    def probe(self, peer: bytes, ev: int, timeout_ns: int) -> int:
        self.probes.append(ev)
        return len(self.probes)

    async def next_result(self, number: int) -> ProbeEvent:
        ev = self.probes[number - 1]
        if ev % 2:
            await asyncio.Event().wait()
        return ProbeEvent(0, number, b"", ev, 0, 0, 500)


DESTINATION = DestinationInfo("far", b"a" * 16, (1, 2), (0, 0))


def test_probes_in_flight_at_an_interrupt_do_not_count() -> None:
    controller = HalfDeaf()
    answered = asyncio.Event()

    async def interrupted() -> Pinger:
        pinger = Pinger(controller, DESTINATION, PingPlan((1, 2)), lambda *_: answered.set())  # type: ignore[arg-type]
        task = asyncio.ensure_future(pinger.run())
        await answered.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return pinger

    odd, even = asyncio.run(interrupted()).tallies
    assert controller.probes == [1, 2]
    assert (odd.sent, odd.loss) == (0, 0.0)
    assert (even.sent, even.rtts, even.service_time_known) == (1, [500], False)


def test_a_deadline_ends_the_run() -> None:
    plan = PingPlan((1, 2), interval_s=0.01, timeout_s=0.01, deadline_s=0.1)
    pinger = Pinger(HalfDeaf(), DESTINATION, plan)  # type: ignore[arg-type]
    asyncio.run(asyncio.wait_for(pinger.run(), 60))
    assert pinger.tallies[0].sent == 0
    assert pinger.tallies[1].answered == pinger.tallies[1].sent > 0


def test_more_outstanding_probes_than_the_nic_allows_are_refused() -> None:
    PingPlan(tuple(range(1024)), interval_s=1.0, timeout_s=1.0)
    with pytest.raises(ToolError, match="1025 probes"):
        PingPlan(tuple(range(1025)), interval_s=1.0, timeout_s=1.0)
