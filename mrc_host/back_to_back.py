"""Two hosts connected back to back, one link per plane and no switch: to measure a NIC or test an agent by itself.

A path's outer address is just the block and the peer's uSID, as in a packet that has left the last switch.
``nic_config`` is the configuration of such a NIC. ``BackToBack`` (which needs root) creates two network namespaces
connected by veth pairs, and runs agents in them; applications can run in any namespace, because UNIX sockets do not
depend on it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path

from mrc_common import children
from mrc_host.agent.config_file import dump_config
from mrc_host.config import Destination, NicConfig, PortConfig, UsidTemplate

BLOCK = 0xFC000000
READY_S = 20


def nic_config(number: int, *, nics: int = 2, planes: int = 2, uplinks: int = 4) -> NicConfig:
    """Configuration of NIC `number` out of `nics`; `uplinks` entropy values per plane lead to each of the others.

    Each port is connected to the next NIC; the interfaces of the first NIC are h1-eth0 and so on.
    """
    name = f"h{number + 1}"
    peer = (number + 1) % nics
    ports = tuple(
        PortConfig(plane, _mac(number, plane), _mac(peer, plane), _usid(number, plane), 0, f"{name}-eth{plane}")
        for plane in range(planes)
    )
    evs = tuple(plane << 10 | uplink for uplink in range(uplinks) for plane in range(planes))
    others = tuple(
        Destination(f"h{i + 1}", _address(i), UsidTemplate(BLOCK << 96 | _usid(i, 0) << 80, (90,), None), evs)
        for i in range(nics)
        if i != number
    )
    return NicConfig(name, _address(number), BLOCK, ports, others)


def _address(number: int) -> bytes:
    return bytes.fromhex("fd00006d7263000000000000000000") + bytes([number + 1])


def _mac(number: int, plane: int) -> bytes:
    return bytes((2, 0, 0, 0, number, plane))


def _usid(number: int, plane: int) -> int:
    return 0x6000 | plane << 10 | number


def run(*command: str) -> None:
    """Run a command; if it fails, the exception contains its error output."""
    done = children.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")


class Agent:
    """One running agent process."""

    def __init__(self, namespace: str, config: NicConfig, folder: Path, *, options: tuple[str, ...] = ()) -> None:
        self.socket = folder / f"{config.name}.sock"
        self.log = folder / f"{config.name}.log"
        path = folder / f"{config.name}.json"
        path.write_text(dump_config(config))
        arguments = ("--config", str(path), "--socket", str(self.socket), "--log", str(self.log), *options)
        command = ("ip", "netns", "exec", namespace, *children.python("mrc_host.agent", *arguments))
        self.process: subprocess.Popen[str] = children.popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if line != f"ready {config.name} {self.socket}\n":
            self.process.wait(READY_S)
            raise RuntimeError(f"The agent of {config.name} did not come up: {line!r} {self.log.read_text()}")

    def stop(self) -> int:
        """Terminate it (SIGTERM); returns the exit status."""
        self.process.terminate()
        return self.process.wait(10)

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        self.process.kill()
        self.process.wait(10)

    def close(self) -> None:
        """Make sure that it has exited."""
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(10)
        if self.process.stdout is not None:
            self.process.stdout.close()


class BackToBack:
    """Namespaces, links and configurations; `start` runs an agent. Use it in a `with` statement."""

    def __init__(self, folder: Path, *, planes: int = 2, rate_bps: int = 0, mtu: int = 4500) -> None:
        self.folder = folder
        tag = f"mrc{os.getpid() % 100000}"
        self.namespaces = [f"{tag}{side}" for side in "ab"]
        self.configs = [self._config(i, planes, rate_bps, mtu) for i in range(2)]
        self.agents: dict[int, Agent] = {}

    @staticmethod
    def _config(number: int, planes: int, rate_bps: int, mtu: int) -> NicConfig:
        config = nic_config(number, planes=planes)
        ports = tuple(replace(port, rate_bps=rate_bps) for port in config.ports)
        return replace(config, ports=ports, mtu=mtu)

    def __enter__(self) -> BackToBack:
        try:
            for namespace in self.namespaces:
                run("ip", "netns", "add", namespace)
                self.execute(namespace, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
                self.execute(namespace, "sysctl", "-qw", "net.ipv6.conf.default.disable_ipv6=1")
            # If both ends of a veth pair have the same index, the kernel takes them for one physical device and may
            # delay carrier messages by a second. A spare interface makes the indices differ, as in a real fabric.
            run("ip", "-n", self.namespaces[1], "link", "add", "spare", "type", "bridge")
            for plane in range(len(self.configs[0].ports)):
                self.add_link(plane)
        except BaseException:
            self.close()
            raise
        return self

    def add_link(self, plane: int) -> None:
        """Create the veth pair of one plane."""
        ends: list[str] = []
        for namespace, config in zip(self.namespaces, self.configs, strict=True):
            port = config.ports[plane]
            ends += ["name"] if not ends else ["type", "veth", "peer", "name"]
            ends += [port.interface, "netns", namespace, "address", port.mac.hex(":"), "mtu", str(config.mtu)]
        run("ip", "link", "add", *ends)
        for number in range(2):
            self.set_link(number, plane, "up")

    def execute(self, namespace: str, *command: str) -> None:
        """Run a command in a namespace."""
        run("ip", "netns", "exec", namespace, *command)

    def set_link(self, number: int, plane: int, state: str) -> None:
        """`ip link set ... up|down` on one host's end."""
        interface = self.configs[number].ports[plane].interface
        run("ip", "-n", self.namespaces[number], "link", "set", interface, state)

    def delete_link(self, plane: int) -> None:
        """Remove a veth pair."""
        run("ip", "-n", self.namespaces[0], "link", "del", self.configs[0].ports[plane].interface)

    def start(self, number: int, *options: str) -> Agent:
        """Run the agent of one host."""
        agent = Agent(self.namespaces[number], self.configs[number], self.folder, options=options)
        self.agents[number] = agent
        return agent

    def close(self) -> None:
        """Stop agents, and remove the namespaces and with them the links."""
        for agent in self.agents.values():
            agent.close()
        for namespace in self.namespaces:
            with contextlib.suppress(RuntimeError):
                run("ip", "netns", "del", namespace)

    def __exit__(self, *_: object) -> None:
        self.close()
