"""The map of a fabric: from reports of probes to suspected faults, and back to health.

Every time it is asked, each plane's counts are explained (`inference`) over several spans of time, the shortest first:
a cut link shows within a second, one that loses 1 % only over many. A span in which a loss began or ended is left to
the shorter ones. An element is suspected when it is found twice in a row and no rival is nearly as likely, or, where
the probes cannot distinguish two, after `settle`; then the rivals are named with it. Loss and direction are measured
again from then on, and the suspicion is tested again and again in the longest span that began after its first
evidence; its confidence follows. It ends when another explanation does better without it, or when the latest probes
speak as clearly for health (`HEAL`). What was lost before is then forgotten, so that nothing is named for what is over.

How many probes are lost for no reason of the fabric's (`noise`) is measured from the routes that do best.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from controller.path_map.inference import ONE_WAY_PRICE, Finding, PlaneInference
from controller.path_map.likelihood import Likelihood, Strengths
from controller.path_map.plane_model import Floats, PlaneModel, plane_models
from controller.path_map.probe_history import ProbeHistory
from controller.path_map.values import Direction, SuspectedFault
from mrc_host.path_probes import ProbeReport
from topologies.probe_plan import FabricProbePlan

SECOND = 1_000_000_000
CERTAIN = 0.98
HEAL = 7.0  # nats, odds of about 1 to 1000
SURE = 3.0  # nats, odds of 1 to 20: for the direction of a loss
_NOISE_SHARE = 0.6  # of the routes, the best: noise is what these lose
_MIN_RIVAL = 0.1
_MAX_TO_HEAL = 1.6  # strength of 80 % loss: one probe that came through a dead link does not make it healthy
STEADY = 4.0  # nats, odds of 1 to 50: for a loss that began or ended within a span
_STEADY = 4  # the parts of a span that are compared are no shorter than a quarter
_RECENT = SECOND  # in a span no longer than this, few losses hide that they began within it
_LOOKS = 8  # at each span, within its length


@dataclass(frozen=True, slots=True)
class MapSettings:
    """Settings of the mapper; times in ns. Probes are lost without a fault with a probability of `noise` at least.

    `spans` are what is looked at; `grace` is how long a probe may take, `report_timeout` how long a silent receiver is
    waited for, `agent_timeout` when an agent is unreachable. A loss is measured again once it stands out by
    `measurable` nats.
    """

    spans: tuple[int, ...] = tuple(round(s * SECOND) for s in (0.15, 0.5, 1, 2, 4, 8, 16, 32, 64, 128))
    grace: int = SECOND // 5
    report_timeout: int = 2 * SECOND
    agent_timeout: int = 3 * SECOND
    settle: int = 3 * SECOND  # a fault of less than certain confidence is suspected once it was found for so long
    measurable: float = 3.0
    noise: float = 3e-4
    most_noise: float = 0.05  # noise is taken for twice the loss of the best routes, up to this


@dataclass(frozen=True, slots=True)
class RouteCount:
    """Probes over a link in some time, and how many of them were lost, wherever on their way."""

    sent: int
    lost: int


@dataclass(slots=True)
class _Known:
    """A suspected fault, its number among the elements, its strength, and the begin of its evidence."""

    fault: SuspectedFault
    number: int
    strength: float
    onset: int
    losses: float = 0.0  # of probes over it, when it was last measured
    margin: float = math.inf  # over the best explanation without it, when it was named

    @property
    def finding(self) -> Finding:
        return Finding(self.number, self.strength, 0.0)


class _Evidence(NamedTuple):
    """Counts of one plane's routes since a time."""

    since: int
    sent: Floats
    lost: Floats
    counts: Likelihood


