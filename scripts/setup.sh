# Sourced by scripts/audit and scripts/test: creates .venv with the pinned versions, again whenever the lock file changes.
# Requirements: Python >= 3.11, git, and a package registry.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
uv=$(command -v uv || true)

find_uv() {
    [ -n "$uv" ] && return
    uv="$root/.venv/uv/bin/uv"
    [ -x "$uv" ] && return
    echo "Installing uv into .venv/uv" >&2
    python3 -m venv "$root/.venv/uv"
    "$root/.venv/uv/bin/python" -m pip install --quiet --disable-pip-version-check uv
}

set_up() {
    local mark="$root/.venv/.installed" wanted
    wanted=$(cat "$root/requirements.lock" "$root/pyproject.toml" | sha256sum)
    [ -f "$mark" ] && [ "$(cat "$mark")" = "$wanted" ] && return
    find_uv
    echo "Setting up .venv (once; some minutes where packages have to be downloaded)" >&2
    [ -x "$root/.venv/bin/python" ] || "$uv" venv --quiet --allow-existing --python ">=3.11" "$root/.venv"
    # facenet-pytorch 2.5.3 pins nothing; the lock lists every package, so nothing is left to be resolved.
    "$uv" pip install --quiet --compile-bytecode --python "$root/.venv/bin/python" --no-deps --requirement "$root/requirements.lock"
    "$uv" pip install --quiet --python "$root/.venv/bin/python" --no-deps --editable "$root"
    echo "$wanted" > "$mark"
}

# Convolutions run about twice as fast if freed memory is kept by the process instead of returned to the system.
export MALLOC_MMAP_THRESHOLD_=2000000000 MALLOC_TRIM_THRESHOLD_=2000000000
