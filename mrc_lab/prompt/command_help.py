"""Every command of the prompt, Mininet's own included: its group, usage, example, and what each of its words is.

Help and completion are made from this one table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mrc_lab.commands import fault_command


class Group(enum.Enum):
    """Groups of commands, in the order of the overview."""

    TRAFFIC = "Traffic"
    PATHS = "Queue pairs and paths"
    FAULTS = "Faults"
    SWITCHES = "Switches and links"
    MININET = "Mininet's own"


class Word(enum.Enum):
    """What a word of a command is, for completion."""

    HOST = "host"
    SWITCH = "switch"
    NODE = "host or switch"
    LINK = "link"
    TABLE = "table"
    FILE = "file"
    COMMAND = "command"
    FAULT = "words of fault"
    FLAGS = "flags of a performance tool, and their values"
    ANY = "anything"


Words = tuple["Word | tuple[str, ...]", ...]
"""What each word of a command is: a kind, or the words there are; the last stands for all that follow."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A command. `summary` is a line of the overview; `more` is what 'help COMMAND' says besides."""

    name: str
    group: Group
    usage: str
    example: str
    summary: str
    words: Words = ()
    more: str = ""


_UP_DOWN = ("up", "down")
_COLLECTIVE = "Runs over all hosts, verifies the result; flags as in nccl-tests (-h)."
_PAIR = "Flags as in perftest (-h)."
_HOSTS: Words = (Word.HOST, Word.HOST, Word.ANY)
_PAIR_WORDS: Words = (Word.HOST, Word.HOST, Word.FLAGS)

