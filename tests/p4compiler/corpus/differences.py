"""What of p4c's corpus this compiler does otherwise, by name: what it refuses and why, and where its output differs.

Names are those of the files in p4c's testdata/. `test_corpus` fails when one is refused that is not listed here, and
when one that is listed is not refused any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

REFUSED: Final[Mapping[str, str]] = {
    "array1": "a stack of bit<8>: only headers and header unions can be in a stack",
    "array2": "a stack of bit<8>: only headers and header unions can be in a stack",
    "extern-funcs-bmv2": "extern function 'extern_func' is not known to this target",
    "invalid-hdr-warnings6": "an element of a stack of header unions by an index that is not known is not supported",
    "issue1193-bmv2": "extern 'jnf_counter' is not known to this target",
    "issue1304": "architecture 'Switch' is not supported; only v1model's V1Switch is",
    "issue1882-1-bmv2": "extern 'ExternCounter' is not known to this target",
    "issue1882-bmv2": "extern 'ExternCounter' is not known to this target",
    "issue2344": "table 'simple_table' is applied in two places with different code after them; BMv2 has it once",
    "issue2664-bmv2": "extern 'Checksum' is not known to this target",
    "issue3091": "'exact' cannot be used here",
    "issue3225": "a field of type int<1> is not supported on this target",
    "issue692-bmv2": "a field of stack.next cannot be used",
    "issue841": "extern 'Checksum16' is not known to this target",
    "issue887": "only emit() is supported in a deparser",
    "issue907-bmv2": "a register of struct S: writing to a structure is not supported on this target",
    "issue986-bmv2": "table 't1' is applied in two places with different code after them; BMv2 has each table once",
    "next-def-use": "stack.next can only be extracted to",
    "parser-unroll-test1": "extraction to an element of a stack that is not 'next' is not supported",
    "parser-unroll-test3": "header srcRoute_t has 17 bits; this target parses and emits whole bytes",
    "parser-unroll-test4": "header srcRoute_t has 17 bits; this target parses and emits whole bytes",
    "parser-unroll-test5": "header srcRoute_t has 17 bits; this target parses and emits whole bytes",
}
"""Programs that are refused here, and the first error."""

OTHER_P4INFO: Final = frozenset(
    {
        "global_action_after_exit",
        "issue2735-bmv2",
        "structured_annotations",
    }
)
"""Programs whose P4Info is not p4c's."""

OTHER_ERRORS: Final[Mapping[str, str]] = {
    "init-entries-error1-bmv2": "another line",
    "init-entries-error3-bmv2": "another line",
    "issue1803_same_table_name": "another line",
    "issue3299": "compiles",
    "issue5296_invalid_version": "another line",
    "issue5296_unknown_version": "another line",
}
"""Wrong programs that have no error here, or none at a line that p4c names."""

OTHER_BEHAVIOUR: Final[Mapping[str, str]] = {
    "gauntlet_short_circuit-bmv2": "an out parameter that nobody assigns has no defined value",
    "gauntlet_side_effects_in_mux-bmv2": "an out parameter that nobody assigns has no defined value",
    "issue2726-bmv2": "a stack is indexed beyond its end, which has no defined result",
    "runtime-index-bmv2": "a stack is indexed beyond its end, which has no defined result",
}
"""Programs that do something else after p4c's midend, and why that is no mistake."""