class PathMap:
    """The map of one fabric. `now` is in ns of any steady clock, the same one throughout."""

    def __init__(self, plan: FabricProbePlan, settings: MapSettings | None = None) -> None:
        self.plan = plan
        self.settings = settings or MapSettings()
        s = self.settings
        self.history = ProbeHistory(plan, grace_ns=s.grace, report_timeout_ns=s.report_timeout, keep_ns=max(s.spans))
        self._planes = tuple(_Plane(model, self.history, s) for model in plane_models(plan))

    def absorb(self, host: str, report: ProbeReport, now: int, asked: int | None = None) -> None:
        """A host's agent has reported; it was asked for it at `asked` (`now`, if that took no time)."""
        self.history.absorb(host, report, now, asked)

    def update(self, now: int) -> tuple[SuspectedFault, ...]:
        """Judge the probes that are due and think again; returns the suspected faults."""
        self.history.judge(now)
        begins = [now - span for span in self.settings.spans]
        spans = [(since, *counts) for since, counts in zip(begins, self.history.counts_since(begins), strict=True)]
        noise = self._noise(*spans[-1][1:])
        for plane in self._planes:
            plane.think(spans, noise, now)
        return self.suspected

    @property
    def suspected(self) -> tuple[SuspectedFault, ...]:
        """Suspected faults, oldest first."""
        found = [known.fault for plane in self._planes for known in plane.known]
        return tuple(sorted(found, key=lambda fault: (fault.since_ns, fault.name)))

    def unreachable_hosts(self, now: int) -> tuple[str, ...]:
        """Hosts whose agents do not report."""
        limit = now - self.settings.agent_timeout
        return tuple(host for host in self.plan.routes if (self.history.last_report(host) or 0) < limit)

    def link_counts(self, since: int) -> dict[str, RouteCount]:
        """Probes over each link, of those judged at `since` or later."""
        sent, lost = self.history.counts(since)
        found = {link.name: [0, 0] for link in self.plan.fabric.links}
        for route, out, gone in zip(self.plan.all_routes, sent, lost, strict=True):
            for name in {crossing.link for crossing in route.crossings}:
                found[name][0] += int(out)
                found[name][1] += int(gone)
        return {name: RouteCount(*counts) for name, counts in found.items()}

    def _noise(self, sent: Floats, lost: Floats) -> float:
        """Loss of the routes that do best, and never less than the setting."""
        used = sent > 0
        if not used.any():
            return self.settings.noise
        order = np.argsort(lost[used] / sent[used])
        best = order[: max(1, int(len(order) * _NOISE_SHARE))]
        share = float(lost[used][best].sum()) / float(sent[used][best].sum())
        return min(max(self.settings.noise, 2 * share), self.settings.most_noise)


