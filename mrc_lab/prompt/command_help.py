"""Every command of the prompt, Mininet's own included: its topic, usage, example, and the kind of each argument.

Help and completion are generated from this one table.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from mrc_lab.commands import fault_command


class Topic(enum.Enum):
    """Topics of the overview, in its order."""

    TRAFFIC = "Traffic"
    PATHS = "Queue pairs and paths"
    FAULTS = "Faults"
    SWITCHES = "Switches and links"
    MININET = "Mininet's own"


class Word(enum.Enum):
    """The kind of a command's argument, for completion."""

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
"""Each argument of a command: a kind, or the possible words; the last also applies to all that follow."""


@dataclass(frozen=True, slots=True)
class Help:
    """Help on a command. `summary` is a line of the overview; `more` is added by 'help COMMAND'."""

    name: str
    topic: Topic
    usage: str
    example: str
    summary: str
    words: Words = ()
    more: str = ""


_UP_DOWN = ("up", "down")
_JSON = ("--json",)
_TABLE = ("add", "modify", "delete", "dump", "restore")
_COLLECTIVE = "Runs over all hosts and verifies the result; flags as in nccl-tests (-h)."
_PAIR = "Flags as in perftest (-h)."
_HOSTS: Words = (Word.HOST, Word.HOST, Word.ANY)
_PAIR_WORDS: Words = (Word.HOST, Word.HOST, Word.FLAGS)

