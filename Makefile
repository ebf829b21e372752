# Everything a fresh machine needs is made on demand: git, Python >= 3.11, cargo and make are enough.
#
#   make run       run the main experiment on the embedded PostgreSQL and write its report
#   make test      run all tests
#   make test-contained  test as root of a container: no CAP_SYS_PTRACE, and /proc hides processes
#   make bench     measure pgdrag's load driver against its peers: docs/benchmarks.md
#   make simulate  try the statistics on systems with known truth: docs/method.md
#   make campaign  kill, stop, starve or fill up any part of pgdrag in any of its commands, ROUNDS times (20) or for
#                  HOURS, and see that nothing is lost or left: some seconds a round; as root: the operating system, too
#   make fuzz      give all that reads what others wrote CASES cases each (20000) that a fuzzer makes up: twenty minutes
#   make soak      let observe, serve and a run go on side by side for HOURS (8), and see that memory, files and threads stay bounded
#   make existing  run every procedure on existing servers of PostgreSQL 14 and 18, and compare their settings: ten minutes
#   make fleet-faults  kill, stop, cut off and slow down the hosts of a fleet, ROUNDS times (10), as root: ten minutes
#   make fleet-servers  search for guilty settings on real servers, on this machine and on three network namespaces, as root:
#                  three minutes
#   make doctor    see whether pgdrag doctor names what was done to a server: a quarter of an hour
#   make plans     see whether the plans of a twin without rows are those of the original: five minutes
#   make twins     see whether a twin answers as its original does, on seven databases: 80 minutes; goes on where it was
#   make aa        compare a server with itself, twenty times: half an hour
#   make lint      formatters, linters, type checker, layers
#   make docs      write again what is generated in docs/reference
#   make site      build the documentation as a site with search, in build/site; no network is needed once Zensical is there
#   make release   build the wheels, the source distribution, the bill of materials and the manual into dist/, and try the wheel:
#                  five minutes
#   make screenshots  take the pictures of README and docs, and the example reports, from real runs (which it makes where
#                  there are none: a quarter of an hour); needs Chromium
#   make claims    write the table of all published figures and their answers, from this machine's runs
#   make studies   write the tables and pictures of docs/studies, from this machine's runs
#   make clean     remove what was built (not your runs: see "pgdrag clean")

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find src crates -type f -not -name '*.pyc' -not -path '*.egg-info/*' | sed 's/ /\\ /g')

# Where the environment forbids bytecode (as images of containers do), each process would compile all of its sources
# anew: a fifth of the processor time that a command takes to start, half of what it takes to collect the tests.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: claims studies release run test test-contained bench simulate doctor plans twins aa campaign fuzz soak fleet-faults fleet-servers existing lint format docs site clean update-goldens

run: $(VENV)/installed
	$(BIN)/pgdrag run slow-42k --scale demo

# The driver's own tests use the same server as all others, where its user can execute it.
SERVER_BIN = $(BIN)/python -c 'from pgdrag.servers.binaries import *; from pgdrag.servers.scratch import Scratch; \
  print(executable_binaries(find_binaries(None), Scratch.open()).bin_dir)'

# A file's tests share servers, so each file is one worker's; those that take long come first. Servers and
# commands have tests wait for half of the time, so that there are two workers more than processors.
WORKERS := $(shell expr `nproc` + 2)
SIDE_BY_SIDE := -n $(WORKERS) --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test: $(VENV)/installed-dev
	PGDRAG_TEST_BIN="$$($(SERVER_BIN))" cargo test --locked --quiet
	$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) $(PYTEST)

# As root of a container: without the right to look at other users' processes, which /proc does not even list; its
# first process has no more rights.
test-contained: $(VENV)/installed-dev
	unshare --mount --pid --fork sh -c 'mount -t proc -o hidepid=2,gid=65533 proc /proc && exec capsh --drop=cap_sys_ptrace -- -c \
	  "$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) $(PYTEST); exit \$$?"'

# Options go into BENCH, as in: make bench BENCH='--quick --only pgbench'
bench: $(VENV)/installed
	cargo build --release --locked --quiet --example bare_loop --example stub_server
	$(BIN)/python -m benchmarks $(BENCH)

# Options go into SIMULATE, as in: make simulate SIMULATE='--only compare --scale 0.1'
simulate: $(VENV)/installed
	$(BIN)/python -m simulations $(SIMULATE)

# Options go into DOCTOR, as in: make doctor DOCTOR='--which sick --only lock'
doctor: $(VENV)/installed
	$(BIN)/python -m benchmarks.doctor $(DOCTOR)

# Options go into PLANS, as in: make plans PLANS='--only shop --postgres 15'
plans: $(VENV)/installed
	$(BIN)/python -m benchmarks.plan_fidelity $(PLANS)

# Options go into TWINS, as in: make twins TWINS='--only pgbench --configurations 4'
twins: $(VENV)/installed
	$(BIN)/python -m benchmarks.twins $(TWINS)

# Options go into AA, as in: make aa AA='--runs 5 --max-pairs 8 -- --warehouses 2'
aa: $(VENV)/installed
	$(BIN)/python -m benchmarks.a_against_a $(AA)

