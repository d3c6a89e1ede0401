"""Tests mirror the rooms. What stands in for the rest of the world, from the smallest up; take the first that suffices.

A part of the transport alone:
    ``mrc_host.transport.parts``       a connection, and stand-ins that note what a part asks of its queue pair
    ``mrc_host.transport.bottleneck``  congestion controllers without NICs, in the loop around one queue

One NIC:
    ``mrc_host.transport.far_end``     its peer is the test, which builds every packet and reads every answer

NICs joined in memory, under a clock that moves from event to event:
    ``mrc_host.wires``                 `World`: delay, loss, damage, dead paths and planes by plain attributes
    ``mrc_host.congested_world``       the same with a queue before each port, which marks and trims
    ``mrc_host.nics_in_memory``        such NICs in real time behind agents' sockets, for programs of several processes
    ``simulation.worlds``              the product's simulated world: switches that run the P4 program, faults by name

What the product has in C alone:
    ``models``                         the same, naive and readable, to compare with on random input

What stands on NICs, without packets:
    ``mrc_host.fake_nic``              a NIC's commands; a test decides when posts complete, and sees what was asked
    ``mrc_host.agent.conftest``        two agents on such NICs, over their sockets; clients are in ``agent.clients``
    ``mrc_lab.workloads.collectives.fakes``  verbs that place writes in any order, and see memory changed too soon
    ``mrc_lab.demo.world``             a fabric for the demo, on those verbs
    ``mrc_lab.web.fake_fabric``        a fabric for the live view that is only values, behind the product's server;
                                       ``mrc_lab.web.browser`` opens it in Chromium

Switches and the controller:
    ``p4src.device``                   a switch with the fabric's program
    ``p4runtime_shim.builder``         programs of any shape, and ``p4runtime_shim.server.world`` a server with one
    ``controller.p4runtime_stand_in``  a P4Runtime server that only remembers
    ``controller.driven``              the fault injector in virtual time, over links and switches that only remember
    ``controller.serving``             the whole controller on those, behind its socket

Real interfaces (root): ``integration.wires`` are veth pairs for a switch process, ``mrc_host.back_to_back`` of the
product two hosts without a switch, and ``integration.terminal`` a prompt on a terminal. ``waiting`` waits for what no
event announces; ``budget`` prints what the tests of each room cost.
"""
