import subprocess
import sys

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
