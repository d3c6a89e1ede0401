"""Memory of the native core's process: small objects in huge pages, and what is free is given back."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from simulation import native_core

SCRIPT = """
import gc, re, resource
from simulation import native_core

before = [str(number) for number in range(100_000)]
assert not native_core.unavailable()

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

def may_be_huge(one):
    inside = False
    for line in open("/proc/self/smaps"):
        if found := re.match("([0-9a-f]+)-([0-9a-f]+) ", line):
            inside = int(found[1], 16) <= id(one) < int(found[2], 16)
        elif inside and line.startswith("VmFlags:"):
            return "hg" in line.split()

small = resident()
objects = [str(number) for number in range(3_000_000)]
large = resident()
print(may_be_huge(objects[-1]), large - small > 100)
del objects
gc.collect()
print(resident() - small < (large - small) / 4)
del before
gc.collect()
again = [str(number) for number in range(1_000_000)]
print(again[-1], sum(map(len, again)) > 0)
"""


@pytest.mark.skipif(bool(native_core.unavailable()), reason="no extension can be compiled here")
@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="this kernel has no huge pages")
def test_objects_of_a_world_are_where_huge_pages_may_be_and_their_memory_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True", "True", "999999", "True"]


FRAMES = """
import resource
from simulation import native_core
from topologies.clos import multi_plane_clos

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20

core = native_core.core_for(multi_plane_clos(planes=1, t0=1, t1=1, hosts=2), 100)
clock, left = core.clock(), 1 << 18

def handle(a, b):
    global left
    left -= 1
    if left:
        clock.at(clock.now + 1, handle)

small = resident()
def look():
    global left
    left = 1 << 18
    clock.at(clock.now + 1, handle)
    clock.run()

def burst():
    frames = [bytes(4200) for _ in range(50_000)]
    return frames[::100], resident() - small

kept, large = burst()
freed = resident() - small
with native_core.frame_memory_kept():
    look()
    left_alone = resident() - small
look()
print(large > 180, freed > 150, left_alone > 150, resident() - small < 40, sum(map(len, kept)))
later = []
for _ in range(8):  # given back, used and freed again
    burst()
    look()
    later.append(resident() - small)
print(min(later) < 60)
"""


@pytest.mark.skipif(bool(native_core.unavailable()), reason="no extension can be compiled here")
@pytest.mark.skipif("glibc" not in platform.libc_ver(), reason="other C libraries do as they like")
def test_what_frames_have_left_is_given_back_while_a_world_runs() -> None:
    done = subprocess.run([sys.executable, "-c", FRAMES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["True", "True", "True", "True", str(500 * 4200), "True"]
