#!/bin/sh
# Install Debian packages for the tests of the R package, unless R has them: install_r.sh PACKAGE …
# A package r-cran-NAME is R's package NAME. Nothing is asked: without the right to install, the
# command to run is the error message.
set -eu

present() {
    command -v Rscript >/dev/null || return 1
    for package in "$@"; do
        case $package in
        r-cran-*) Rscript -e "library(${package#r-cran-})" >/dev/null 2>&1 || return 1 ;;
        esac
    done
}

present "$@" && exit 0
command="env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $*"
if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update && $command
elif command -v apt-get >/dev/null && sudo -n true 2>/dev/null; then
    sudo apt-get update && sudo $command
else
    echo "The tests of the R package need R with reticulate and testthat. Install them:" >&2
    echo "    $command" >&2
    echo "or leave these tests out: make test TEST_R=0" >&2
    exit 1
fi
present "$@" || { echo "R still lacks some of: $*" >&2; exit 1; }
