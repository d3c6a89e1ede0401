"""Schedules: what each rank of an application sends, receives and computes, and what waits for what.

`schedule` has the value and its checks, `goal` reads it from files of other tools, `messages` are sends and receives
over the NIC's verbs, and `replay` runs a schedule.
"""
