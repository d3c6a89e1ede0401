import pytest

from mrc_common import units


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (units.parse_rate, "100G", 10**11),
        (units.parse_rate, "2.5Gb/s", 2_500_000_000),
        (units.parse_rate, "40 Mbit/s", 40_000_000),
        (units.parse_rate, "9600", 9600),
        (units.parse_rate, "1kbps", 1000),
        (units.parse_rate, " 1 g ", 10**9),
        (units.parse_rate, "40m", 40_000_000),
        (units.parse_rate, "1.5tbit", 1_500_000_000_000),
        (units.parse_size, "64K", 65536),
        (units.parse_size, "2 gib", 2 << 30),
        (units.parse_size, "64MB", 64 << 20),
        (units.parse_size, "1MiB", 1 << 20),
        (units.parse_size, "4096 B", 4096),
        (units.parse_size, "1.5k", 1536),
        (units.parse_time, "10us", 10_000),
        (units.parse_time, "1.5 ms", 1_500_000),
        (units.parse_time, "2min", 120 * 10**9),
        (units.parse_time, "0.1us", 100),
        (units.parse_share, "20%", 0.2),
        (units.parse_share, "0.02", 0.02),
        (units.parse_share, "1e-3", 0.001),
    ],
)
def test_each_unit_is_parsed(parse, text, value):
    assert parse(text) == pytest.approx(value)
    assert isinstance(parse(text), float if parse is units.parse_share else int)


@pytest.mark.parametrize(
    ("parse", "text", "message"),
    [
        (units.parse_time, "10", "10 has no unit|'10' has no unit: write 10us"),
        (units.parse_time, "10 hours", "has the unit 'hours'"),
        (units.parse_rate, "fast", "a rate such as 100G"),
        (units.parse_rate, "1Q", "has the unit 'Q'"),
        (units.parse_size, "64X", "a size such as 64K"),
        (units.parse_share, "a fifth", "a share such as 20%"),
    ],
)
def test_values_with_a_wrong_unit_are_refused_with_an_example(parse, text, message):
    with pytest.raises(ValueError, match=message):
        parse(text)


def test_printed_values_parse_back():
    for value in (1, 999, 1000, 1_531_000_000_000, 100_000_000):
        assert units.parse_rate(units.show_rate(value)) == pytest.approx(value, rel=1e-3)
    for value in (1, 12_345, 10**9):
        assert units.parse_time(units.show_time(value)) == pytest.approx(value, rel=1e-3)
    assert units.show_size(65536) == "64 KiB"
    assert units.show_time(0) == "0 ns"
    for share in (0.2, 0.005, 1.0, 1e-9):
        assert units.parse_share(units.show_share(share)) == pytest.approx(share)


@pytest.mark.parametrize("text", ["", "M", "-4", "0", "4X", "64MBit", "2000T", "nan", "9" * 5000])
def test_an_invalid_size_is_refused_with_an_example(text):
    with pytest.raises(ValueError, match=r"^'.{0,40}' is not a size such as 64K$"):
        units.SIZE.word(text)


def test_sizes_can_have_other_bounds():
    assert units.SIZE.word("0", low=0) == 0
    with pytest.raises(ValueError, match="not a rate such as 100G"):
        units.RATE.word("7k", low=8_000)


def test_rates_in_bytes_and_sizes_in_bits_are_refused():
    for parse, text in ((units.parse_rate, "1MB"), (units.parse_size, "1Mbit")):
        with pytest.raises(ValueError, match="has the unit"):
            parse(text)
