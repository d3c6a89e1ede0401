"""The command: what it prints, its exit status, and what --fix does; findings are given."""

from __future__ import annotations

import json
import os

import pytest

from mrc_lab.cli.main import run
from mrc_lab.fabric import doctor
from mrc_lab.fabric.doctor import CheckResult, Fix
from topologies.emulation.errors import EmulationError

WELL = CheckResult("C compiler", True, "/usr/bin/cc 12.2", fatal=True)
NO_BMV2 = CheckResult("simple_switch_grpc", False, "no BMv2")
LEFT = CheckResult("leftovers", False, "of demo", fix=Fix.CLEAN)
NO_VETH = CheckResult("kernel", False, "no veth", True, Fix.MODULES)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[CheckResult]:
    """What will be found; remedies carried out take their findings away."""
    findings: list[CheckResult] = [WELL]
    monkeypatch.setattr(doctor, "examine", lambda: list(findings))
    monkeypatch.setattr(os, "geteuid", lambda: 0)

    def apply(fix: Fix) -> str:
        findings[:] = [finding for finding in findings if finding.fix is not fix]
        return "done"

    monkeypatch.setattr(doctor, "apply", apply)
    return findings


def test_a_complete_machine_passes(found: list[CheckResult], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor"]) == 0
    assert capsys.readouterr().out == "ok       C compiler          /usr/bin/cc 12.2\n"


def test_missing_optional_parts_are_warnings(found: list[CheckResult], capsys: pytest.CaptureFixture[str]) -> None:
    found.append(NO_BMV2)
    assert run(["doctor"]) == 0
    printed = capsys.readouterr().out
    assert "absent   simple_switch_grpc  no BMv2\n" in printed
    assert "--fix" not in printed


def test_missing_required_parts_are_failures(found: list[CheckResult], capsys: pytest.CaptureFixture[str]) -> None:
    found.append(NO_VETH)
    assert run(["doctor"]) == 3
    printed = capsys.readouterr().out
    assert "MISSING  kernel              no veth\n" in printed
    assert "mrc doctor --fix" in printed


def test_json_lists_every_check_and_nothing_else(found: list[CheckResult], capsys: pytest.CaptureFixture[str]) -> None:
    found += [NO_BMV2, LEFT]
    assert run(["doctor", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [(row["check"], row["ok"], row["required"], row["fix"]) for row in rows] == [
        ("C compiler", True, True, None),
        ("simple_switch_grpc", False, False, None),
        ("leftovers", False, False, "remove leftovers of crashed runs"),
    ]
    assert run(["doctor", "--fix", "--json"]) == 0
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)) == 2
    assert printed.err == "remove leftovers of crashed runs: done\n"


def test_fix_applies_the_fixes_and_checks_again(found: list[CheckResult], capsys: pytest.CaptureFixture[str]) -> None:
    found += [LEFT, NO_VETH]
    assert run(["doctor", "--fix"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == [
        "load kernel modules: done",
        "remove leftovers of crashed runs: done",
        "ok       C compiler          /usr/bin/cc 12.2",
    ]


def test_failed_fixes_are_reported(
    found: list[CheckResult], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_remedy: Fix) -> str:
        raise EmulationError("modprobe cannot be run: No such file or directory.")

    monkeypatch.setattr(doctor, "apply", fail)
    found.append(NO_VETH)
    assert run(["doctor", "--fix"]) == 3
    assert "load kernel modules: failed: modprobe cannot be run" in capsys.readouterr().out


def test_fixing_needs_root(
    found: list[CheckResult], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert run(["doctor", "--fix"]) == 3
    assert "--fix needs root" in capsys.readouterr().err
