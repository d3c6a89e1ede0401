"""The one description of a fabric, and everything that is derived from it.

Read in this order: ``fabric`` (the frozen value everything else takes as a parameter), ``clos`` and ``loader`` (how
one is made, from numbers or from a YAML file), ``addressing`` (uSIDs, IPv6 addresses, MACs, interface names),
``entries`` (what each switch's tables hold), ``paths`` (the configuration of each NIC). ``emulation`` turns the value
into Mininet nodes, veth links and processes.
"""
