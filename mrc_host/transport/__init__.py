"""The transport between frames and verbs, free of clocks and sockets.

A queue pair (``mrc``) has a ``requester``, which segments writes and recovers losses, a ``responder``, which places
packets as they arrive, and a ``paths`` set, which says which entropy values may be used. ``peer`` holds what all queue
pairs to one NIC share; ``scheduler`` decides which queue pair sends next on a port. ``roce`` is the single-path
baseline, built on the same parts.
"""
