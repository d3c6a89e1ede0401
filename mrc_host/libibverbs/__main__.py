"""``python -m mrc_host.libibverbs``: build the library where that is possible, and say where it is or why it is not."""

import sys

from mrc_common.c_build.errors import CBuildError
from mrc_host.libibverbs.build import build

try:
    print(build())
except CBuildError as error:
    sys.exit(f"Programs for RDMA, such as ib_write_bw, will find no NIC in hosts, as libibverbs was not built. {error}")
