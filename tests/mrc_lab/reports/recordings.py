"""Recordings made by hand, whose figures are known."""

from dataclasses import replace

import numpy as np

from mrc_lab.experiments.files import load_text
from mrc_lab.experiments.running.recording import FaultSpan, FlowInfo, MessageRecord, PathRecord, PortRecord, Recording
from mrc_lab.reports.metric_table import MetricTable

HEAD = """\
title: made by hand
fabric: {hosts: 4, planes: 2, t0: 2, t1: 2, rate: 100G}
workload: {kind: write_bw, pairs: [h1>h3, h2>h4]}
duration: 100us
measure: {bin: 10us, warmup: 10us}
"""


def experiment(expect="[]", head=HEAD):
    return load_text(f"{head}expect: {expect}\n", name="hand")


def metrics(recordings):
    """Metrics of recordings by name, each of the same case."""
    (case,) = experiment().cases
    return MetricTable([replace(case, name=name) for name in recordings], recordings)


def recording(rates=((10, 30),) * 10, **changes):
    """Two flows; `rates` are packets of 1000 bytes in each bin of 10 us, so 1 is 0.8 Gb/s."""
    received = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(np.array(rates), axis=0)])
    samples = np.zeros((len(received), 2, 6), np.int64)
    samples[:, :, 0] = samples[:, :, 1] = received
    channels = ("h1@p0>", "h1@p0<", "t0-0:t1-0@p0>", "t0-0:t1-0@p0<")
    links = np.zeros((len(received), 4, 3), np.int64)
    links[:, 0, 0] = received[:, 0]
    links[:, 0, 1] = links[:, 2, 1] = received[:, 0] * 1000
    links[5:, 3, 2] = 7
    values = {
        "case": "only",
        "times": np.arange(len(received), dtype=np.int64) * 10_000,
        "flows": (FlowInfo("h1>h3", "h1", "h3", 1, 1000.0), FlowInfo("h2>h4", "h2", "h4", 1, 1000.0)),
        "flow_samples": samples,
        "channels": channels,
        "link_samples": links,
        "messages": tuple(MessageRecord(n % 2, 1000 * n, 1000 * n + 5000 + 100 * n, 4096, True) for n in range(90)),
        "paths": (
            PathRecord(45_000, 0, "h1", 5, 3, 0, "good", "assumed_bad", "loss", 41_000),
            PathRecord(46_000, 1, "h2", 5, 3, 0, "good", "assumed_bad", "loss", 40_000),
            PathRecord(75_000, 0, "h1", 5, 3, 0, "assumed_bad", "good", "probe", None),
        ),
        "ports": (PortRecord(41_000, "h1", 0, False, True),),
        "operations": (),
        "faults": (FaultSpan("link_down", "link down h1@p0", 40_000, 60_000, ("h1@p0",)),),
        "bad_paths": 1,
        "trimmed": {"t0-0:t1-0@p0>": 12},
        "drops": {"port_down": 3},
        "errors": (),
        "wrong_bytes": 0,
        "checked_bytes": 8192,
        "nic_bps": 200 * 10**9,
        **changes,
    }
    return Recording(**values)
