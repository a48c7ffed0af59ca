#!/bin/sh
# Writes requirements/*.txt from pyproject.toml: newest versions, every platform, hashes, no host.
# Usage: scripts/pin.sh   (make requirements)
set -eu

command -v uv >/dev/null 2>&1 || {
    echo "installing uv into .venv (only this command needs it)"
    .venv/bin/python -m pip install -qq --disable-pip-version-check uv
}

pin() {
    target=requirements/$1.txt
    shift
    echo "pinning $target"
    uv pip compile pyproject.toml "$@" --quiet --universal --python-version 3.11 --upgrade \
        --generate-hashes --no-emit-index-url --no-header --no-annotate --output-file "$target"
}

pin dev --group dev
pin runtime --group build --constraint requirements/dev.txt
pin agents --extra agents-test --constraint requirements/dev.txt
pin bench --extra bench --constraint requirements/dev.txt
