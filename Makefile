# make figures   every figure, table and verdict, from published runs  JOBS=2 (notebooks at a time)  ONLY="10 12"
# make paper     published runs that are missing     JOBS=2 (runs at a time)  ONLY="33 42"
# make small     every notebook from scratch at small sizes, into out/small  JOBS=2  ONLY="10 12"
# make test      lint, tests, all notebooks compared  JOBS=2
# make faults    kills, full disks, corruptions, damaged calls; `make test` makes a few; what takes long  N=100
# make audit     published runs recomputed in part    N=100 (picked at random)  ONLY="10 12"
# make lab       JupyterLab, opened on the learning paths  LAB="--no-browser --port 9000"; as root: LAB="--allow-root"
# make site      the site, from what is committed    into out/site; JOBS=2
# make slides    slides for a lecture, one deck per paper, into out/slides
# make bench     the engine against its peers         BENCH="--workloads W1 W4 --repeats 5"
# make data      fetch data sets                      DATA="mnist fmnist"
# make clean     remove what was generated, but neither results, data sets nor .venv
#
# Each creates .venv first when it is missing or out of date. TORCH_INDEX=<address of a wheel index> takes torch, and only
# torch, from there; without it everything comes from pip's own index. PYTHON=python3.12 chooses the interpreter.

PYTHON = python3
JOBS = 2
N = 100
ONLY =
DATA =
BENCH =
LAB =
TORCH_INDEX =

PY = .venv/bin/python
READY = .venv/.installed
BOOKS = $(if $(ONLY),$(foreach n,$(ONLY),$(or $(wildcard notebooks/$(n)_*.ipynb),notebooks/$(n).ipynb)),$(wildcard notebooks/*.ipynb))
PIP = $(PY) -m pip --disable-pip-version-check

.PHONY: help figures paper small test faults audit lab site slides bench data clean
.DELETE_ON_ERROR:

help:
	@sed -n '/^# make/s/^# //p' Makefile

figures: $(READY)
	@exec $(PY) -m sflkit.cli figures --jobs "$(JOBS)" --only "$(ONLY)"

# At low priority, the cheapest stage first. It may be stopped at any moment: called again, it goes on.
paper: $(READY)
	@exec $(PY) -m sflkit.cli paper --jobs "$(JOBS)" --only "$(ONLY)"

# Called again, it goes on with what is missing or older than its notebook.
small: $(READY)
	@$(MAKE) --no-print-directory --keep-going --jobs "$(JOBS)" $(patsubst notebooks/%,out/small/%,$(BOOKS))

out/small/%.ipynb: notebooks/%.ipynb notebooks/profiles.yaml
	@SFLKIT_THREADS="$${SFLKIT_THREADS:-1}" $(PY) -m sflkit.cli run $* --profile small

# Tests touch no tracked figure. A notebook is executed and compared unless nothing changed, its outputs included, since
# `make figures` executed it here. One thread each, as the processes share the cores.
test: $(READY)
	@rm -rf out/test && mkdir -p out/test
	@echo "ruff" && $(PY) -m ruff check . && $(PY) -m ruff format --check .
	@SFLKIT_BATCH=1 SFLKIT_CACHE="$(CURDIR)/out/test/results" SFLKIT_FIGURES="$(CURDIR)/out/test/figures" SFLKIT_THREADS=1 OMP_NUM_THREADS=1 \
	  $(PY) -m pytest -q -n "$(JOBS)" --dist loadscope --doctest-modules --nbval --nbval-current-env --durations 10 \
	  --ignore tests/bench --ignore notebooks/solutions sflkit companion tests notebooks

# The tests of tests/faults in full, N kills of each kind and so on, of which `make test` makes a part; the tests that
# take long; the solutions, compared with what is committed.
faults: $(READY)
	@SFLKIT_BATCH=1 SFLKIT_FAULTS="$(N)" SFLKIT_THREADS=1 OMP_NUM_THREADS=1 \
	  $(PY) -m pytest -q -m "faults or slow" --ignore tests/bench tests
	@SFLKIT_BATCH=1 SFLKIT_THREADS=1 OMP_NUM_THREADS=1 $(PY) -m pytest -q --nbval --nbval-current-env notebooks/solutions

# The first rounds of N published runs, those whose data sets are at hand, compared with what is published.
audit: $(READY)
	@exec $(PY) -m sflkit.cli audit --runs "$(N)" $(ONLY)

# docs/lab lets JupyterLab show Markdown as a page, and opening a notebook change no file.
lab: $(READY)
	@JUPYTER_CONFIG_PATH="$(CURDIR)/docs/lab$${JUPYTER_CONFIG_PATH:+:$$JUPYTER_CONFIG_PATH}" \
	  exec $(PY) -m jupyter lab --LabApp.default_url=/lab/tree/notebooks/README.md $(LAB)

# Nothing is executed: pages come from committed outputs, and whatever is missing or broken stops the build.
site: $(READY)
	@exec $(PY) -m docs.site --jobs "$(JOBS)"

# From committed outputs, as `make site`; reveal.js comes from an installed package, so that decks open offline.
slides: $(READY)
	@exec $(PY) -m docs.slides

bench: $(READY)
	@exec $(PY) -m tests.bench $(BENCH)

data: $(READY)
	@exec $(PY) -m sflkit.cli data $(DATA)

clean:
	@for folder in out/*; do [ "$$folder" = out/results ] || rm -rf "$$folder"; done
	@rm -rf .pytest_cache .ruff_cache .hypothesis build dist
	@find sflkit companion tests -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "kept: out/results (computed runs), data/, figures/ and .venv; delete them by hand if you mean to"

# sflkit/__init__.py holds the version. The interpreter is checked before anything is made. torch comes first and alone, so
# that an index named for it serves nothing else and a torch that is there and satisfies the pin stays.
$(READY): requirements.lock pyproject.toml companion/pyproject.toml sflkit/__init__.py
	@python=; for p in "$(PYTHON)" python3.13 python3.12 python3.11; do \
	  if "$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; then python="$$p"; break; fi; done; \
	if [ -z "$$python" ]; then \
	  echo "sflkit needs Python 3.11, 3.12 or 3.13; $(PYTHON) is $$("$(PYTHON)" --version 2>&1). Name one: make PYTHON=/path/to/python3.12" >&2; \
	  exit 2; fi; \
	if $(PY) -m pip --version >/dev/null 2>&1; then echo "bringing .venv up to date"; \
	else echo "making .venv with $$("$$python" --version)"; "$$python" -m venv --clear .venv; fi
	@echo "installing torch (large; once)"
	@$(PIP) install -qq --no-deps $(if $(TORCH_INDEX),--index-url "$(TORCH_INDEX)") "$$(grep '^torch==' requirements.lock)"
	@echo "installing the other packages of requirements.lock"
	@$(PIP) install -qq --requirement requirements.lock
	@$(PIP) install -qq --no-deps --no-build-isolation --editable . --editable companion
	@touch $@
