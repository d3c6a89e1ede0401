import subprocess
import sys

import pytest

from p4runtime_shim.config import ProcessSettings, SwitchSettings
from p4runtime_shim.port_driver import SHARED_MEMORY, Wires, shared_block, shared_slots
from p4runtime_shim.switch_process import fast_interfaces

# What the C library holds as mappings of their own (mallinfo2's `hblks`), after a larger block has been freed once.
MAPPED_BLOCKS = """
import ctypes
from p4runtime_shim.switch_process import return_large_blocks
class Info(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in "arena ordblks smblks hblks hblkhd a b c d e".split()]
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
libc.mallinfo2.restype = Info
return_large_blocks()
libc.free(libc.malloc(4 << 20))
before = libc.mallinfo2().hblks
libc.malloc(1 << 20)
print(libc.mallinfo2().hblks - before)
"""


def test_freed_large_blocks_are_returned_to_the_kernel() -> None:
    run = subprocess.run([sys.executable, "-c", MAPPED_BLOCKS], capture_output=True, text=True, check=True)
    assert run.stdout == "1\n", "a mapping of its own, which free() unmaps"


def test_ports_of_fast_links_whose_frames_pass_the_kernel_are_fast() -> None:
    ports = {number: f"eth{number}" for number in range(1, 7)}
    rates = {1: 499_999_999, 2: 500_000_000, 3: 0, 4: 25_000_000, 6: 10**9}
    settings = ProcessSettings(
        switches=(SwitchSettings(ports=ports, rates=rates), SwitchSettings(ports={1: "eth7"})),
        wires=Wires(joined=[("eth6", "eth7")]),
    )
    assert fast_interfaces(settings) == ["eth2", "eth3", "eth5"]


@pytest.mark.parametrize(
    ("max_frame", "ports", "least"),
    [
        *((9216, ports, least) for ports, least in [(0, 2048), (13, 2048), (14, 1990), (27, 1024), (28, 0), (500, 0)]),
        *((64, ports, least) for ports, least in [(1, 2048), (1000, 1024)]),
        *((65535, ports, least) for ports, least in [(1, 1024), (3, 0)]),
        (17000, 10, 0),
        (33000, 7, 0),
    ],
)
def test_fast_ports_share_a_bounded_amount_of_memory(max_frame: int, ports: int, least: int) -> None:
    slots, (size, block) = shared_slots(ports, max_frame), shared_block(max_frame)
    assert least <= slots <= 2048
    assert slots or not least
    assert size > max_frame
    blocks = -(-slots // (block // size))  # as packet_ring_map takes them
    assert blocks * block * ports <= SHARED_MEMORY