# A round again, as its failure says: make campaign SEED=17 ROUND=5
campaign: $(VENV)/installed-dev
	@mkdir -p build
	$(BIN)/python tests/campaign --record build/campaign.jsonl $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(HOURS),--hours $(HOURS)) \
	  $(if $(SEED),--seed $(SEED)) $(if $(ROUND),--round $(ROUND)) $(if $(ONLY),--only $(ONLY)) $(if $(JOBS),--jobs $(JOBS))

# Corpora are kept in build/fuzz, and gone on from.
fuzz: $(VENV)/installed-fuzz
	$(BIN)/python tests/fuzz $(if $(CASES),--cases $(CASES)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(ONLY),--only $(ONLY)) $(if $(JOBS),--jobs $(JOBS))

soak: $(VENV)/installed-dev
	@mkdir -p build
	$(BIN)/python tests/soak --record build/soak.jsonl $(if $(HOURS),--hours $(HOURS))

existing: $(VENV)/installed-dev
	EXISTING=all $(BIN)/python -m pytest -q tests/postgres/test_existing_procedures.py

fleet-faults: $(VENV)/installed-dev
	$(BIN)/python tests/fleet_networks.py $(if $(ROUNDS),--rounds $(ROUNDS)) $(if $(SEED),--seed $(SEED))

fleet-servers: $(VENV)/installed-dev
	$(BIN)/python tests/fleet_servers.py

lint: $(VENV)/installed-dev
	$(BIN)/ruff format --check src tests benchmarks documentation release simulations examples
	$(BIN)/ruff check src tests benchmarks documentation release simulations examples
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	cargo fmt --check
	cargo clippy --locked --all-targets --quiet -- -D warnings

format: $(VENV)/installed-dev
	$(BIN)/ruff format src tests benchmarks documentation release simulations examples
	$(BIN)/ruff check --fix src tests benchmarks documentation release simulations examples
	cargo fmt

SCHEMA := docs/reference/experiment.schema.json
REPORT_SCHEMA := docs/reference/report.schema.json
NOTICES := THIRD-PARTY.txt

docs: $(VENV)/installed
	$(BIN)/pgdrag check --schema > $(SCHEMA).new && mv $(SCHEMA).new $(SCHEMA)
	$(BIN)/pgdrag report --schema > $(REPORT_SCHEMA).new && mv $(REPORT_SCHEMA).new $(REPORT_SCHEMA)
	$(BIN)/python -m documentation
	$(BIN)/python -m release.licences > $(NOTICES).new && mv $(NOTICES).new $(NOTICES)

release: $(VENV)/installed-release
	$(BIN)/python -m release

site: $(VENV)/installed-site
	$(BIN)/zensical build --strict --clean
	@echo 'Open build/site/index.html.'

CLAIMS := docs/studies/claims.md

claims: $(VENV)/installed
	$(BIN)/pgdrag claims --format markdown > $(CLAIMS).new && mv $(CLAIMS).new $(CLAIMS)

# One alone: make screenshots EXAMPLE=ablate
screenshots: $(VENV)/installed-dev
	$(BIN)/python -m benchmarks.screenshots $(EXAMPLE)

# One page alone: make studies STUDY=slow-42k
studies: $(VENV)/installed
	$(BIN)/python -m benchmarks.studies $(STUDY)

update-goldens: $(VENV)/installed-dev
	PGDRAG_UPDATE_GOLDENS=1 $(BIN)/python -m pytest -q tests/golden

clean:
	rm -rf $(VENV) build dist target src/*.egg-info

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'error: Python 3.11 or newer is needed; name one with: make PYTHON=/path/to/python3'; exit 1; }
	@command -v cargo >/dev/null || { echo 'error: cargo is needed to build the load driver: https://rustup.rs'; exit 1; }
	$(PYTHON) -m venv $(VENV)

# Builds the wheel, with the driver in it, and installs it: what is tested is what is shipped.
BUILT_FROM := $(VENV)/bin/pip pyproject.toml constraints.txt THIRD-PARTY.txt Cargo.toml Cargo.lock $(SOURCES)
define INSTALL
@echo 'Building pgdrag and its load driver (a minute or two the first time) …'
@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
endef

$(VENV)/installed: $(BUILT_FROM)
	$(INSTALL) .
	@touch $@

$(VENV)/installed-dev: $(BUILT_FROM)
	$(INSTALL) '.[dev,site]'
	@touch $(VENV)/installed $(VENV)/installed-site $@

$(VENV)/installed-fuzz: $(BUILT_FROM)
	$(INSTALL) '.[dev,site,fuzz]'
	@touch $(VENV)/installed $(VENV)/installed-site $(VENV)/installed-dev $@

$(VENV)/installed-release: $(BUILT_FROM)
	$(INSTALL) '.[release]'
	@touch $(VENV)/installed $@

$(VENV)/installed-site: $(VENV)/bin/pip pyproject.toml constraints.txt
	@$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt zensical
	@touch $@
