#!/bin/sh
# Sets up .venv for one purpose (runtime, dev, agents or bench) from pinned, hashed requirements.
# Instant when nothing has changed. Usage: scripts/prepare.sh PURPOSE   (PYTHON names the interpreter)
set -eu

purpose=$1
python=${PYTHON:-python3}
venv=.venv
unset PYTHONHOME PYTHONPATH PIP_TARGET PIP_PREFIX PIP_USER PIP_REQUIRE_HASHES 2>/dev/null || true

stop() {
    printf 'counterfoil: %s\n' "$@" >&2
    exit 1
}

case $purpose in
    runtime) sets="runtime" ;;
    dev) sets="dev" ;;
    agents) sets="dev agents" ;;
    bench) sets="dev bench" ;;
    *) stop "no such purpose: $purpose (runtime, dev, agents or bench)" ;;
esac

check_tools() {
    command -v "$python" >/dev/null 2>&1 ||
        stop "$python is not on the PATH" "install Python 3.11 or newer, or name one: make PYTHON=python3.12 ..."
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
        stop "$("$python" --version 2>&1) is too old: Python 3.11 or newer is needed" \
            "name a newer one: make PYTHON=python3.12 ..."
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        stop "$python cannot make virtual environments (venv or ensurepip is missing)" \
            "on Debian and Ubuntu the package is python3-venv"
    command -v git >/dev/null 2>&1 || stop "git is not on the PATH" "install git 2.38 or newer"
    git_version=$(git --version | sed 's/[^0-9]*\([0-9]*\.[0-9]*\).*/\1/')
    [ "${git_version%%.*}" -gt 2 ] || { [ "${git_version%%.*}" -eq 2 ] && [ "${git_version#*.}" -ge 38 ]; } ||
        stop "git $git_version is too old: git 2.38 or newer is needed (merge-tree --write-tree)"
}

# What an environment depends on: this folder, the interpreter, the pins, the project file.
key_of() {
    printf '%s %s ' "$PWD" "$(command -v "$python")"
    cat "requirements/$1.txt" pyproject.toml | cksum
}

fresh() {
    [ -x "$venv/bin/python" ] && [ "$(cat "$venv/prepared-$1" 2>/dev/null)" = "$(key_of "$1")" ]
}

make_venv() {
    if [ "$(cat "$venv/made-for" 2>/dev/null)" != "$PWD $(command -v "$python")" ] ||
        ! "$venv/bin/python" -c '' 2>/dev/null; then
        echo "making $venv with $("$python" --version 2>&1)"
        rm -rf "$venv"
        "$python" -m venv "$venv" || stop "$python -m venv $venv failed"
        echo "$PWD $(command -v "$python")" >"$venv/made-for"
    fi
}

install_set() {
    echo "installing requirements/$1.txt (pinned, hashes checked; the first time takes up to a minute)"
    "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input \
        --require-hashes -r "requirements/$1.txt" ||
        stop "pip could not install requirements/$1.txt" "its last lines above say why; a package index must be reachable"
    if ! fresh_project; then
        "$venv/bin/python" -m pip install -qq --disable-pip-version-check --no-input \
            --no-deps --no-build-isolation --editable . || stop "pip could not install the project itself"
        cksum <pyproject.toml >"$venv/installed-project"
    fi
    key_of "$1" >"$venv/prepared-$1"
}

fresh_project() {
    [ "$(cat "$venv/installed-project" 2>/dev/null)" = "$(cksum <pyproject.toml)" ]
}

for set in $sets; do
    fresh "$set" && continue
    check_tools
    make_venv
    install_set "$set"
done
