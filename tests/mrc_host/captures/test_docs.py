"""docs/captures.md names fields, filters and preferences that exist, and forgets no field."""

from __future__ import annotations

import re
from pathlib import Path

from tests.mrc_host.captures import tshark
from tests.mrc_host.captures.make_golden import captures

pytestmark = tshark.needs_tshark

TEXT = Path(__file__).parents[3].joinpath("docs", "captures.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Cells of the table under a heading, without its head."""
    section = TEXT.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def quoted(cell: str) -> list[str]:
    return [name.strip("[]") for name in re.findall(r"`([^`]+)`", cell)]


def expanded(names: list[str], separator: str) -> list[str]:
    """`mrc.seth.pr`, `.probe_id` -> both in full."""
    prefix = names[0].rpartition(separator)[0]
    return [prefix + name if name.startswith(separator) else name for name in names]


def test_every_field_is_described_and_exists() -> None:
    described = {name for field, _ in rows("Fields") for name in expanded(quoted(field), ".")}
    known = {name for name in tshark.known_fields() if "reserved" not in name}
    # type fields that always have the same value need no line of their own
    constant = {name for name in known if name.rpartition(".")[2] in ("nh", "type", "ftype")} - {"mrc.tseth.type"}
    repeated = {name for name in known if re.fullmatch(r"mrc\.(neth|peth)\.([sd]pdcid|cc_type|cc_flags)", name)}
    vendor_and_unit = {"mrc.peth.vendor", "mrc.erth.vendor", "mrc.erth.unit"}
    missing = known - described - (constant | repeated | vendor_and_unit)
    assert described <= known
    assert not missing, f"docs/captures.md, Fields: add a row for {', '.join(sorted(missing))}"
    assert known - described == constant | repeated | vendor_and_unit, "these are described as well: drop them here"


def test_documented_filters_match_packets(tmp_path: Path) -> None:
    frames = [step.frame for capture in captures().values() for step in capture.steps()]
    everything = tshark.write_capture(tmp_path / "all.pcap", frames)
    filters = [text for _, cell in rows("Filters") for text in quoted(cell)]
    assert len(filters) > 15
    statistics = tshark.run(everything, "-q", *(word for text in filters for word in ("-z", f"io,phs,{text}")))
    matched = dict(re.findall(r"^Filter: (.*)\n\n(?:frame +frames:(\d+))?", statistics, re.MULTILINE))
    assert matched.keys() == set(filters)
    assert [text for text in filters if not matched[text]] == [], "these match nothing in the golden captures"


def test_documented_preferences_exist_with_their_defaults() -> None:
    prefs, _ = tshark.start("-G", "currentprefs", "-X", f"lua_script:{tshark.DISSECTOR}")
    actual = dict(re.findall(r"^#?(mrc\.\w+): ?(.*)$", prefs, re.MULTILINE))
    described = {}
    for names, defaults, _ in rows("Preferences"):
        values = quoted(defaults) or defaults.split(", ")
        described |= dict(zip(expanded(quoted(names), "_"), values, strict=True))
    assert actual == described
