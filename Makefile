# make demo   train Mask R-CNN stock and with the plugins, and compare      (the main job)
# make test   the test suite on paddlepaddle 2.6.2, again on 3.3.1, and MindOCR's part on mindspore 2.8.0
# make test-matrix   MindOCR's part on mindspore 2.7.2 and 2.10.0
# make lint   ruff, mypy, and which room may import which
# make docs   the documentation site, into build/site
# make wheels what a release uploads, checked, into dist/
# Each target builds the environment it needs below .venv/, from package registries alone; uv is used if present.

SHELL := /bin/bash
PYTHON ?= $(shell for p in python3.11 python3.10 python3.9 python3 python; do \
	$$p -c 'import sys; sys.exit(not (3, 9) <= sys.version_info[:2] <= (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
UV := $(shell command -v uv 2>/dev/null)
BUILT_FROM := pyproject.toml CMakeLists.txt detperf_plugins_startup.pth $(wildcard detperf_plugins/native/src/* detperf_plugins/native/include/detperf/*)
PYTEST_FLAGS ?= -q

.PHONY: .venv/docs .venv/release demo test test-fast test-matrix test-docs lint docs wheels clean \
	.venv/paddle-2.6 .venv/paddle-3.3 .venv/mindspore-2.7 .venv/mindspore-2.8 .venv/mindspore-2.10

demo: .venv/paddle-2.6
	.venv/paddle-2.6/bin/detperf demo $(DEMO_FLAGS)

HOSTS := .venv/paddle-2.6 .venv/paddle-3.3 .venv/mindspore-2.8

# Every host is always tested, MindSpore beside the two Paddles; a failure is reported after the last has run.
test:
	@$(MAKE) --no-print-directory -j $(words $(HOSTS)) $(HOSTS)
	@mkdir -p build; status=0; log=build/test-mindspore.log; \
	.venv/mindspore-2.8/bin/python -m pytest $(PYTEST_FLAGS) tests/mindocr tests/docs >$$log 2>&1 & other=$$!; \
	trap "kill $$other 2>/dev/null" INT TERM; \
	echo "== paddlepaddle 2.6.2"; .venv/paddle-2.6/bin/python -m pytest $(PYTEST_FLAGS) || status=1; \
	echo "== paddlepaddle 3.3.1"; \
	.venv/paddle-3.3/bin/python -m pytest $(PYTEST_FLAGS) tests/native tests/paddledet tests/measure || status=1; \
	wait $$other || status=1; \
	echo "== mindspore 2.8.0"; cat $$log; \
	exit $$status

test-matrix: .venv/mindspore-2.7 .venv/mindspore-2.10
	@status=0; \
	echo "== mindspore 2.7.2"; .venv/mindspore-2.7/bin/python -m pytest $(PYTEST_FLAGS) tests/mindocr || status=1; \
	echo "== mindspore 2.10.0"; .venv/mindspore-2.10/bin/python -m pytest $(PYTEST_FLAGS) tests/mindocr || status=1; \
	exit $$status

test-fast: .venv/paddle-2.6
	.venv/paddle-2.6/bin/python -m pytest $(PYTEST_FLAGS) -m "not slow"

lint: .venv/paddle-2.6
	.venv/paddle-2.6/bin/ruff check .
	.venv/paddle-2.6/bin/ruff format --check .
	.venv/paddle-2.6/bin/mypy
	.venv/paddle-2.6/bin/lint-imports

# One manylinux wheel for each CPython found, or for those in PYTHONS, and the sdist: into dist/.
wheels: .venv/release
	PATH="$(CURDIR)/.venv/release/bin:$$PATH" .venv/release/bin/python release/build.py $(PYTHONS)

docs: .venv/docs
	NO_MKDOCS_2_WARNING=1 DISABLE_MKDOCS_2_WARNING=true .venv/docs/bin/mkdocs build --strict --quiet

# Every command block of README and docs that this machine can run, those that take minutes too.
test-docs: .venv/paddle-2.6 .venv/mindspore-2.8
	DETPERF_DOCS=all .venv/paddle-2.6/bin/python -m pytest $(PYTEST_FLAGS) tests/docs
	DETPERF_DOCS=all .venv/mindspore-2.8/bin/python -m pytest $(PYTEST_FLAGS) tests/docs

.venv/docs .venv/release: .venv/%: .venv/%/.tools
.venv/%/.tools: constraints/%.txt
	[ -x .venv/$*/bin/python ] || $(PYTHON) -m venv .venv/$*
	.venv/$*/bin/python -m pip install --quiet --progress-bar off --disable-pip-version-check -r $<
	@touch $@

.venv/paddle-2.6: .venv/paddle-2.6/.ready
.venv/paddle-3.3: .venv/paddle-3.3/.ready
.venv/mindspore-2.7: .venv/mindspore-2.7/.ready
.venv/mindspore-2.8: .venv/mindspore-2.8/.ready
.venv/mindspore-2.10: .venv/mindspore-2.10/.ready

.venv/paddle-2.6/.ready: EXTRA := paddle
.venv/paddle-3.3/.ready: EXTRA := paddle3
.venv/mindspore-%/.ready: EXTRA := mindspore
# Each compiles in a folder of its own: `make test` builds them side by side.
.venv/%/.ready: constraints/%.txt $(BUILT_FROM)
	@[ -n "$(PYTHON)" ] || { echo "Python 3.9, 3.10 or 3.11 is needed (or set PYTHON=...)" >&2; exit 1; }
	@[ -x .venv/$*/bin/python ] || echo "building .venv/$* from package registries: some minutes, once"
ifdef UV
	[ -x .venv/$*/bin/python ] || $(UV) venv --quiet --seed --python "$(PYTHON)" .venv/$*
	$(UV) pip install --quiet --python .venv/$*/bin/python --constraint $< --build-constraint $< \
		--config-setting build-dir=build/$* -e ".[$(EXTRA),dev]"
else
	[ -x .venv/$*/bin/python ] || $(PYTHON) -m venv .venv/$*
	PIP_CONSTRAINT=$< PIP_BUILD_CONSTRAINT=$< PIP_DISABLE_PIP_VERSION_CHECK=1 \
		.venv/$*/bin/python -m pip install --quiet --progress-bar off \
		--config-settings build-dir=build/$* -e ".[$(EXTRA),dev]"
endif
	@touch $@

clean:
	rm -rf build dist out
