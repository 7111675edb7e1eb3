# Everything runs in .venv, made on first use from requirements.txt and requirements-dev.txt.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: demo test lint bench clean

demo: $(VENV)/.installed  ## Fit a flow on the bundled corpus, score raw and flow, write a report.
	$(RUN) train.py --config=configs/demo.py --workdir=runs/demo --overwrite
	$(RUN) evaluate.py --workdir=runs/demo --tasks=everyday

test: $(VENV)/.installed  ## The whole test suite, offline.
	$(RUN) -m pytest

lint: $(VENV)/.installed  ## Formatting, lint rules and types.
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

bench: $(VENV)/.installed  ## Speed of the flow's fit, against the PyTorch port where torch is there.
	$(RUN) -m benchmarks.fit_flow

clean:  ## Remove what was installed and built, and the runs.
	rm -rf $(VENV) build *.egg-info runs

$(VENV)/.installed: requirements.txt requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip
	$(RUN) -m pip install --quiet -r requirements-dev.txt -e .
	touch $@
