"""The transport between frames and verbs, free of clocks and sockets.

A queue pair (``mrc``) has a ``requester`` that segments writes and recovers losses, a ``responder`` that places
packets as they come, and a ``paths`` set that says which entropy values may be used. ``peer`` holds what all queue
pairs towards one NIC share; ``scheduler`` decides who sends on a port that asks. ``roce`` is the single-path baseline
over the same parts.
"""
