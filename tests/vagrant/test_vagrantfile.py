"""The Vagrantfile evaluated by ruby with a stand-in for Vagrant that prints whatever is set."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

VAGRANTFILE = Path(__file__).resolve().parents[2] / "vagrant/Vagrantfile"
STAND_IN = """
class Recorder < BasicObject
  def initialize(path) = @path = path
  def method_missing(name, *arguments, **options, &block)
    if name.end_with?("=")
      ::Kernel.puts "#{@path}.#{name}#{arguments[0].inspect}"
    elsif arguments.any?
      ::Kernel.puts "#{@path}.#{name} #{[*arguments, *options.map { |key, value| "#{key}: #{value}" }].join(" ")}"
    end
    part = ::Recorder.new([@path, name, *arguments.first(1)].join("."))
    block ? block.call(part) : part
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
        env={**inherited, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_both_providers_get_the_same_machine_and_the_projects_provisioning() -> None:
    done = evaluated()
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert 'config.vm.box="generic/debian12"' in lines
    for provider in ("virtualbox", "libvirt"):
        assert f"config.vm.provider.{provider}.cpus=2" in lines
        assert f"config.vm.provider.{provider}.memory=4096" in lines
    (provision,) = [line for line in lines if line.startswith("config.vm.provision ")]
    assert "path: provision.sh" in provision
    assert "/home/vagrant/mrc-testbed" in provision
    assert "sudo make demo" in done.stdout


def test_box_size_and_repository_are_variables() -> None:
    chosen = {"MRC_BOX": "ubuntu2204", "MRC_CPUS": "4", "MRC_MEMORY": "8192", "MRC_P4_REPOSITORY": "http://x/%s"}
    lines = evaluated(**chosen).stdout
    assert 'config.vm.box="generic/ubuntu2204"' in lines
    assert "libvirt.cpus=4" in lines
    assert "virtualbox.memory=8192" in lines
    assert "http://x/%s" in lines
    assert 'config.vm.box="owner/arm64-box"' in evaluated(MRC_BOX="owner/arm64-box").stdout


def test_an_unknown_box_is_one_sentence() -> None:
    done = evaluated(MRC_BOX="windows")
    assert done.returncode == 1
    assert done.stderr == "MRC_BOX=windows: use debian12, ubuntu2204 or owner/name.\n"
