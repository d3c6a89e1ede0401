"""The live view: ``mrc web`` shows a fabric that is up as a page, and takes clicks for faults and transfers.

Samplers (``link_sampler``, ``switch_sampler``, ``path_sampler``, ``fabric_events``) read the fabric while somebody
watches and put what they find into a ``feed``. The feed keeps the newest state (``records``) and hands each browser
what has changed since that browser last took something. ``server`` sends it as server-sent events and takes actions,
which ``actions`` carries out through the controller, as ``mrc fault`` does, or starts as ``jobs``. ``static`` is the
page; ``recording`` writes it with its records into a file. Commands that bring a fabric up start it as a process
(``mrc_lab.fabric.live_view``).
``result_recording`` makes the same records of the result folder of a run, and ``player_page`` plays recordings, two at
a time, with the report beside them.
"""
