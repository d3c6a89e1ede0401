"""Small experiment files for tests."""

SMALL = """\
title: a small one
fabric: {planes: 2, t0: 2, t1: 4, hosts: 4, rate: 100G}
transport: {qps: 2, attributes: {mpr: 9}}
workload: {kind: write_bw, pairs: h1>h3, bidirectional: yes, message: 64K}
duration: 120us
faults:
  - {kind: link_down, at: 40us, until: 80us, link: h1@p0}
measure: {bin: 10us, warmup: 20us}
expect:
  - {metric: throughput, relation: about, value: 383G, tolerance: 5%,
     of: {statistic: median, end: 40us}, published: {value: 383G, certainty: D}}
"""

VARIANTS = """\
fabric: {hosts: 4, t0: 2, t1: 2}
workload: {kind: permutation, shift: 2, message: 16K}
duration: 60us
variants:
  - name: one
    transport: {type: rc}
  - name: two
    transport: {type: rc, qps: 4}
    workload: {message: 32K}
  - name: three
    workload: {kind: incast, target: h1, sources: [h3, h4]}
"""
