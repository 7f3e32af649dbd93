# Every target sets up .venv by itself and is quick when nothing has changed.
#   make demo    train a steerable network, and a plain one with turns and flips, on digits; compare them in all poses
#   make tour    the mathematics, printed and drawn: irreps, basis filters, capsules, parameter costs
#   make test    formatting, lint, types, tests, doctests and documentation; warnings are errors
#   make browser install Chromium, without which the explorer's browser tests are skipped (needs root on Debian)
#   make docs    build the documentation into out/site
#   make figures draw the documentation's figures anew, into docs/figures
#   make format  rewrite the code in the project's format
#   make lint, make types, make tests, make doctests, make docs   the parts of make test
#   make bench   timings of the foundation, of single convolutions and of the paper's network, beside plain torch
#   make bench-gpu  the timings that need a GPU
#   make gpu-check  on a GPU: its tests and timings side by side; goes on where it was interrupted
#   make clean   remove .venv, caches and output

PYTHON ?= python3
WORKERS ?= 2
OUT ?= out

VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
APT_INSTALL := DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends chromium
CODE := src tests examples benchmarks experiments docs

export MPLBACKEND := Agg
export DO_NOT_TRACK := 1
export GOMP_SPINCOUNT ?= 10000
export HF_HUB_DISABLE_TELEMETRY := 1
export GRADIO_ANALYTICS_ENABLED := False
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.PHONY: help install demo tour test lint types tests doctests docs figures browser format bench bench-gpu gpu-check clean

help:
	@sed -n 's/^#   //p' Makefile

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@echo "Setting up $(VENV). The first time this downloads torch."
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(STAMP)
	@$(BIN)/python examples/demo.py --out $(OUT)/demo

tour: $(STAMP)
	@$(BIN)/python examples/tour.py --out $(OUT)/tour

test: lint types tests doctests docs

lint: $(STAMP)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	$(BIN)/pytest -n $(WORKERS) --dist loadfile tests

# This is the only target that installs a system package, so no other target depends on it.
browser:
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && { $(APT_INSTALL) || { apt-get update && $(APT_INSTALL); }; } >/dev/null 2>&1; } \
	  || echo "Chromium is missing and cannot be installed here, so the explorer's browser tests will be skipped."

# Triton's kernels have no doctests, and cannot be imported where torch has no CUDA.
doctests: $(STAMP)
	$(BIN)/pytest --doctest-modules --doctest-glob='*.md' --ignore=src/steerable/nn/triton \
		--ignore=src/steerable/nn/backends/fourier/gpu/kernels src/steerable README.md docs

docs: $(STAMP)
	$(BIN)/mkdocs build --strict --site-dir $(abspath $(OUT))/site

figures: $(STAMP)
	$(BIN)/python docs/tools/drawn_figures.py

format: $(STAMP)
	$(BIN)/ruff check --fix-only $(CODE)
	$(BIN)/ruff format $(CODE)

bench: $(STAMP)
	@$(BIN)/python benchmarks/foundation.py --json $(OUT)/benchmarks/foundation.json
	@$(BIN)/python benchmarks/everyday.py --device cpu --json $(OUT)/benchmarks/everyday.json
	@$(BIN)/python benchmarks/convolution.py --json $(OUT)/benchmarks/convolution.json
	@$(BIN)/python benchmarks/network.py --device cpu --batch 16 --json $(OUT)/benchmarks/network.json
	@if $(BIN)/python -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'; \
	then $(MAKE) --no-print-directory bench-gpu; else echo 'No GPU here: make bench-gpu is left out.'; fi

bench-gpu: $(STAMP)
	@$(BIN)/python benchmarks/everyday.py --json $(OUT)/benchmarks/everyday-gpu.json
	@$(BIN)/python benchmarks/convolution.py --device cuda --dtype bfloat16 --batch 128 --json $(OUT)/benchmarks/convolution-bf16.json
	@$(BIN)/python benchmarks/convolution.py --device cuda --tf32 --batch 128 --json $(OUT)/benchmarks/convolution-tf32.json
	@$(BIN)/python benchmarks/fourier_gpu.py --json $(OUT)/benchmarks/fourier.json
	@$(BIN)/python benchmarks/fourier_gpu.py --tf32 --json $(OUT)/benchmarks/fourier-tf32.json
	@$(BIN)/python benchmarks/passes_gpu.py --json $(OUT)/benchmarks/passes.json
	@$(BIN)/python benchmarks/network.py --json $(OUT)/benchmarks/network-eager.json
	@$(BIN)/python benchmarks/network.py --compile --json $(OUT)/benchmarks/network-compiled.json
	@$(BIN)/python benchmarks/network.py --compile --tf32 --json $(OUT)/benchmarks/network-tf32.json
	@$(BIN)/python benchmarks/network.py --compile --mode reduce-overhead --json $(OUT)/benchmarks/network-graphs.json
	@$(BIN)/python benchmarks/network.py --compile --mode reduce-overhead --tf32 --json $(OUT)/benchmarks/network-graphs-tf32.json

# What ended well is not run again; FORCE=1 starts anew. Where nothing can be installed, call the script itself.
gpu-check: $(STAMP)
	@if [ -n "$(FORCE)" ]; then rm -rf $(OUT)/gpu-check; fi
	@$(BIN)/python benchmarks/gpu_check.py --out $(OUT)/gpu-check

clean:
	rm -rf $(VENV) $(OUT) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests examples benchmarks experiments docs \( -name __pycache__ -o -name '*.egg-info' \) -prune -exec rm -rf {} +
