"""Bytes on the wire: everything that knows bit positions, and nothing that knows what a packet means.

``opcodes`` and ``psn`` are numbers; ``headers`` has what data packets carry after UDP, ``control`` what SACKs, NACKs,
probes and endpoint operations carry. Plain ``struct``, big endian. ``encap`` is everything before the BTH (Ethernet,
outer and inner IPv6, UDP), whose bytes the datapath in C writes and reads.
"""
