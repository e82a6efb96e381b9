# Everything a stranger needs: `make demo` shows the main job, `make test` runs the whole suite.
# Both do all their own set-up on a machine that has only Python 3.11 or newer with venv and pip.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check bench pins clean

demo: $(READY)
	$(BIN)/sfumato demo

test: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --durations=10
	$(BIN)/python benchmarks/spine.py --smoke
	$(BIN)/python benchmarks/noise.py --smoke
	$(BIN)/python benchmarks/accounting.py --smoke
	$(BIN)/python benchmarks/audit.py --smoke
	$(BIN)/python benchmarks/sql.py --smoke
	$(BIN)/python benchmarks/utility.py --smoke
	$(BIN)/python benchmarks/guessing.py --smoke

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 -m "not slow" src tests/unit tests/laws tests/plans tests/test_architecture.py

bench: $(READY)
	set -e; for file in benchmarks/*.py; do $(BIN)/python $$file; done

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  if [ "$$(id -u)" = 0 ]; then apt-get update && apt-get install -y python3 python3-venv; \
	  else echo "Python 3.11 is missing. Run: sudo apt-get install python3 python3-venv" >&2; exit 1; fi; }
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $(READY)

# Writes the versions that are installed now; no path and no host name in it.
pins: $(READY)
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis sfumato-demo build
