"""What the agent's command line says instead of its configuration."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mrc_host.agent.config_file import dump_config
from mrc_host.agent.main import _configured, _parser, main
from mrc_host.back_to_back import nic_config
from mrc_host.config import NicConfig, ProtocolSettings, TransportSettings

ROOT = Path(__file__).resolve().parents[3]


def configured(config: NicConfig, options: str = "") -> TransportSettings:
    return _configured(config, _parser().parse_args(f"--config x --socket y {options}".split())).settings.transport


def test_without_options_the_configuration_applies() -> None:
    transport = TransportSettings(
        congestion="none", rc_congestion="dcqcn", base_rtt=7, spraying="oblivious", plane_skew_limit=3
    )
    assert configured(replace(nic_config(0), settings=ProtocolSettings(transport=transport))) == transport


def test_options_replace_single_settings() -> None:
    given = configured(nic_config(0), "--congestion nscc --rc-congestion dcqcn --base-rtt-us 50 --spraying oblivious")
    assert given == TransportSettings(congestion="nscc", rc_congestion="dcqcn", base_rtt=50_000, spraying="oblivious")
    assert configured(nic_config(0), "--spraying reactive").spraying == "reactive"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--congestion", "quantum"],
            "mrc agent: Unknown congestion control 'quantum': use 'nscc', 'fixed' or 'none'.",
        ),
        (["--congestion", "nscc"], "set base_rtt"),
        (["--rc-congestion", "nscc"], "not for an RC queue pair"),
    ],
)
def test_impossible_options_are_refused(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "nic.json"
    path.write_text(dump_config(nic_config(0)))
    assert main(["--config", str(path), "--socket", str(tmp_path / "nic.sock"), *arguments]) == 1
    assert message in capsys.readouterr().err


def test_an_agent_starts_without_asyncio() -> None:
    code = "import sys, mrc_host.agent.main; raise SystemExit('asyncio' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)  # it would be a quarter of an agent's start
