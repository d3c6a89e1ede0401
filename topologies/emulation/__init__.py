"""A fabric as Mininet nodes, veth links and processes on one machine.

``build.emulated(fabric)`` is the way in: a context manager that brings everything up, yields a handle and leaves
nothing behind; ``attach.attached(name)`` joins one that is up. Below it, one concern a file: ``requirements`` (can
this machine do it), ``run_directory`` (its lock and the records of what was started), ``namespaces`` and ``interfaces``
(netlink), ``nodes`` (Mininet classes), ``processes`` (children that die with their parent and say when they are ready),
``switch_kind`` and ``switches`` (embedded or BMv2, and their command lines), ``kernel_switch`` (Linux itself),
``deferred_signals`` (Ctrl-C at a safe point) and ``cleanup`` (what a crash left).
"""
