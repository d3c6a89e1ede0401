"""Limits on what a client or a program can make large: memory use, and the time that others wait.

Each is far above what real programs and controllers use (the fabric's: 0.3 MB of JSON, some thousand entries). What
exceeds one is rejected: a program with INVALID_ARGUMENT, a request or a client with RESOURCE_EXHAUSTED. docs/switch.md
lists them. The compiler's limits are in mrc_common/c_build/compiler.py; the engine limits the work per packet.
"""

from __future__ import annotations

# --- a program: BMv2 JSON and P4Info

MAX_PROGRAM_BYTES = 16 << 20
MAX_P4INFO_BYTES = 4 << 20
MAX_HEX_DIGITS = 1024  # of a constant
MAX_VALUE_BITS = 2048  # of a field, parameter, register cell, constant input of a hash
MAX_LOOKAHEAD_BITS = 1 << 19  # from the parser's position: the longest frame
MAX_HEADERS_BYTES = 64 << 10  # all headers and metadata of a packet; also of those that the deparser emits
MAX_EXPRESSION_DEPTH = 100
MAX_STATE_BYTES = 256 << 20  # counters, meters and registers together
MAX_LEAVES = 1024  # members of one value of a struct type, those of structs within included
MAX_STACK_ELEMENTS = 1024
MAX_KEY_WORDS = 1024  # of 64 bits, of a table's key
MAX_HASH_BYTES = 64 << 10  # of input of a hash, beside the payload
MAX_STEPS = 1 << 20  # of one pass through the program without loops (codegen/cost.py): about 10 ms
MAX_PACKET_HEADER_BYTES = 1024  # packet_in, packet_out

# --- what is written

MAX_MESSAGE_BYTES = 24 << 20  # per request: a program and its P4Info
MAX_UPDATES = 16_384  # of one Write, members of value sets included; each takes some 40 microseconds
MAX_ENTRIES = 1 << 18  # of all tables of a switch
MAX_METADATA_BYTES = 1024  # of a table entry
MAX_MEMBERS = 1 << 16  # of an action profile, unless the program has a lower limit; also of its groups
MAX_SLOTS = 1 << 20  # weights of all groups of an action profile, added up
MAX_REPLICAS = 1 << 18  # of all multicast groups and clone sessions of a switch
MAX_UNDO_CELLS = 1 << 16  # cells of arrays that one Write may have to restore (ROLLBACK_ON_ERROR)
MAX_FILLED_CELLS = 1 << 26  # cells that one Write may set with wildcards

# --- what is read

MAX_READS = 1024  # entities that one Read asks for
MAX_READ_CELLS = 1 << 22  # entries and cells that one Read may find; a value of more than 16 bytes counts as several
MAX_READING_CELLS = 1 << 23  # the same, of all Reads in progress in the process
MAX_READ_WAIT_S = 60  # for a client to take the next part of what it reads

# --- clients

MAX_CALLS = 8192  # in progress in the process, streams included
MAX_CONNECTIONS = 1024
MAX_STREAMS = 256  # to one device, all roles together
MAX_IDLE_STREAMS = 256  # in the process, without arbitration so far
MAX_IDLE_S = 30  # for a stream to send its arbitration
MAX_ROLES = 64  # of a device; one without clients makes room for another
MAX_ROLE_NAME = 256  # characters
MAX_WAITING_MESSAGES = 1024  # queued for a stream's client; more are dropped and counted
MAX_WAITING_BYTES = 4 << 20  # the same in bytes
MAX_DIGESTS = 4096  # messages in one list, whatever the client asks for
MAX_DIGESTS_SENT = 65_536  # messages of a digest without acknowledgement; then the oldest may be sent again
MAX_PACKET_OUT_BYTES = 64 << 10
MAX_CONFIGS = 4  # pipeline configs queued for one device
