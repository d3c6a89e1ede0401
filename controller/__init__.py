"""The controller: static table entries over P4Runtime, faults on links, and the service that offers both.

For MRC switches are programmed once and do not react to anything; whatever adapts lives in the NICs. ``translate``
turns the neutral entries of ``topologies.entries`` into P4Runtime and back, ``fleet`` keeps every switch connected, and
``fleet_switch`` keeps one programmed and verified. ``rerouting`` changes routes of plain IPv6 where a fabric asks for
it. ``links`` takes links down and up, ``injector`` makes and clears faults: it drives the engine in
``topologies.faults``. ``service`` is the gRPC service (``proto/controller_v1.proto``) over all of them, ``client`` its
blocking client.
"""
