"""Bytes on the wire: everything that knows a bit position lives here, and nothing here knows what a packet means.

``opcodes`` and ``psn`` are numbers; ``headers`` are what data packets carry after UDP, ``control`` what SACKs, NACKs,
probes and endpoint operations carry; ``icrc`` is the checksum over the inner packet; ``encap`` is all that stands
before the BTH (Ethernet, outer and inner IPv6, UDP), written once per path and reused. Plain ``struct``, big endian.
"""
