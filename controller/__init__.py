"""The controller: static table entries over P4Runtime, faults on links, and the service that offers both.

Switches are programmed once and do not react to anything; whatever adapts lives in the NICs. ``translate`` turns the
neutral entries of ``topologies.entries`` into P4Runtime and back, ``reconcile`` compares what should be with what is,
``fleet`` keeps every switch connected, programmed and verified. ``links`` takes links down and up, ``injector``
makes and clears faults: it drives the engine in ``topologies.faults``. ``service`` is the gRPC service
(``proto/controller_v1.proto``) over all of them, ``client`` its blocking client.
"""
