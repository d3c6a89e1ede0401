"""A software MRC NIC: wire formats, transport, device, verbs and the raw-socket host agent.

Read in this order: ``values`` and ``config`` (what everything else passes around), ``wire`` (bytes), ``transport``
(requester, responder, paths), ``nic`` (the device that joins them), then ``verbs`` above it and ``driver`` below it.
"""
