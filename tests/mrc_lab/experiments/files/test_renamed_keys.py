"""Keys of experiment files under names of earlier releases: understood, with a note of today's name."""

from __future__ import annotations

import dataclasses

import pytest

from mrc_host.config import TransportSettings
from mrc_lab.errors import FileError
from mrc_lab.experiments.files.loader import load_text
from mrc_lab.experiments.files.renamed_keys import SETTINGS
from mrc_lab.sweeps.grid import make_grid

FILE = """
fabric: {{hosts: 4, t0: 2, t1: 2}}
workload: {{kind: write_bw, pairs: h1>h3, message: 64K}}
duration: 1ms
transport: {{settings: {{{settings}}}}}
"""


def settings_of(text: str, case: int = 0) -> dict[str, object]:
    return dict(load_text(text).cases[case].transport.settings)


@pytest.mark.parametrize(("old", "name"), SETTINGS.items())
def test_an_old_setting_is_accepted_with_a_note(old: str, name: str) -> None:
    value = "3ms" if name == "reverse_probe_interval" else "3"
    experiment = load_text(FILE.format(settings=f"{old}: {value}"), source="x.yaml")
    assert dict(experiment.cases[0].transport.settings) == {name: 3_000_000 if value == "3ms" else 3}
    assert experiment.notes == (f"x.yaml, line 5: {old} is called {name} now",)
    assert not load_text(FILE.format(settings=f"{name}: {value}")).notes


def test_new_names_are_settings_and_old_ones_are_not() -> None:
    fields = {field.name for field in dataclasses.fields(TransportSettings)}
    assert set(SETTINGS.values()) <= fields
    assert not set(SETTINGS) & fields


def test_a_variant_may_use_either_name() -> None:
    variants = """
variants:
  - {name: old, transport: {settings: {plane_burst: 4}}}
  - {name: new, transport: {settings: {plane_skew_limit: 5}}}
  - {name: neither}
"""
    for base in ("plane_burst: 3", "plane_skew_limit: 3"):
        text = FILE.format(settings=base) + variants
        assert [settings_of(text, case)["plane_skew_limit"] for case in range(3)] == [4, 5, 3]


def test_old_and_new_name_together_are_refused() -> None:
    with pytest.raises(FileError, match="plane_skew_limit: is given twice"):
        load_text(FILE.format(settings="plane_burst: 3, plane_skew_limit: 4"))


def test_old_names_are_unknown_elsewhere() -> None:
    with pytest.raises(FileError, match=r"fabric\.plane_burst: unknown key"):
        load_text(FILE.format(settings="").replace("t1: 2", "t1: 2, plane_burst: 3"))


def test_a_command_line_setting_overrides_the_file_under_either_name(tmp_path) -> None:
    for written in ("plane_burst", "plane_skew_limit"):
        for given in ("plane_burst", "plane_skew_limit"):
            text = FILE.format(settings=f"{written}: 3")
            file = tmp_path / "x.yaml"
            file.write_text(text)
            grid = make_grid([file], [f"transport.settings.{given}=7"], [1])
            case = load_text(grid.runs[0].text).cases[0]
            assert dict(case.transport.settings) == {"plane_skew_limit": 7}
            assert any(note.startswith("--set") for note in grid.notes) == (given == "plane_burst")


def test_a_sweep_notes_old_names_in_its_files_and_settings(tmp_path) -> None:
    file = tmp_path / "x.yaml"
    file.write_text(FILE.format(settings="open_messages: 3"))
    grid = make_grid([file], ["transport.settings.plane_burst=3,4"], [1])
    assert grid.notes == (
        "--set transport.settings.plane_burst=3,4: plane_burst is called plane_skew_limit now",
        f"{file}, line 5: open_messages is called max_inflight_messages now",
    )
    assert grid.keys == ("transport.settings.plane_skew_limit",)
