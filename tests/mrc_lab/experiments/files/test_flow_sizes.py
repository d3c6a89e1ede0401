"""The key `sizes` of random flows in files."""

import pytest

from mrc_lab.errors import ExperimentError
from mrc_lab.experiments.files import FileError, load_file
from tests.mrc_lab.experiments.running.cases import case_of


def sizes(text):
    return case_of(f"{{kind: flows, load: 50%, sizes: {text}}}", "10ms").workload.sizes


def test_a_name_a_size_and_a_file(tmp_path):
    assert sizes("web_search").distribution.mean == 1_711_250
    assert sizes("64K").distribution.mean == 65536
    assert sizes("5000").distribution.mean == 5000
    (tmp_path / "mine.txt").write_text("0 0\n2000 100\n")
    (tmp_path / "10_short").write_text("0 0\n20 100\n")
    for name, mean in (("mine.txt", 1000), ("10_short", 10)):
        file = tmp_path / "trial.yaml"
        file.write_text(
            "fabric: {hosts: 4, t0: 2, t1: 2}\nduration: 1ms\nworkload: {kind: flows, load: 1%, sizes: " + name + "}\n"
        )
        found = load_file(file).cases[0].workload.sizes
        assert found.distribution.mean == mean
        (tmp_path / "out").mkdir(exist_ok=True)
        found.copy_to(tmp_path / "out")
        assert (tmp_path / "out" / name).read_text() == (tmp_path / name).read_text()


def test_a_copy_that_cannot_be_made_is_an_error(tmp_path):
    (tmp_path / "mine.txt").write_text("0 0\n2000 100\n")
    file = tmp_path / "trial.yaml"
    file.write_text("fabric: {hosts: 4}\nduration: 1ms\nworkload: {kind: flows, load: 1%, sizes: mine.txt}\n")
    found = load_file(file).cases[0].workload.sizes
    with pytest.raises(ExperimentError, match=r"mine\.txt cannot be copied to"):
        found.copy_to(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("web_serach", r"workload\.sizes: 'web_serach' is unknown; did you mean web_search\?; or give a size"),
        ("nothing.txt", r"workload\.sizes: .*nothing\.txt cannot be read: No such file"),
        ("0", r"workload\.sizes: is 0, but must be"),
        ("5X", r"workload\.sizes: must be a size"),
        ("9999T", r"workload\.sizes: is 9999T, but must be"),
        ("[1K, 2K]", r"workload\.sizes: must be a single value"),
        (".", r"workload\.sizes: '\.' is unknown"),
        ("/dev/zero.txt", r"workload\.sizes: .* cannot be read"),
    ],
)
def test_what_is_no_distribution_is_refused(text, message):
    with pytest.raises(FileError, match=message):
        sizes(text)


def test_the_wrong_line_of_a_file_is_named(tmp_path):
    (tmp_path / "mine.txt").write_text("0 0\n2000 50\n1000 100\n")
    file = tmp_path / "trial.yaml"
    file.write_text("fabric: {hosts: 4}\nduration: 1ms\nworkload: {kind: flows, load: 1%, sizes: mine.txt}\n")
    with pytest.raises(FileError, match=r"trial\.yaml, line 3: workload\.sizes: .*mine\.txt, line 3: the size 1000"):
        load_file(file)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "mine.txt").write_bytes(b"\xff\xfe0 0")
    file = tmp_path / "trial.yaml"
    file.write_text("fabric: {hosts: 4}\nduration: 1ms\nworkload: {kind: flows, load: 1%, sizes: mine.txt}\n")
    with pytest.raises(FileError, match="not a text file in UTF-8"):
        load_file(file)
