"""C that is compiled where it runs, unless an installation has brought it.

``compiler`` runs the C compiler as a child with limited resources. ``shared_object`` compiles C into a shared object of
the user's cache (``object_cache``), named by a hash of everything that decides its content. ``extension`` describes
modules of Python that are written in C, and makes them importable: prebuilt ones are used if they were made from these
sources, all others are compiled when they are first imported.

The NIC's datapath and driver (``mrc_host.c_modules``), the simulation's core, the embedded switch's engine and its P4
programs (``p4runtime_shim.build``) and libibverbs (``mrc_host.libibverbs.build``) are built by these.
"""
