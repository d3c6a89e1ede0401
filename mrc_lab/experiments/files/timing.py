"""The key ``timing`` of a file: a profile of the time that hosts, NICs and switches take, with values of its own.

``timing: published_testbed``, or a mapping of `profile` (ideal unless given) and fields of
:class:`simulation.hardware_timing.HardwareTiming`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text, a_rate, a_time
from mrc_common.declared.sections import SomeFields
from simulation.hardware_timing import PROFILES, HardwareTiming

_PROFILE = "profile"
_DEFAULT = "ideal"
_LONGEST = 1_000_000_000  # ns
_NAME = Text(tuple(PROFILES))
_FIELDS = SomeFields(
    {
        _PROFILE: _NAME,
        **{
            field.name: a_rate(0) if field.name.endswith("_rate") else a_time(0, _LONGEST)
            for field in fields(HardwareTiming)
        },
    }
)


@dataclass(frozen=True)
class TimingProfile(FieldType):
    """The name of a profile, or a mapping."""

    def read(self, value: Value) -> HardwareTiming:
        """A timing."""
        if not value.is_mapping and not value.is_list:
            return PROFILES[_NAME.read(value)]
        given = dict(_FIELDS.read(value))
        return replace(PROFILES[given.pop(_PROFILE, _DEFAULT)], **given)

    def schema(self) -> JsonSchema:
        """A string, or an object without required keys."""
        return {"anyOf": [_NAME.schema(), _FIELDS.schema()]}
