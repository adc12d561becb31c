# Every target makes its own .venv; uv is fetched with pip when the machine has none.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(or $(shell command -v python3),python)

.PHONY: install demo test lint types clean

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@command -v uv >/dev/null || $(PYTHON) -m pip install --quiet --target build/uv uv
	PATH="$(CURDIR)/build/uv/bin:$$PATH" uv venv --quiet --allow-existing $(VENV)
	PATH="$(CURDIR)/build/uv/bin:$$PATH" uv pip install --quiet --python $(BIN)/python --constraints constraints.txt --group dev --editable .
	touch $@

# Folder X installs as elbowroom.X; type checkers follow these links instead of the import hook.
build/types/elbowroom:
	mkdir -p $@
	for folder in datasets memory models studies; do ln -sfn $(CURDIR)/$$folder $@/$$folder; done

demo: install
	$(BIN)/elbowroom demo

test: install
	$(BIN)/python -m pytest -n 2 --dist loadgroup

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install build/types/elbowroom
	$(BIN)/pyright --pythonpath $(BIN)/python

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache
