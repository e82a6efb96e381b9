# Everything a stranger needs: `make demo` shows the main job, `make test` runs the whole suite.
# Both do all their own set-up on a machine that has only Python 3.11 or newer with venv and pip; the tests also
# install psql, a JDK and the JDBC driver from Debian's packages if they are missing.

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check bench pins clean tools

demo: $(READY)
	$(BIN)/sfumato demo

test: $(READY) tools
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --durations=10
	$(BIN)/python benchmarks/spine.py --smoke
	$(BIN)/python benchmarks/noise.py --smoke
	$(BIN)/python benchmarks/accounting.py --smoke
	$(BIN)/python benchmarks/audit.py --smoke
	$(BIN)/python benchmarks/sql.py --smoke
	$(BIN)/python benchmarks/accuracy.py --smoke
	$(BIN)/python benchmarks/utility.py --smoke
	$(BIN)/python benchmarks/guessing.py --smoke
	$(BIN)/python benchmarks/server.py --smoke
	$(BIN)/python benchmarks/deadlines.py --smoke
	$(BIN)/python benchmarks/quantiles.py --smoke
	$(BIN)/python benchmarks/right.py --smoke
	$(BIN)/python benchmarks/acceptance.py --smoke

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

# Real clients for the tests of the doors: psql, a JDK and the JDBC driver
tools:
	@missing=""; \
	command -v psql >/dev/null || missing="$$missing postgresql-client"; \
	command -v javac >/dev/null || missing="$$missing default-jdk-headless"; \
	test -f /usr/share/java/postgresql.jar || missing="$$missing libpostgresql-jdbc-java"; \
	if [ -n "$$missing" ]; then \
	  if [ "$$(id -u)" = 0 ]; then apt-get update && apt-get install -y $$missing; \
	  else echo "The tests need these packages. Run: sudo apt-get install$$missing" >&2; exit 1; fi; fi

# Writes the versions that are installed now; no path and no host name in it.
pins: $(READY)
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf .venv .peers .mypy_cache .ruff_cache .pytest_cache .hypothesis sfumato-demo build
