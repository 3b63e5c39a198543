#!/usr/bin/env bash
# Makes this machine ready to build OOMB: system packages, a pinned Python environment outside the clone, and the link
# build/env to it. Run it as often as you like; when all is there it only looks.
#
#   setup/setup.sh [--lint]
#
# --lint   also the checkers of `make lint` and `make fuzz`, and the browser in which tests open pages; where they cannot be
#          had it says so and goes on
# OOMB_HOME   where environments and demo data are kept (default: ~/.cache/oomb)
# PYTHON      the interpreter to use (default: the first of python3, python3.13, python3.12, python3.11 that is 3.11 or newer)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

oomb_home=$(realpath -m "${OOMB_HOME:-${HOME:?HOME is not set: set OOMB_HOME}/.cache/oomb}")
readonly oomb_home
readonly lock_file=setup/requirements.lock
# Packages of which only the C++ headers are used: installed beside the environment's own packages, without what their
# Python parts would bring.
readonly headers_lock_file=setup/headers.lock
readonly no_python='Python 3.11 or newer is needed; PYTHON=/path/to/python3 names one that is not on the search path'

say() { printf '==> %s\n' "$*"; }
die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# True when the compiler finds the header: it may come from anywhere, not only from the distribution.
has_header() {
    printf '#if !__has_include(<%s>)\n#error missing\n#endif\n' "$1" | g++ -fsyntax-only -x c++ - 2>/dev/null
}

# Debian's name of the package that brings venv to the interpreter found.
venv_package() {
    case $(basename "$1") in
        python3) echo python3-venv ;;
        *) echo "$(basename "$1")-venv" ;;
    esac
}

missing_packages() {
    local tool header python
    for tool in g++ make git; do
        command -v "$tool" >/dev/null || echo "$tool"
    done
    [[ -e /etc/ssl/certs/ca-certificates.crt || -e /etc/pki/tls/cert.pem ]] || echo ca-certificates
    if ! python=$(find_python); then
        printf '%s\n' python3 python3-venv
    elif ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        venv_package "$python"
    fi
    while read -r header package; do
        has_header "$header" || echo "$package"
    done <<'HEADERS'
nlohmann/json.hpp nlohmann-json3-dev
fmt/format.h libfmt-dev
CLI/CLI.hpp libcli11-dev
sqlite3.h libsqlite3-dev
xxhash.h libxxhash-dev
doctest/doctest.h doctest-dev
benchmark/benchmark.h libbenchmark-dev
HEADERS
}

missing_lint_packages() {
    local tool
    for tool in clang-format-16 clang-tidy-16; do
        command -v "$tool" >/dev/null || echo "$tool"
    done
    # libFuzzer
    [[ -n $(clang++-16 -print-file-name=libclang_rt.fuzzer-x86_64.a 2>/dev/null | grep /) ]] ||
        printf '%s\n' clang-16 libclang-rt-16-dev
}

# Prints what to put before apt-get; fails where installing is not permitted or there is no apt-get.
apt_prefix() {
    command -v apt-get >/dev/null || return 1
    if [[ $(id -u) == 0 ]]; then
        echo env
    else
        sudo -n true 2>/dev/null && echo 'sudo -n env'
    fi
}

apt_install() {
    local prefix
    prefix=$(apt_prefix) || return 1
    say "installing system packages: $*"
    # shellcheck disable=SC2086  # the prefix is words
    $prefix apt-get -q -o DPkg::Lock::Timeout=300 update &&
        $prefix DEBIAN_FRONTEND=noninteractive apt-get -q -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
            install --no-install-recommends "$@"
}

system_packages() {
    local -a missing optional=()
    mapfile -t missing < <(missing_packages)
    if ((${#missing[@]} == 0)); then
        say 'system packages: all there'
        return
    fi
    command -v ccache >/dev/null || optional=(ccache)
    apt_install "${missing[@]}" "${optional[@]}" ||
        die "some packages are missing and could not be installed from here. Run this once (on Debian or Ubuntu;
elsewhere install the same libraries), then start again:
    sudo apt-get install ${missing[*]}"
    find_python >/dev/null || die "$no_python"
    mapfile -t missing < <(missing_packages)
    ((${#missing[@]} == 0)) || die "still missing after the installation: ${missing[*]}"
}

lint_packages() {
    local -a missing
    mapfile -t missing < <(missing_lint_packages)
    ((${#missing[@]} == 0)) && return
    apt_install "${missing[@]}" || say "note: ${missing[*]} cannot be had here; the checks that need them are left out"
}

browser_package() {
    local name
    for name in chromium chromium-browser google-chrome; do
        command -v "$name" >/dev/null && return
    done
    apt_install chromium || say 'note: chromium cannot be had here; the tests that open pages are left out'
}

# One environment per lock file and Python version. A virtual environment cannot be renamed (its scripts hold its path),
# so the file .complete, written last, tells a whole one from one whose installation was interrupted.
python_environment() {
    local python key env
    python=$(find_python) || die "$no_python"
    key=$({
        cat "$lock_file" "$headers_lock_file"
        "$python" -c 'import platform; print(platform.python_version(), platform.machine())'
    } | sha256sum | cut -c1-12)
    env=$oomb_home/env-$key
    mkdir -p "$oomb_home" build
    if [[ ! -e $env/.complete ]]; then
        exec {guard}>"$oomb_home/setup.lock"
        flock -n "$guard" || { say 'another set-up is at work here: waiting for it' && flock "$guard"; }
        [[ -e $env/.complete ]] || make_environment "$python" "$env"
        exec {guard}>&-
    fi
    ln -sfn "$env" build/env
    say "Python environment: $env"
}

make_environment() {
    local python=$1 env=$2 other
    say "making the Python environment $env (about 5 GB, a few minutes)"
    rm -rf "$env"
    "$python" -m venv "$env"
    "$env/bin/python" -m pip install --requirement "$lock_file"
    "$env/bin/python" -m pip check
    "$env/bin/python" -m pip install --no-deps --target "$env/headers" --requirement "$headers_lock_file"
    touch "$env/.complete"
    for other in "$oomb_home"/env-*; do
        [[ $other == "$env" ]] || say "note: $other is of another lock file or Python; remove it when no clone needs it"
    done
}

main() {
    local lint=no
    case ${1-} in
        '') ;;
        --lint) lint=yes ;;
        *) die "unknown argument '$1'; the only one there is: --lint" ;;
    esac
    system_packages
    [[ $lint == no ]] || { lint_packages && browser_package; }
    python_environment
}

main "$@"