class _Plane:
    """The suspected faults of one plane."""

    def __init__(self, model: PlaneModel, history: ProbeHistory, settings: MapSettings) -> None:
        self.known: list[_Known] = []
        self.numbers = model.numbers
        self._model = model
        self._history = history
        self._settings = settings
        self._inference = PlaneInference(model)
        self._seen: list[dict[str, int]] = [{} for _ in settings.spans]  # found but not named yet, and since when
        self._looked = [0] * len(settings.spans)
        self._same_name: dict[str, list[int]] = {}
        for number, suspect in enumerate(model.elements):
            self._same_name.setdefault(suspect.name, []).append(number)

    def think(self, all_spans: Sequence[tuple[int, Floats, Floats]], noise: float, now: int) -> None:
        """Release what works, measure what is known, and look for more.

        Each span is its begin, and the probes sent and lost since, by route of the fabric; the shortest comes first.
        """
        spans = [self._since(since, sent, lost, noise) for since, sent, lost in all_spans]
        healed = [known for known in tuple(self.known) if self._healed(known, spans)]
        for known in tuple(self.known):
            self._measure(known, noise)
        if healed:  # the spans still hold what was just forgotten
            self._seen = [{} for _ in spans]
            return
        for number, evidence in enumerate(spans):
            if now - self._looked[number] >= self._settings.spans[number] // _LOOKS:
                self._looked[number] = now
                recent = [span for span in spans[:number] if now - span.since >= (now - evidence.since) // _STEADY]
                before, anything = self._seen[number], evidence.counts.rows.size > 0
                self._seen[number] = self._look(evidence, recent, before, now) if anything else {}

    # ---- known faults -------------------------------------------------------------------------------------------

    def _others(self, known: _Known) -> Strengths:
        return {other.number: other.strength for other in self.known if other is not known}

    def _healed(self, known: _Known, spans: Sequence[_Evidence]) -> bool:
        """End the suspicion of something that works again, and forget what it did."""
        others = self._others(known)
        strength = min(known.strength, _MAX_TO_HEAL)
        for since, _sent, _lost, counts in spans:
            if since < known.fault.since_ns and since != spans[0].since:
                return False
            if counts.change(known.number, strength, counts.risk(others)) < -HEAL:
                self._forget(known, since)
                return True
        return False

    def _forget(self, known: _Known, before: int) -> None:
        self.known.remove(known)
        routes = np.zeros(self._history.routes, dtype=bool)
        for number in self._same_name[known.fault.name]:
            routes[self.numbers[self._model.column(number) > 0]] = True
        self._history.erase(routes, before)

    def _measure(self, known: _Known, noise: float) -> None:
        """Loss since it is suspected; direction and confidence from all evidence. Drop it if that speaks for another.

        Only when something more was lost: what arrives meanwhile is judged by :meth:`_healed`.
        """
        whole = self._evidence(known.onset, noise)
        losses = whole.counts.losses(known.number)
        if losses <= known.losses:
            return
        known.losses = losses
        others = self._others(known)
        best = self._best_way(known, whole.counts, whole.counts.risk(others))
        fault = self._suspected_fault(replace(best, margin=known.margin), others, whole.counts, known.fault.since_ns)
        if fault.confidence < 1 - CERTAIN and not known.fault.rivals:
            self.known.remove(known)
            return
        latest = self._evidence(known.fault.since_ns + 1, noise).counts
        risk = latest.risk(others)
        strength = latest.best_strength(best.suspect, risk)
        gain = latest.change(best.suspect, strength, risk)
        if gain < self._settings.measurable:
            strength = best.strength
        known.number, known.strength = best.suspect, strength
        known.fault = replace(fault, loss=-math.expm1(-strength))

    def _evidence(self, since: int, noise: float) -> _Evidence:
        return self._since(since, *self._history.counts(since), noise)

    def _since(self, since: int, all_sent: Floats, all_lost: Floats, noise: float) -> _Evidence:
        sent, lost = all_sent[self.numbers], all_lost[self.numbers]
        return _Evidence(since, sent, lost, Likelihood(self._model, sent, lost, noise))

    def _best_way(self, known: _Known, counts: Likelihood, risk: Floats) -> Finding:
        """Of a link, the direction (or both) that fits best."""
        best, best_gain = known.finding, -math.inf
        for number in self._same_name[known.fault.name]:
            strength = counts.best_strength(number, risk)
            price = ONE_WAY_PRICE if self._model.elements[number].direction is not Direction.BOTH else 0.0
            gain = counts.change(number, strength, risk) - price
            if gain > best_gain:
                best, best_gain = Finding(number, strength, gain), gain
        return best

    # ---- new faults ---------------------------------------------------------------------------------------------

    def _look(
        self, evidence: _Evidence, recent: Sequence[_Evidence], before: dict[str, int], now: int
    ) -> dict[str, int]:
        """Explain what was lost in one span; what is new and clear is suspected. `before` was seen last time.

        `recent` are shorter spans. What began or ended within the span is left to these.
        """
        model, seen = self._model, dict[str, int]()
        doubted = [known for known in self.known if self._begins_with(known, evidence.since, now)]
        findings = self._inference.explain(
            evidence.counts,
            [known.number for known in self.known],
            [known.number for known in doubted],
            now - evidence.since <= _RECENT,
        )
        unsteady = self._unsteady(findings, evidence, recent)
        self._doubt([known for known in doubted if not unsteady @ self._model.column(known.number)], findings)
        for finding in findings:
            name = model.elements[finding.suspect].name
            if any(known.fault.name == name for known in self.known) or unsteady @ model.column(finding.suspect):
                continue
            others = {other.suspect: other.strength for other in findings if other is not finding}
            fault = self._suspected_fault(finding, others, evidence.counts, now)
            first = seen[name] = before.get(name, now)
            if first < now and (fault.confidence >= CERTAIN or now - first >= self._settings.settle):
                known = _Known(fault, finding.suspect, finding.strength, evidence.since, margin=finding.margin)
                self.known.append(known)
                self._replace(finding.suspect, findings)
        return seen

    def _unsteady(self, findings: Sequence[Finding], evidence: _Evidence, recent: Sequence[_Evidence]) -> Floats:
        """By route, how many elements on it lose more, or less, in a recent part of the span than before.

        What several elements lose since the same moment is not independent in a span that began before, so that its
        counts would speak for something else.
        """
        unsteady = np.zeros(len(self.numbers))
        strengths = {finding.suspect: finding.strength for finding in findings}
        for part in recent if findings else ():
            early = Likelihood(self._model, evidence.sent - part.sent, evidence.lost - part.lost, evidence.counts.noise)
            for number, strength in strengths.items():
                others = {other: t for other, t in strengths.items() if other != number}
                gain = 0.0
                for counts in (early, part.counts):
                    risk = counts.risk(others)
                    best = counts.best_strength(number, risk)
                    gain += counts.change(number, best, risk) - counts.change(number, strength, risk)
                if gain > STEADY:
                    unsteady += self._model.column(number)
        return unsteady

    def _begins_with(self, known: _Known, since: int, now: int) -> bool:
        """Whether no longer span than the one that begins at `since` has begun after the evidence for this fault."""
        spans = self._settings.spans
        longer = [span for span in spans if span > now - since]
        return known.onset <= since and (not longer or now - longer[0] < known.onset)

    def _doubt(self, doubted: Sequence[_Known], findings: Sequence[Finding]) -> None:
        """Keep of these what the latest explanation keeps, with its margin."""
        margins = {self._model.elements[finding.suspect].name: finding.margin for finding in findings}
        for known in doubted:
            if known.fault.name in margins:
                known.margin = margins[known.fault.name]
            else:
                self.known.remove(known)

    def _replace(self, newest: int, findings: Sequence[Finding]) -> None:
        """End suspicions that the explanation with the newest one does without, where both are on the same routes."""
        kept = {finding.suspect for finding in findings}
        mine = self._model.column(newest)
        self.known = [
            known for known in self.known if known.number in kept or not mine @ self._model.column(known.number)
        ]

    def _suspected_fault(self, finding: Finding, others: Strengths, counts: Likelihood, since: int) -> SuspectedFault:
        elements = self._model.elements
        chances = self._inference.rivals(others, counts)
        by_name: dict[str, float] = {}
        for suspect, chance in zip(elements, chances, strict=True):
            by_name[suspect.name] = by_name.get(suspect.name, 0.0) + float(chance)
        suspect = elements[finding.suspect]
        own = by_name[suspect.name] / (1 + math.exp(-max(-50.0, finding.margin)))
        rivals = tuple(sorted(n for n, chance in by_name.items() if n != suspect.name and chance > _MIN_RIVAL))
        same = [float(chances[number]) for number in self._same_name[suspect.name] if number != finding.suspect]
        clear = not same or chances[finding.suspect] > math.exp(SURE) * max(same)
        direction = suspect.direction if clear else None
        return SuspectedFault(suspect.part, suspect.name, suspect.plane, direction, finding.loss, own, since, rivals)
