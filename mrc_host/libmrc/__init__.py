"""``libmrc.so`` in C: the OCP's API for MRC (``mrc.h``), so that programs written for it run on an emulated NIC.

Its objects are those of our libibverbs (:mod:`mrc_host.libibverbs`), which is built with it and loaded beside it, with
what MRC adds; docs/applications.md says what each function does here. Programs are compiled with the OCP's own headers.
These are not part of this project: what is implemented is declared here again, and a test that is given the OCP's
compares both.

    mrc_types.h, mrc_functions.h   the API: structures, enumerations and constants; functions
    objects.h                      what is kept of each object
    context.c                      devices, versions and contexts
    completion.c                   completion channels and queues
    queue_pair.c                   queue pairs; attributes.c what MRC adds to their states
    hint.c                         queue pair hints
    events.c                       asynchronous events
"""