_OURS = (
    Entry("write", Group.TRAFFIC, "write SOURCE DESTINATION SIZE", "write h1 h3 64M",
          "write from one host's memory to another's, and compare every byte", _HOSTS,
          "The queue pairs stay, to be looked at with qps, evs and paths."),
    Entry("allreduce", Group.TRAFFIC, "allreduce SIZE [FLAGS]", "allreduce 16M",
          "a ring all-reduce over all hosts, verified, with algbw and busbw", (Word.ANY, Word.FLAGS),
          "The same as: all_reduce_perf -b SIZE -e SIZE."),
    Entry("all_reduce_perf", Group.TRAFFIC, "all_reduce_perf [FLAGS]", "all_reduce_perf -b 64K -e 1M -f 4",
          "measure all-reduce", (Word.FLAGS,), _COLLECTIVE),
    Entry("all_gather_perf", Group.TRAFFIC, "all_gather_perf [FLAGS]", "all_gather_perf -b 64K -e 1M -f 4",
          "measure all-gather", (Word.FLAGS,), _COLLECTIVE),
    Entry("reduce_scatter_perf", Group.TRAFFIC, "reduce_scatter_perf [FLAGS]", "reduce_scatter_perf -b 64K -e 1M -f 4",
          "measure reduce-scatter", (Word.FLAGS,), _COLLECTIVE),
    Entry("alltoall_perf", Group.TRAFFIC, "alltoall_perf [FLAGS]", "alltoall_perf -b 64K -e 1M -f 4",
          "measure all-to-all", (Word.FLAGS,), _COLLECTIVE),
    Entry("sendrecv_perf", Group.TRAFFIC, "sendrecv_perf [FLAGS]", "sendrecv_perf -b 64K -e 1M -f 4",
          "measure a ring of sends", (Word.FLAGS,), _COLLECTIVE),
    Entry("broadcast_perf", Group.TRAFFIC, "broadcast_perf [FLAGS]", "broadcast_perf -b 64K -e 1M -f 4",
          "measure a broadcast", (Word.FLAGS,), _COLLECTIVE),
    Entry("write_bw", Group.TRAFFIC, "write_bw SOURCE DESTINATION [FLAGS]", "write_bw h1 h3 -s 65536 -n 20",
          "bandwidth of RDMA WRITE between two hosts", _PAIR_WORDS, _PAIR),
    Entry("write_lat", Group.TRAFFIC, "write_lat SOURCE DESTINATION [FLAGS]", "write_lat h1 h3 -s 2 -n 20",
          "latency of RDMA WRITE between two hosts", _PAIR_WORDS, _PAIR),
    Entry("mrc_ping", Group.TRAFFIC, "mrc_ping SOURCE DESTINATION [FLAGS]", "mrc_ping h1 h3 -c 2",
          "ping every path between two hosts' NICs", _PAIR_WORDS, "Flags as in ping (-h)."),
    Entry("qps", Group.PATHS, "qps [HOST]", "qps h1",
          "queue pairs of all hosts or of one, with their counters", (Word.HOST,)),
    Entry("evs", Group.PATHS, "evs HOST", "evs h1",
          "state of every entropy value of a host's queue pairs", (Word.HOST,)),
    Entry("counters", Group.PATHS, "counters HOST [QP] [--json]", "counters h1",
          "counters of a host's NIC and ports, or of one queue pair", (Word.HOST, ("--json",), ("--json",)),
          "Under the names that RDMA tools use; what is 0 is left out, but not with --json, which has all queue pairs\n"
          "too. QP is a number as qps shows it. What queue pairs counted stays in the NIC's when they go."),
    Entry("paths", Group.PATHS, "paths SOURCE DESTINATION", "paths h1 h3",
          "every way between two hosts: EV, plane, T1, state, packets, losses", (Word.HOST, Word.HOST),
          "Sums over the queue pairs from SOURCE to DESTINATION. 'in use' says whether a way is in an active set;\n"
          "RTT is that of the packet there that last caused a SACK."),
    Entry("map", Group.PATHS, "map [SECONDS] | rate NUMBER | deny | allow | stop", "map 10",
          "which links and switches lose packets, as probes of the hosts tell", (("rate", "deny", "allow", "stop"),)),
    Entry("fault", Group.FAULTS, "fault LINK|SWITCH WHAT ... | kinds | list | clear ID|all", "fault t0-0:t1-2@p1 down",
          "make a fault, list them, clear them; names may be patterns", (Word.FAULT,),
          f"{fault_command.kinds()}\n{fault_command.WHEN}\n"
          "LINK up; kinds; list [all]; clear ID... | all | owner NAME | link NAME"),
    Entry("links", Group.SWITCHES, "links [PATTERN]", "links t0-0:t1-*@p1",
          "state, interfaces, traffic and faults of links", (Word.LINK,)),
    Entry("tables", Group.SWITCHES, "tables SWITCH [TABLE]", "tables t0-0@p0 usid_next",
          "tables of a switch, or the entries of one, with their counters", (Word.SWITCH, Word.TABLE),
          "Read from the switch over P4Runtime just now."),
    Entry("queues", Group.SWITCHES, "queues SWITCH [reset]", "queues t0-0@p0",
          "queues of a switch: depth, peak, drops, ECN marks, trims", (Word.SWITCH, ("reset",)),
          "'reset' lets the peaks start again, once they are shown. BMv2 does not tell its depths; marks, trims and\n"
          "drops are counted there too."),
    Entry("capture", Group.SWITCHES, "capture LINK FILE | capture | capture stop [LINK]",
          "capture t0-0:t1-0@p1 /tmp/trunk.pcapng",
          "packets of a link into a pcapng file, in the background", (Word.LINK, Word.FILE),
          "Alone it lists the captures that run. FILE is relative to where mrc was started and belongs to who ran\n"
          "sudo. What arrives at either end is taken, by a reader of our own: no tool needs to be installed."),
)  # fmt: skip

