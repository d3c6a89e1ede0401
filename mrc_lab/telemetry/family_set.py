"""A set of metric families with their values, as prometheus_client prints them.

Prometheus calls all series of one name a family. Whoever has a value adds it with the family's declaration, so a family
without values does not appear. Units are Prometheus' base units, bytes and seconds; a counter ends in ``_total``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)


@dataclass(frozen=True, slots=True)
class Family:
    """A declared family: its name (a counter's ends in ``_total``), what it means, and the names of its labels."""

    name: str
    meaning: str
    labels: tuple[str, ...] = ()

    @property
    def is_counter(self) -> bool:
        """Whether its values only grow while the process that counts them lives."""
        return self.name.endswith("_total")


class FamilySet:
    """Families with their values, in the order in which they were first added."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def collect(self) -> Iterator[Metric]:
        """All families: what makes this a collector of prometheus_client."""
        return iter(self._families.values())

    def add(self, family: Family, labels: Iterable[object], value: float) -> None:
        """A value of a counter or gauge, with the values of its labels."""
        metric = self._families.get(family.name)
        if metric is None:
            make = CounterMetricFamily if family.is_counter else GaugeMetricFamily
            metric = self._families[family.name] = make(family.name, family.meaning, labels=family.labels)
        assert isinstance(metric, (CounterMetricFamily, GaugeMetricFamily))
        metric.add_metric([str(label) for label in labels], value)

    def add_histogram(
        self, family: Family, labels: Iterable[object], buckets: Iterable[tuple[float, int]], total: float
    ) -> None:
        """A histogram: for each upper bound how many values lie below it and above the one before; their sum."""
        metric = self._families.get(family.name)
        if metric is None:
            metric = self._families[family.name] = HistogramMetricFamily(
                family.name, family.meaning, labels=family.labels
            )
        assert isinstance(metric, HistogramMetricFamily)
        below = 0
        cumulative: list[tuple[str, float]] = []
        for bound, count in buckets:
            below += count
            cumulative.append(("+Inf" if bound == float("inf") else repr(bound), below))
        metric.add_metric([str(label) for label in labels], cumulative, total)