_OURS = (
    Help("write", Topic.TRAFFIC, "write SOURCE DESTINATION SIZE", "write h1 h3 64M",
          "write from one host's memory to another's, and compare every byte", _HOSTS,
          "The queue pairs stay open: inspect them with qps, evs and paths."),
    Help("allreduce", Topic.TRAFFIC, "allreduce SIZE [FLAGS]", "allreduce 16M",
          "a ring all-reduce over all hosts, verified, with algbw and busbw", (Word.ANY, Word.FLAGS),
          "The same as: all_reduce_perf -b SIZE -e SIZE."),
    Help("all_reduce_perf", Topic.TRAFFIC, "all_reduce_perf [FLAGS]", "all_reduce_perf -b 64K -e 1M -f 4",
          "measure all-reduce", (Word.FLAGS,), _COLLECTIVE),
    Help("all_gather_perf", Topic.TRAFFIC, "all_gather_perf [FLAGS]", "all_gather_perf -b 64K -e 1M -f 4",
          "measure all-gather", (Word.FLAGS,), _COLLECTIVE),
    Help("reduce_scatter_perf", Topic.TRAFFIC, "reduce_scatter_perf [FLAGS]", "reduce_scatter_perf -b 64K -e 1M -f 4",
          "measure reduce-scatter", (Word.FLAGS,), _COLLECTIVE),
    Help("alltoall_perf", Topic.TRAFFIC, "alltoall_perf [FLAGS]", "alltoall_perf -b 64K -e 1M -f 4",
          "measure all-to-all", (Word.FLAGS,), _COLLECTIVE),
    Help("sendrecv_perf", Topic.TRAFFIC, "sendrecv_perf [FLAGS]", "sendrecv_perf -b 64K -e 1M -f 4",
          "measure a ring of sends", (Word.FLAGS,), _COLLECTIVE),
    Help("broadcast_perf", Topic.TRAFFIC, "broadcast_perf [FLAGS]", "broadcast_perf -b 64K -e 1M -f 4",
          "measure a broadcast", (Word.FLAGS,), _COLLECTIVE),
    Help("write_bw", Topic.TRAFFIC, "write_bw SOURCE DESTINATION [FLAGS]", "write_bw h1 h3 -s 65536 -n 20",
          "bandwidth of RDMA WRITE between two hosts", _PAIR_WORDS, _PAIR),
    Help("write_lat", Topic.TRAFFIC, "write_lat SOURCE DESTINATION [FLAGS]", "write_lat h1 h3 -s 2 -n 20",
          "latency of RDMA WRITE between two hosts", _PAIR_WORDS, _PAIR),
    Help("mrc_ping", Topic.TRAFFIC, "mrc_ping SOURCE DESTINATION [FLAGS]", "mrc_ping h1 h3 -c 2",
          "ping every path between two hosts' NICs", _PAIR_WORDS, "Flags as in ping (-h)."),
    Help("qps", Topic.PATHS, "qps [HOST] [--json]", "qps h1",
          "queue pairs of all hosts or of one, with their counters", (Word.HOST, _JSON)),
    Help("evs", Topic.PATHS, "evs HOST [--json]", "evs h1",
          "state of every entropy value of a host's queue pairs", (Word.HOST, _JSON)),
    Help("counters", Topic.PATHS, "counters HOST [QP] [--json]", "counters h1",
          "counters of a host's NIC and ports, or of one queue pair", (Word.HOST, _JSON, _JSON),
          "Names are those of RDMA tools; counters that are 0 are left out. --json lists all, with those of all queue\n"
          "pairs. QP is a number as qps shows it. The NIC's counters include those of closed queue pairs."),
    Help("paths", Topic.PATHS, "paths SOURCE DESTINATION [--json]", "paths h1 h3",
          "every path between two hosts: EV, plane, T1, state, packets, losses", (Word.HOST, Word.HOST, _JSON),
          "Sums over the queue pairs from SOURCE to DESTINATION. 'in use' means that the path is in an active set;\n"
          "RTT is that of the last packet on it that caused a SACK."),
    Help("map", Topic.PATHS, "map [SECONDS] [--json] | rate NUMBER | deny | allow | stop", "map 10",
          "find links and switches that lose packets, by probes between hosts",
          (("rate", "deny", "allow", "stop", *_JSON),)),
    Help("fault", Topic.FAULTS, "fault LINK|SWITCH WHAT ... | kinds | list | clear ID|all", "fault t0-0:t1-2@p1 down",
          "inject, list and clear faults; names may be patterns", (Word.FAULT,),
          f"{fault_command.kinds()}\n{fault_command.WHEN}\n"
          "LINK up; kinds; list [all] [--json]; clear ID... | all | owner NAME | link NAME"),
    Help("restart", Topic.SWITCHES, "restart PROCESS", "restart h3",
          "restart processes of the fabric: a host's agent, the controller, switches", (Word.NODE,),
          "The name may be a pattern: restart h[1-4]. What still runs is ended first. 'links' names what has crashed.\n"
          "A restarted agent has lost its queue pairs; switches get their entries from the controller. Embedded\n"
          "switches are one process, called switches."),
    Help("links", Topic.SWITCHES, "links [PATTERN] [--json]", "links t0-0:t1-*@p1",
          "state, interfaces, traffic and faults of links", (Word.LINK, _JSON)),
    Help("tables", Topic.SWITCHES, "tables SWITCH [TABLE] [--json]", "tables t0-0@p0 usid_next",
          "tables of a switch, or the entries of one, with their counters", (Word.SWITCH, Word.TABLE, _JSON),
          "Reads the current entries from the switch over P4Runtime."),
    Help("table", Topic.SWITCHES, "table add|modify|delete|dump|restore ...",
          "table add t0-0@p0 traffic_class set_priority 55 => 1",
          "change entries of a switch's tables by hand", (_TABLE, Word.SWITCH, Word.TABLE, Word.ANY),
          "table add SWITCH TABLE ACTION MATCH... => ARGUMENT... [priority N]\n"
          "table modify SWITCH TABLE ACTION MATCH... => ARGUMENT... [priority N]\n"
          "table delete SWITCH TABLE MATCH... [priority N]\n"
          "table dump SWITCH [TABLE]: the same as tables\n"
          "table restore [SWITCH]: take changes by hand back\n"
          "As in simple_switch_CLI, MATCH is a number or an address, 10.0.0.0/8, value&&&mask, low->high, or *.\n"
          "SWITCH may be a pattern. A change stays when a switch or the controller is restarted; 'tables' marks it."),
    Help("p4", Topic.SWITCHES, "p4 | p4 reload [FILE]", "p4 reload",
          "the P4 program of the switches: what runs, or load what was edited", (("reload",), Word.FILE),
          "'p4 reload' compiles the program again and puts it on all switches while packets pass; they keep the\n"
          "entries of their tables. With FILE they run another: a .p4 file, or BMv2's JSON. If the entries do not fit\n"
          "the new program, the old one stays, and the reason is printed."),
    Help("queues", Topic.SWITCHES, "queues SWITCH [reset] [--json]", "queues t0-0@p0",
          "queues of a switch: depth, peak, drops, ECN marks, trims", (Word.SWITCH, ("reset", *_JSON), _JSON),
          "'reset' resets the peaks after showing them. BMv2 reports marks, trims and drops, but no depths."),
    Help("capture", Topic.SWITCHES, "capture LINK FILE | capture | capture stop [LINK]",
          "capture t0-0:t1-0@p1 /tmp/trunk.pcapng",
          "packets of a link into a pcapng file, in the background", (Word.LINK, Word.FILE),
          "Without arguments it lists running captures. FILE is relative to where mrc was started and belongs to the\n"
          "user who ran sudo. Packets are captured as they arrive at either end; no other tool is needed."),
)  # fmt: skip

