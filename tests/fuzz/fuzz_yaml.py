"""Experiment files into the loader: the published ones with lines, words, brackets and anchors changed, and noise.

Whatever the text, the loader returns an experiment or raises FileError with a message, soon and in little memory.
"""

from __future__ import annotations

import random
import re
import time
from pathlib import Path

import examples
import mrc_lab.paper
from mrc_lab.experiments.files import FileError, load_text

MAX_SECONDS = 5.0  # of processor time, for one file
WORDS = (
    "null", "true", "-1", "0", "1e400", "99999999999999999999", "nan", ".inf", "''", "'\\0'", "[]", "{}", "[[[[", "}}",
    "&a", "*a", "<<: *a", "!!python/object/apply:os.system [id]", "!!binary aGk=", "1s", "1h", "999999G", "h1>h1",
    "h999", "h*@p*", "'h[12]'", "'h[1-99]'",
    "'h{1,2}'", "'h[1'", "../../x", "only", "2026-11-22", "0x10", "? x", "- -", "\t", "|", ">", "%", "@", "`",
)  # fmt: skip


TENANTS = """\
fabric: {planes: 2, pods: 2, t0: 2, t1: 2, t2: 2, hosts: 8, pfc: yes,
  links: {t1-t2: {rate: 50G, delay: 5us}, "t0-0:t1-1@p0": missing}}
duration: 200us
measure: {queues: yes}
transport: {qps: 2, settings: {probe_successes: 1}}
workloads:
  - {name: web, kind: write_bw, pairs: [h1>h5, {pair: h2>h6, message: 4K, qps: 3, start: 10us}], start: 20us}
  - {name: ai, kind: training, steps: 1, gradients: 64K, compute: 10us, hosts: [h1, h2], jitter: 10%,
     transport: {type: rc, qps: 1}, stragglers: {hosts: h2, slowdown: 1.5, share: 50%}}
variants:
  - {name: a, workloads: [{name: web, transport: {evs: 1}}]}
  - {name: b, workloads: [{name: new, kind: incast, target: h1, sources: "h[3-8]", starts: [1us, 2us]}]}
report:
  - {metric: queue_depth, of: {link: "h*@p0<", over_links: sum, statistic: p99}}
  - {metric: throughput, of: {tenant: web}}
"""
SIZES = """\
fabric: {hosts: 4, t0: 2, t1: 2}
duration: 200us
workload: {kind: write_bw, pairs: h1>h3}
sizes: [4K, 64K, 1M]
variants: [{name: mrc}, {name: ring, workload: {kind: collective, operation: all_reduce, bytes: 8K, compute: 5us}}]
"""


class Fuzzer:
    """Begins from the files of the published experiments and examples, and from two that use what they do not."""

    def __init__(self) -> None:
        folders = Path(mrc_lab.paper.__path__[0]), Path(examples.__path__[0])
        published = [path.read_text("utf-8") for folder in folders for path in sorted(folder.glob("*.yaml"))]
        self._seeds = [*published, *[TENANTS, SIZES] * (len(published) // 4)]

    def case(self, chance: random.Random) -> None:
        text = self._text(chance)
        start = time.process_time()
        message = "accepted"
        try:
            load_text(text, source="fuzz")
        except FileError as error:
            message = str(error).strip()
        assert 0 < len(message) < 2000, "no message, or one that nobody reads"
        took = time.process_time() - start
        assert took < MAX_SECONDS, f"loading took {took:.1f} s of processor time"

    def close(self) -> None:
        pass

    def _text(self, chance: random.Random) -> str:
        kind = chance.randrange(12)
        if kind == 0:
            return "".join(
                chance.choice("{}[]:,-&*!|>'\"\n a1#%@`\t\u2028\ufeff") for _ in range(chance.randrange(400))
            )
        if kind == 1:  # aliases that multiply
            lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
            lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, chance.randint(2, 12))]
            return "\n".join(lines)
        if kind == 2:
            return chance.choice("[{") * chance.choice([10, 1000, 50_000])
        text = chance.choice(self._seeds)
        for _ in range(chance.randint(1, 4)):
            text = self._changed(text, chance)
        return text

    def _changed(self, text: str, chance: random.Random) -> str:
        tokens = re.split(r"(\s+|[{}\[\]:,])", text)
        at = chance.randrange(len(tokens))
        kind = chance.randrange(5)
        if kind == 0:
            tokens[at] = chance.choice(WORDS)
        elif kind == 1:
            del tokens[at : at + chance.randint(1, 8)]
        elif kind == 2:
            tokens[at:at] = tokens[chance.randrange(len(tokens)) :][: chance.randint(1, 30)]
        elif kind == 3:
            other = re.split(r"(\s+|[{}\[\]:,])", chance.choice(self._seeds))
            tokens[at] = chance.choice(other)
        else:
            numbers = [i for i, token in enumerate(tokens) if token[:1].isdigit()] or [at]
            tokens[chance.choice(numbers)] = chance.choice(WORDS)
        return "".join(tokens)
