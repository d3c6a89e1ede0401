"""``mrc metrics`` without a fabric; on one it is run by tests/integration/test_telemetry.py."""

from __future__ import annotations

import json

import pytest

from mrc_lab.cli.main import run


def test_the_dashboard_needs_no_fabric(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["metrics", "--dashboard"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "MRC fabric"


@pytest.mark.parametrize(
    ("arguments", "status", "sentence"),
    [
        (["--dashboard", "--once"], 2, "not both"),
        (["--once", "nosuch"], 3, "Fabric nosuch is not up."),
        (["nosuch"], 3, "Fabric nosuch is not up."),
        (["nosuch", "--listen", "0.0.0.0:9464"], 3, "0.0.0.0:9464 is reachable from the network"),
        (["nosuch", "--listen", "9464"], 3, "no address to listen on"),
        (["nosuch", "--listen", "localhost:99999"], 3, "no address to listen on"),
    ],
)
def test_mistakes_are_reported_before_anything_is_served(
    arguments: list[str], status: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["metrics", *arguments]) == status
    printed = capsys.readouterr()
    assert sentence in printed.err
    assert printed.out == ""