_MININETS = (
    Help("nodes", Topic.MININET, "nodes", "nodes", "names of hosts and switches"),
    Help("net", Topic.MININET, "net", "net", "which interface is connected to which"),
    Help("dump", Topic.MININET, "dump", "dump", "addresses and process ids of nodes"),
    Help("intfs", Topic.MININET, "intfs", "intfs", "interfaces of nodes"),
    Help("ports", Topic.MININET, "ports", "ports", "ports of switches and their interfaces"),
    Help("pingall", Topic.MININET, "pingall [TIMEOUT]", "pingall", "ping between all hosts' kernels", (Word.ANY,)),
    Help("pingallfull", Topic.MININET, "pingallfull", "pingallfull", "the same, with round trips"),
    Help("pingpair", Topic.MININET, "pingpair", "pingpair", "ping between the first two hosts"),
    Help("pingpairfull", Topic.MININET, "pingpairfull", "pingpairfull", "the same, with round trips"),
    Help("link", Topic.MININET, "link NODE NODE up|down", "link t0-0@p0 t1-0@p0 down",
          "take the links between two nodes up or down", (Word.NODE, Word.NODE, _UP_DOWN),
          "A fault does the same by the link's name and is listed: fault t0-0:t1-0@p0 down."),
    Help("switch", Topic.MININET, "switch SWITCH start|stop", "switch t1-0@p0 stop",
          "take all ports of a switch up or down", (Word.SWITCH, ("start", "stop"))),
    Help("wait", Topic.MININET, "wait", "wait", "wait until every switch holds its table entries"),
    Help("sh", Topic.MININET, "sh COMMAND", "sh ip -br link show type veth", "run a command on this machine",
          (Word.FILE,)),
    Help("py", Topic.MININET, "py EXPRESSION", "py h1.cmd('ip route')", "evaluate Python; nodes are there by name"),
    Help("px", Topic.MININET, "px STATEMENT", "px print(h1.IP())", "execute a Python statement"),
    Help("source", Topic.MININET, "source FILE", "source lines.mrc", "run the lines of a file", (Word.FILE,)),
    Help("time", Topic.MININET, "time COMMAND", "time write h1 h3 16M", "how long a command takes", (Word.COMMAND,)),
    Help("noecho", Topic.MININET, "noecho HOST COMMAND", "noecho h1 python3",
          "run an interactive command without echo", (Word.NODE, Word.ANY)),
    Help("xterm", Topic.MININET, "xterm HOST...", "xterm h1", "terminals on hosts; needs a display", (Word.NODE,)),
    Help("gterm", Topic.MININET, "gterm HOST...", "gterm h1", "the same with gnome-terminal", (Word.NODE,)),
    Help("x", Topic.MININET, "x HOST [COMMAND]", "x h1 wireshark", "a program with windows on a host", (Word.NODE,)),
    Help("iperf", Topic.MININET, "iperf", "iperf", "refused: hosts have IPv6 only; use write_bw", (Word.HOST,)),
    Help("iperfudp", Topic.MININET, "iperfudp", "iperfudp", "refused, as iperf", (Word.ANY,)),
    Help("dpctl", Topic.MININET, "dpctl", "dpctl", "refused: switches speak P4Runtime; use tables", (Word.ANY,)),
    Help("help", Topic.MININET, "help [COMMAND]", "help write", "this list, or one command", (Word.COMMAND,)),
    Help("exit", Topic.MININET, "exit", "exit", "leave; also quit and Ctrl-D"),
    Help("quit", Topic.MININET, "quit", "quit", "leave"),
    Help("EOF", Topic.MININET, "Ctrl-D", "Ctrl-D", "leave"),
)  # fmt: skip

COMMANDS = {entry.name: entry for entry in (*_OURS, *_MININETS)}
_HIDDEN = ("EOF", "quit", "iperf", "iperfudp", "dpctl")
_ON_HOSTS = (
    "A host's name before a command runs it there, and hosts know each other by name:  h1 ping -c 1 h3, h3-p0\n"
    "'help COMMAND' shows usage and an example; Tab completes commands, nodes, links, tables, flags and files.\n"
    "Links are t0-0:t1-3@p1 and h4@p1; where several are allowed, use patterns: t0-0:t1-*@p1.\n"
    "--json prints what a command lists for programs: pandas.read_json takes it as it is (docs/listings.md)."
)


def overview() -> str:
    """All commands by topic, one line each."""
    lines = []
    for topic in Topic:
        lines.append(f"{topic.value}:")
        entries = [e for e in COMMANDS.values() if e.topic is topic and e.name not in _HIDDEN]
        lines += [f"  {entry.name:<20} {entry.summary}" for entry in entries]
        lines.append("")
    return "\n".join((*lines, _ON_HOSTS))


def describe(entry: Help) -> str:
    """Usage, example and details of one command."""
    head = f"{entry.summary[0].upper()}{entry.summary[1:]}."
    return "\n".join((f"usage:    {entry.usage}", f"example:  {entry.example}", "", head, *filter(None, [entry.more])))
