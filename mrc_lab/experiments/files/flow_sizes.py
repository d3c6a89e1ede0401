"""The key `sizes` of random flows: a published distribution by name, one size for all, or a file of a distribution.

A file has lines of a size in bytes and the percentage of flows up to it, as those of HPCC's and ns-3's traffic
generators do.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mrc_common import named_files
from mrc_common.declared.document import Value
from mrc_common.declared.field_types import FieldType, JsonSchema, Text, a_size
from mrc_common.suggestions import did_you_mean
from mrc_lab.experiments.files.copied_files import copy_beside
from mrc_lab.published import flow_sizes
from mrc_lab.published.flow_sizes import MAX_FLOW, SizeDistribution

_SIZE = a_size(1, MAX_FLOW)


@dataclass(frozen=True, slots=True)
class FlowSizes:
    """A distribution as a file names it; `file` is where it was read, None of those that are built in."""

    written: str
    distribution: SizeDistribution
    file: Path | None = None

    def copy_to(self, folder: Path) -> None:
        """Put a copy where the copy of the experiment looks for it; ExperimentError when that does not work."""
        if self.file is not None:
            copy_beside(self.written, (self.file,), folder)


@dataclass(frozen=True)
class FlowSizesType(FieldType):
    """A name, a size or a file."""

    def read(self, value: Value) -> FlowSizes:
        """The distribution; FileError names the line of a file that is wrong."""
        word = value.text().strip()
        known = flow_sizes.load()
        if word in known:
            return FlowSizes(word, known[word])
        place = Path(value.source.name).parent / word
        if word[:1].isdigit() and not place.is_file():
            return FlowSizes(word, flow_sizes.fixed(_SIZE.read(value)))
        if not place.suffix and not place.is_file():
            hint = did_you_mean(word, known, most=1, cutoff=0.6) or f"known are {', '.join(known)}"
            raise value.error(
                f"{word[:80]!r} is unknown; {hint}; or give a size such as 64K, or a file of a distribution"
            )
        try:
            return FlowSizes(word, flow_sizes.parse(word, named_files.read_text(place).splitlines()), place)
        except OSError as error:
            raise value.error(f"{place} cannot be read: {error.strerror}") from None
        except UnicodeDecodeError:
            raise value.error(f"{place} is not a text file in UTF-8") from None
        except ValueError as error:
            raise value.error(f"{place}, {error}") from None

    def schema(self) -> JsonSchema:
        """Any text, or a size; the names are examples."""
        return {**Text().schema(), "examples": [*flow_sizes.load(), "64K", "my_sizes.txt"]}
