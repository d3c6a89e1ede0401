"""What the Vagrantfile decides: one machine for both providers, and what its variables choose.

Ruby evaluates it with something in place of Vagrant that prints what is set. What Vagrant makes of it is not tested.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

VAGRANTFILE = Path(__file__).resolve().parents[2] / "vagrant/Vagrantfile"
STAND_IN = """
class Recorder < BasicObject
  def initialize(path) = @path = path
  def method_missing(name, *words, **options, &block)
    ::Kernel.puts [@path, name, *words, *options.map { |key, value| "#{key}: #{value}" }].join(" ")
    part = ::Recorder.new([@path, name, *words.first(1)].join("."))
    block ? block.call(part, ::Recorder.new([@path, name, *words.first(1), "override"].join("."))) : part
  end
end
module Vagrant
  def self.configure(version) = yield(Recorder.new("config"))
end
load ARGV[0]
"""

pytestmark = pytest.mark.skipif(shutil.which("ruby") is None, reason="ruby is not installed")


def evaluated(**environment: str) -> subprocess.CompletedProcess[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MRC_")}
    return subprocess.run(
        ["ruby", "-e", STAND_IN, str(VAGRANTFILE)],
        env={**inherited, **environment}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_both_providers_get_the_same_machine() -> None:
    done = evaluated()
    assert done.returncode == 0, done.stderr
    sizes = {
        provider: re.findall(rf"^config\.vm\.provider\.{provider} (\w+= \d+)", done.stdout, re.MULTILINE)
        for provider in ("virtualbox", "libvirt")
    }
    assert len(sizes["virtualbox"]) == 2
    assert sizes["virtualbox"] == sizes["libvirt"]


def test_provisioning_runs_our_script_with_the_project_folder() -> None:
    output = evaluated().stdout
    (script,) = re.findall(r"path: (\S+)", output)
    assert os.access(VAGRANTFILE.parent / script, os.X_OK)
    (project,) = re.findall(r"synced_folder \.\. (\S+)", output)
    assert f'args: ["{project}"]' in output


def test_box_size_and_repository_are_configurable() -> None:
    chosen = {"MRC_BOX": "ubuntu2204", "MRC_CPUS": "4", "MRC_MEMORY": "8192", "MRC_P4_REPOSITORY": "http://x/%s"}
    output = evaluated(**chosen).stdout
    assert "config.vm box= generic/ubuntu2204" in output
    assert output.count("cpus= 4") == output.count("memory= 8192") == 2
    assert re.search('P4_REPOSITORY" ?=> ?"http://x/%s"', output)
    assert "config.vm box= owner/arm64-box" in evaluated(MRC_BOX="owner/arm64-box").stdout


def test_the_built_box_is_each_providers_own_file() -> None:
    output = evaluated(MRC_BOX="built").stdout
    assert "config.vm box= mrc-testbed" in output
    folder = VAGRANTFILE.parents[1] / ".cache/vm"
    for provider in ("libvirt", "virtualbox"):
        (where,) = re.findall(rf"^config\.vm\.provider\.{provider}\.override\.vm box_url= (\S+)", output, re.MULTILINE)
        assert where == f"file://{folder}/{provider}.box"
    assert "box_url" not in evaluated().stdout


def test_libvirt_emulates_the_processor_without_kvm() -> None:
    assert "config.vm.provider.libvirt driver= qemu" in evaluated(MRC_VM_KVM="no").stdout
    assert ("driver= qemu" in evaluated().stdout) == (not os.path.exists("/dev/kvm"))


def test_an_unknown_box_is_refused() -> None:
    done = evaluated(MRC_BOX="windows")
    assert done.returncode == 1
    assert done.stderr == "MRC_BOX=windows: use debian12, ubuntu2204, built or owner/name.\n"
