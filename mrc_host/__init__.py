"""A software MRC NIC: wire formats, transport, device, verbs and the raw-socket host agent.

Read in this order: ``values`` and ``config`` (data passed between all layers), ``wire`` (bytes), ``transport``
(requester, responder, paths), ``nic`` (the device made of these), then ``verbs`` above it and ``driver`` below it.
"""

from mrc_host import c_modules

c_modules.make_importable()
