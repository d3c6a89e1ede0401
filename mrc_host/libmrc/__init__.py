"""``libmrc.so`` in C: the OCP's API for MRC, so that programs written for it run on an emulated NIC.

Its objects are those of our libibverbs (:mod:`mrc_host.libibverbs`), which is built with it and loaded beside it, with
what MRC adds; docs/applications.md says what each function does here. Programs are compiled with the OCP's own headers.
These are not part of this project: what is implemented is declared here again, and a test that is given the OCP's
compares both.

The half for applications (``mrc.h``):

    mrc_types.h, mrc_functions.h   structures, enumerations and constants; functions
    objects.h                      what is kept of each object
    context.c                      devices, versions and contexts
    completion.c                   completion channels and queues
    queue_pair.c                   queue pairs; attributes.c what MRC adds to their states
    hint.c                         queue pair hints
    events.c                       asynchronous events
    requests.c                     requests of the agent, and its refusals as errnos

The half for controllers (``mrc_ctl.h``), by the agent's verbs of :mod:`mrc_host.verbs.remote.control_api_verbs`:

    mrc_ctl_types.h, mrc_ctl_functions.h
    controller.c                   the connection to the controller's socket
    control_device.c               what may be programmed; ports
    ev_format_profile.c, ev_profile.c, ev_entries.c, cc_profile.c; profile_change.c   profiles and their changes
    ev_events.c                    events of entropy values
    endpoint_probes.c              probes of single paths
"""
