from mrc_lab.demo.plot import plot_step_times
from tests.mrc_lab.demo.records import fault, record


def test_the_plot_is_drawn_from_any_data(tmp_path):
    full = record("roce", [(1000, 1100), (1100, 1900), (1900, 2000)])
    full.faults += [fault("t0-0:t1-1@p0", 1150, 1800), fault("h2@p1", 1950, None)]
    empty = record("mrc", [], planned=3, finished=False)
    for number, records in enumerate(([full, empty], [full], [empty], [])):
        path = tmp_path / f"{number}.png"
        plot_step_times(records, path)
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 2000
