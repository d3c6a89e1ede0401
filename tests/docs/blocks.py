"""The fenced blocks of the pages in docs/ and of those in the project's root, and where each command in them is run.

A block says where it is run by the word behind its language (docs/README.md). A line marked `elsewhere` stands in
:data:`ELSEWHERE` with the test that runs it, or with the reason why no test can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = (
    *(f"../{page.name}" for page in sorted(ROOT.glob("*.md"))),
    *sorted(str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")),
)
KINDS = (
    "sh anywhere",
    "python anywhere",
    "mrc",
    "sh fabric",
    "python fabric",
    "sh elsewhere",
    "sh tutorial",
    "python tutorial",
    "yaml",
    "yaml fabric",
    "python file",
    "yaml file",
    "text",
)

ELSEWHERE = {
    "sudo apt-get install git make": "it changes the machine that runs the tests",
    **dict.fromkeys(
        ("sudo groupadd --system mrc", "sudo usermod -aG mrc alice"),
        "it changes the machine that runs the tests; tests/mrc_host/agent/test_two_sockets.py has a group of its own",
    ),
    "sudo make demo": "tests/integration/test_demo.py",
    'sudo make demo ARGS="--hosts 8 --planes 4"': "tests/integration/test_demo.py",
    "sudo make demo ARGS=--web": "tests/integration/test_demo_web.py",
    'sudo make demo ARGS="--job torch"': "tests/integration/test_demo_pytorch.py",
    "sudo .venv/bin/python examples/elastic.py lab --steps 100 --checkpoint /tmp/gpt.pt": (
        "tests/integration/test_torch_elastic.py"
    ),
    **dict.fromkeys(
        (
            "make bench-sim",
            'make bench-sim ARGS="--htsim /opt/csg-htsim/sim/datacenter/htsim_eqds"',
            "make bench-sim ARGS=--history",
            "make cross-check HTSIM=/opt/uet-htsim/htsim/sim/datacenter",
        ),
        "it measures for minutes; tests/benchmarks/ has what surrounds it",
    ),
    **dict.fromkeys(
        ("mrc run perm_128n_128c_2MB.cm", "mrc run perm_128n_128c_2MB.cm --topo fat_tree_128_4os.topo"),
        "the files are htsim's; tests/mrc_lab/experiments/files/test_from_htsim.py has some like them",
    ),
    **dict.fromkeys(
        ("mrc export htsim experiment.yaml -o htsim", "mrc run htsim/experiment.cm"),
        "tests/mrc_lab/exports/test_htsim.py",
    ),
    "sudo make run": "tests/integration/test_fabric.py",
    'sudo make run ARGS="--planes 4 --hosts 8 --rate 10M --name mine"': "tests/integration/test_fabric.py",
    'sudo mrc shell -c "write h1 h3 16M" -c "evs h1"': "tests/docs/test_on_fabric.py",
    'sudo mrc shell -c "write h1 h3 16M" -c "links"': "tests/docs/test_on_fabric.py",
    **dict.fromkeys(
        ("sudo mrc exec lab h3 -- python3 -m http.server &", "sudo mrc exec lab h1 -- curl http://h3:8000"),
        "tests/integration/test_management.py",
    ),
    **dict.fromkeys(
        (
            "sudo mrc up --name lab",
            "sudo mrc exec lab h3 -- ib_write_bw &",
            "sudo mrc exec lab h1 -- ib_write_bw h3",
            "sudo mrc fault add lab h1@p0 down",
            "sudo mrc fault clear lab all",
        ),
        "tests/integration/test_libibverbs.py",
    ),
    **dict.fromkeys(
        (
            "git clone --branch v44.0 https://github.com/linux-rdma/rdma-core",
            ".venv/bin/python -m tests.mrc_host.libibverbs.rdma_core_tests rdma-core",
        ),
        "tests/mrc_host/libibverbs/test_rdma_core_tests.py",
    ),
    "sudo mrc exec lab h1 -- /usr/bin/python3 -c 'from pyverbs.device import Context; "
    'print(Context(name="mrc0").query_gid(1, 0))\'': "tests/integration/test_libibverbs.py",
    "sudo MRC_NCCL_PLUGIN=$PWD/libnccl-net-mrc.so .venv/bin/python -m pytest tests/integration/test_nccl_plugin.py": (
        "tests/integration/test_nccl_plugin.py"
    ),
    "sudo MRC_NCCL_PLUGIN=$PWD/libnccl-net-mrc.so .venv/bin/python -m pytest -s "
    "tests/integration/test_nccl_plugin_faults.py": "tests/integration/test_nccl_plugin_faults.py",
    **dict.fromkeys(
        (
            "sudo mrc exec --devices-per-plane lab h3 -- ib_write_bw -d mrc0_p1 &",
            "sudo mrc exec --devices-per-plane lab h1 -- ib_write_bw -d mrc0_p1 h3",
        ),
        "tests/integration/test_plane_devices.py",
    ),
    **dict.fromkeys(
        (
            "git clone https://github.com/opencomputeproject/OCP-Multipath-Reliable-Connection mrc-api",
            "make -C mrc-api/examples/benchmark mrc_example MRC_LIB_DIR=$PWD/.venv/libibverbs",
            "sudo mrc exec lab h3 -- mrc-api/examples/benchmark/mrc_example -d mrc0 -s 65536 &",
            "sudo mrc exec lab h1 -- sh -c 'mrc-api/examples/benchmark/mrc_example -d mrc0 -s 65536 "
            '$(getent hosts h3 | cut -d" " -f1)\'',
        ),
        "tests/integration/test_libmrc.py",
    ),
    **dict.fromkeys(
        (
            "sudo mrc train --fabric lab examples/gpt.py --steps 20",
            "sudo mrc train --fabric lab --transport rc examples/gpt.py --steps 20",
        ),
        "tests/integration/test_torch.py",
    ),
    "PYTORCH_PATH=~/pytorch .venv/bin/python -m pytest tests/mrc_lab/torch/test_foreign_suites.py -k fault_tolerance": (
        "tests/mrc_lab/torch/test_foreign_suites.py"
    ),
    **dict.fromkeys(
        (".venv/bin/python -m tests.rank_faults --runs 200", ".venv/bin/python -m tests.rank_faults --seed 17 -v"),
        "tests/rank_faults/test_random_faults.py",
    ),
    **dict.fromkeys(
        (
            "sudo mrc train --fabric lab --elastic torchft --min-groups 2 examples/replicas.py --steps 400",
            "sudo mrc train --fabric lab --elastic torchft examples/replicas.py --method diloco --steps 100",
            "sudo mrc train --fabric lab --elastic torchft --group-size 2 examples/replicas.py --method hsdp",
            "sudo mrc exec lab h1 -- .venv/bin/torchft_lighthouse --min_replicas 2 --heartbeat_timeout_ms 500 &",
            "sudo TORCHFT_LIGHTHOUSE=http://h1:29510 mrc train --fabric lab --elastic torchft examples/replicas.py",
        ),
        "tests/integration/test_torchft.py",
    ),
    **dict.fromkeys(
        (
            ".venv/bin/pip install 'torch>=2.13,<2.15' --index-url https://download.pytorch.org/whl/cpu",
            ".venv/bin/pip install --no-deps -e .",
            ".venv/bin/pip install 'torchft>=0.2,<0.3'",
        ),
        "it changes the environment that runs the tests",
    ),
    'sudo mrc shell --switch bmv2 -c "write h1 h3 1M"': "tests/integration/test_bmv2.py",
    **dict.fromkeys(
        (
            'sudo mrc shell --switch kernel -c "write h1 h3 4M" -c "t1-0@p0 ip -6 route"',
            'sudo mrc up lab --switch t1-0@p0=kernel --switch "t0-*@p1=kernel"',
        ),
        "tests/integration/test_kernel_switch.py",
    ),
    "mrc run mrc_lab/paper/fig11.yaml --seed 7": "tests/mrc_lab/paper/test_published.py",
    **dict.fromkeys(
        (
            "pytest examples/test_aimd.py --mrc-results results/before",
            "pytest examples/test_aimd.py --mrc-results results/after",
            "mrc compare results/before/incast/latest results/after/incast/latest",
        ),
        "tests/mrc_lab/pytest_plugin/test_fixtures.py",
    ),
    "TESTS=network_tests COMPARE_WITH=main ../mrc-testbed/scripts/test-in-ci results": (
        "tests/scripts/test_test_in_ci.py"
    ),
    **dict.fromkeys(
        (
            "mrc run examples/cut_link_run.yaml --web",
            "mrc run examples/incast.yaml",
            "mrc run examples/plugins_run.yaml",
            "mrc run examples/goal_run.yaml",
            "mrc run examples/three_tiers_run.yaml",
        ),
        "tests/scripts/docs_site/test_gallery.py",
    ),
    "mrc run examples/two_clusters_run.yaml": "tests/examples/test_examples.py",
    "sudo mrc run trial.yaml --backend emulation": "tests/integration/test_experiment_file.py",
    "mrc compare results/fig11/latest results/fig11/20261121-101500": "tests/mrc_lab/paper/test_published.py",
    "mrc run trial.yaml --capture t0-0:t1-0@p0": "tests/mrc_lab/reports/test_run_and_report.py",
    "tshark -r results/trial/latest/only/trace/t0-0:t1-0@p0.pcapng -Y frame.comment -T fields"
    " -e frame.time_relative -e frame.comment": "tests/simulation/test_link_capture.py",
    "sudo mrc up lab --wire ring": "tests/integration/test_crashes.py",
    "mrc run trial.yaml --trace": "tests/mrc_lab/reports/perfetto/test_convert.py",
    "mrc trace convert results/trial/latest --output trial.pftrace": "tests/mrc_lab/reports/perfetto/test_convert.py",
    "sudo mrc trace record lab --folder traces --seconds 5": "tests/integration/test_standing.py",
    "mrc trace convert traces --profiler rank0.json.gz": "tests/mrc_lab/reports/perfetto/test_profiler.py",
    "sudo mrc top lab": "tests/integration/test_standing.py",
    "mrc run examples/incast.yaml --seeds 10": "tests/mrc_lab/cli/test_run_seeds.py",
    "make paper": "it takes minutes; tests/mrc_lab/paper/ has its parts",
    'make paper ARGS="--seeds 1-10"': "it takes an hour; tests/mrc_lab/paper/test_reproduction.py has its parts",
    "sudo mrc train-faults": "it takes half an hour; tests/integration/test_train_faults.py",
    "sudo mrc train-faults --only cut-port --only rank-killed": "tests/integration/test_train_faults.py",
    "mrc train-faults --list": "tests/mrc_lab/torch_jobs/train_faults/test_command.py",
    "mrc rank": "it takes an hour; tests/mrc_lab/rank/ has its parts",
    "mrc rank --list": "tests/mrc_lab/rank/test_command.py",
    "mrc rank --only incast-63 --only healthy --seeds 1-10": "it takes minutes; tests/mrc_lab/rank/ has its parts",
    "mrc paper --seeds 1-10 --jobs 4": "it takes an hour; tests/mrc_lab/paper/test_reproduction.py has its parts",
    "mrc sweep trial.yaml --set workload.message=64K,1M --set fabric.planes=1,2,4 --seeds 1-20": (
        "tests/mrc_lab/sweeps/test_run_sweep.py"
    ),
    **dict.fromkeys(
        (
            "ray get-auth-token --generate                 # once; then copy ~/.ray/auth_token everywhere",
            "export RAY_AUTH_MODE=token                    # everywhere",
            "ray start --head --node-ip-address 10.0.0.1 --port 6379 --disable-usage-stats",
            "ray start --address 10.0.0.1:6379 --disable-usage-stats        # on every other machine",
            "mrc sweep trial.yaml --seeds 1-1000 --ray 10.0.0.1:6379",
        ),
        "it takes several machines; tests/mrc_lab/sweeps/test_ray_cluster.py has a cluster of one",
    ),
    "sudo mrc up lab --planes 4 --hosts 8": "tests/integration/test_standing.py",
    "sudo mrc up lab --restart": "tests/integration/test_crashes.py",
    'sudo mrc shell lab -c "write h1 h5 16M"': "tests/integration/test_standing.py",
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=testbed"
    " -addext subjectAltName=DNS:testbed -keyout key.pem -out cert.pem": "tests/integration/test_standing.py",
    "openssl rand -hex 16 >token": "tests/integration/test_standing.py",
    "sudo mrc up lab --listen 0.0.0.0:9559 --token-file token --tls-cert cert.pem --tls-key key.pem": (
        "tests/integration/test_standing.py"
    ),
    "mrc fault list --address testbed:9559 --token-file token --tls-ca cert.pem": "tests/integration/test_standing.py",
    "sudo mrc down lab": "tests/integration/test_standing.py",
    **dict.fromkeys(("sudo mrc restart lab", "sudo mrc restart lab h3"), "tests/integration/test_crashes.py"),
    **dict.fromkeys(
        ("sudo mrc metrics lab", "prometheus --config.file prometheus.yml --web.listen-address 127.0.0.1:9090"),
        "tests/integration/test_telemetry.py",
    ),
    "sudo mrc conform --interface eth1 --interface eth2 --application ./my_nic.py --results results/conform": (
        "tests/integration/test_conform.py"
    ),
    "sudo apt-get install --no-install-recommends prometheus": "it changes the machine that runs the tests",
    **dict.fromkeys(
        (
            "sudo mrc web lab",
            "sudo mrc web lab --record lab.html",
            "sudo mrc web lab --listen 0.0.0.0:8420 --token-file token --tls-cert cert.pem --tls-key key.pem",
        ),
        "tests/integration/test_web.py",
    ),
    "ssh -L 8420:localhost:8420 testbed": "it takes another machine",
    "mrc compare rc.html mrc.html --output both.html": "tests/mrc_lab/web/test_player_page.py",
    **dict.fromkeys(
        ("mrc run trial.yaml --web", "mrc report results/trial/latest --output trial.html"),
        "tests/mrc_lab/web/test_result_recording.py",
    ),
    "pip install .": "tests/mrc_lab/test_wheel.py",
    "mrc run trial.yaml --backend sim": "tests/mrc_lab/test_wheel.py",
    "mrc run trial.yaml --backend scale": "tests/mrc_lab/experiments/running/test_scale_case.py",
    **dict.fromkeys(
        (
            "mrc run examples/eight_thousand.yaml",
            "mrc run examples/hundred_thousand.yaml",
            "mrc run examples/thirty_thousand_tiers.yaml",
        ),
        "tests/examples/test_examples.py",  # the larger ones with fewer racks
    ),
    **dict.fromkeys(
        (
            "mrc plan --result results/month/latest --failures failures.yaml --set t1s.rate=4/month",
            "mrc plan --result results/hundred_thousand/latest --set t1s.rate=2/month --set t1s.down=12min",
        ),
        "tests/mrc_lab/planning/test_job_losses.py",
    ),
    "mrc completion bash >~/.local/share/bash-completion/completions/mrc": "tests/mrc_lab/cli/test_cli.py",
    'mrc completion zsh >"${fpath[1]}/_mrc"': "tests/mrc_lab/cli/test_cli.py",
    "mrc completion fish >~/.config/fish/completions/mrc.fish": "tests/mrc_lab/cli/test_cli.py",
    "cd vagrant && vagrant up": "tests/vagrant/test_provision.py",
    **dict.fromkeys(
        ("sudo make vm", "make vm-run", "make vm-test", "make vm-box", "cd vagrant && MRC_BOX=built vagrant up"),
        "it takes a quarter of an hour; tests/vagrant/test_virtual_machine.py has stand-ins for what takes long",
    ),
    "sudo vagrant/install-vm-tools": "it changes the machine that runs the tests",
    "sudo make test": "it is what runs this",
    "sudo make test-all": "it is what runs this",
    "make unit": "it is what runs this",
    "sudo make clean": "tests/integration/test_fabric_lifetime.py",
    "make p4": "tests/p4src/test_build.py",
    "git checkout p4src/usid.p4": "it undoes an edit of the reader's",
    'sudo mrc shell demo -c "p4 reload"': "tests/integration/test_p4_program.py",
    ".venv/bin/python -m pytest tests/p4src": "it is part of what runs this",
    "python -m p4runtime_shim -i 1@eth0 -i 2@eth1 --device-id 1 --grpc-server-addr 127.0.0.1:9559 --cpu-port 510"
    " program.json": "tests/integration/test_switch_process.py",
    "python -m p4runtime_shim --no-p4 -i 1@eth0 -i 2@eth1          # the controller brings the program": (
        "tests/integration/test_switch_process.py"
    ),
    "python -m p4runtime_shim --config switches.yaml               # many switches in one process, one address": (
        "tests/integration/test_switch_process.py"
    ),
    'ln -s "$(which p4runtime_shim)" ~/bin/simple_switch_grpc': "tests/p4runtime_shim/server/test_endpoint.py",
    "python -m tests.swarm --seed 17": "tests/simulation/test_docs.py",
    ".venv/bin/python -m tests.swarm --seed 17": "tests/simulation/test_docs.py",
    "sudo make install": "tests/scripts/test_install.py",
    **dict.fromkeys(("make wheel", "make wheel ARGS=--pure"), "tests/scripts/test_build_wheel.py"),
    "make sbom": "it takes a package index",
    "python3 -m scripts.check_release v0.2.0": "tests/scripts/test_check_release.py",
    "make docs": "tests/scripts/docs_site/test_build.py",
    "make lint": "it goes before the tests (.ci/run)",
    ".venv/bin/python -m scripts.compile_transport": "tests/scripts/test_compile_transport.py",
    ".venv/bin/python -m pytest tests/mrc_host/transport/test_paths.py -k backup": "it is part of what runs this",
    "sudo .venv/bin/python -m pytest -m root tests/integration/test_agent.py": "it is part of what runs this",
    "P4C_PATH=/path/to/p4c TUTORIALS_PATH=/path/to/tutorials .venv/bin/python -m pytest tests/p4compiler/corpus": (
        "it takes checkouts of other projects"
    ),
    ".venv/bin/python -m tests.fuzz engine --seconds 60": "tests/fuzz/test_harness.py",
    ".venv/bin/python -m tests.fuzz agent --seed 17": "tests/fuzz/test_harness.py",
    'make soak ARGS="--only agent --seconds 600"': "tests/scripts/test_soak.py",
    'make soak ARGS="--seconds 3600 --jobs 2"': "tests/scripts/test_soak.py",
    'sudo make soak-kill ARGS="--seed 7"': "tests/integration/test_soak.py",
}

_FENCE = re.compile(r"^(?P<indent> *)```(?P<kind>.*)$")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its page, the number of its first line, what stands behind the fence, and its lines.

    A block of kind ``LANGUAGE file`` is to be saved as `file`; in others that is empty.
    """

    page: str
    line: int
    kind: str
    text: str
    file: str = ""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    def commands(self) -> list[str]:
        """Lines that are commands: no empty ones, no comments."""
        return [line for line in self.text.splitlines() if line and not line.startswith("#")]


def blocks(*kinds: str) -> list[Block]:
    """Blocks of all pages, or those of some kinds."""
    return [block for page in PAGES for block in _of_page(page) if not kinds or block.kind in kinds]


def _of_page(page: str) -> Iterator[Block]:
    opened: tuple[int, str, int] | None = None
    lines: list[str] = []
    for number, line in enumerate((DOCS / page).read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and opened is None:
            opened = number + 1, fence["kind"].strip(), len(fence["indent"])
            lines = []
        elif fence and opened is not None:
            kind, _, file = opened[1].partition(" file ")
            yield Block(page, opened[0], f"{kind} file" if file else kind, "\n".join(lines) + "\n", file)
            opened = None
        elif opened is not None:
            lines.append(line[opened[2] :])
    assert opened is None, f"{page}: a block is not closed"