_MININETS = (
    Entry("nodes", Group.MININET, "nodes", "nodes", "names of hosts and switches"),
    Entry("net", Group.MININET, "net", "net", "which interface is connected to which"),
    Entry("dump", Group.MININET, "dump", "dump", "addresses and process ids of nodes"),
    Entry("intfs", Group.MININET, "intfs", "intfs", "interfaces of nodes"),
    Entry("ports", Group.MININET, "ports", "ports", "ports of switches and their interfaces"),
    Entry("pingall", Group.MININET, "pingall [TIMEOUT]", "pingall", "ping between all hosts' kernels", (Word.ANY,)),
    Entry("pingallfull", Group.MININET, "pingallfull", "pingallfull", "the same, with round trips"),
    Entry("pingpair", Group.MININET, "pingpair", "pingpair", "ping between the first two hosts"),
    Entry("pingpairfull", Group.MININET, "pingpairfull", "pingpairfull", "the same, with round trips"),
    Entry("link", Group.MININET, "link NODE NODE up|down", "link t0-0@p0 t1-0@p0 down",
          "take the links between two nodes up or down", (Word.NODE, Word.NODE, _UP_DOWN),
          "A fault does the same by the link's name and is listed: fault t0-0:t1-0@p0 down."),
    Entry("switch", Group.MININET, "switch SWITCH start|stop", "switch t1-0@p0 stop",
          "take all ports of a switch up or down", (Word.SWITCH, ("start", "stop"))),
    Entry("wait", Group.MININET, "wait", "wait", "wait until every switch holds its table entries"),
    Entry("sh", Group.MININET, "sh COMMAND", "sh ip -br link show type veth", "run a command on this machine",
          (Word.FILE,)),
    Entry("py", Group.MININET, "py EXPRESSION", "py h1.cmd('ip route')", "evaluate Python; nodes are there by name"),
    Entry("px", Group.MININET, "px STATEMENT", "px print(h1.IP())", "execute a Python statement"),
    Entry("source", Group.MININET, "source FILE", "source lines.mrc", "run the lines of a file", (Word.FILE,)),
    Entry("time", Group.MININET, "time COMMAND", "time write h1 h3 16M", "how long a command takes", (Word.COMMAND,)),
    Entry("noecho", Group.MININET, "noecho HOST COMMAND", "noecho h1 python3",
          "run an interactive command without echo", (Word.NODE, Word.ANY)),
    Entry("xterm", Group.MININET, "xterm HOST...", "xterm h1", "terminals on hosts; needs a display", (Word.NODE,)),
    Entry("gterm", Group.MININET, "gterm HOST...", "gterm h1", "the same with gnome-terminal", (Word.NODE,)),
    Entry("x", Group.MININET, "x HOST [COMMAND]", "x h1 wireshark", "a program with windows on a host", (Word.NODE,)),
    Entry("iperf", Group.MININET, "iperf", "iperf", "refused: hosts have IPv6 only; use write_bw", (Word.HOST,)),
    Entry("iperfudp", Group.MININET, "iperfudp", "iperfudp", "refused, as iperf", (Word.ANY,)),
    Entry("dpctl", Group.MININET, "dpctl", "dpctl", "refused: switches speak P4Runtime; use tables", (Word.ANY,)),
    Entry("help", Group.MININET, "help [COMMAND]", "help write", "this list, or one command", (Word.COMMAND,)),
    Entry("exit", Group.MININET, "exit", "exit", "leave; also quit and Ctrl-D"),
    Entry("quit", Group.MININET, "quit", "quit", "leave"),
    Entry("EOF", Group.MININET, "Ctrl-D", "Ctrl-D", "leave"),
)  # fmt: skip

COMMANDS = {entry.name: entry for entry in (*_OURS, *_MININETS)}
_HIDDEN = ("EOF", "quit", "iperf", "iperfudp", "dpctl")
_ON_HOSTS = (
    "A node's name before a command runs it there, names of other nodes become addresses:  h1 ping -c 1 h3\n"
    "'help COMMAND' shows usage and an example; Tab completes commands, nodes, links, tables, flags and files.\n"
    "Links are t0-0:t1-3@p1 and h4@p1; where several may be meant, patterns do: t0-0:t1-*@p1."
)


def overview() -> str:
    """All commands by group, a line each."""
    lines = []
    for group in Group:
        lines.append(f"{group.value}:")
        entries = [e for e in COMMANDS.values() if e.group is group and e.name not in _HIDDEN]
        lines += [f"  {entry.name:<20} {entry.summary}" for entry in entries]
        lines.append("")
    return "\n".join((*lines, _ON_HOSTS))


def describe(entry: Entry) -> str:
    """Usage, example and what else there is to say of one command."""
    head = f"{entry.summary[0].upper()}{entry.summary[1:]}."
    return "\n".join((f"usage:    {entry.usage}", f"example:  {entry.example}", "", head, *filter(None, [entry.more])))
