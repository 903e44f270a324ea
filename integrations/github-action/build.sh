#!/bin/bash
# SPDX-License-Identifier: MIT
# Builds and installs the memplan that this action came with, on a runner with apt.
set -euo pipefail
source=$(realpath "$(dirname "$0")/../..")
sudo apt-get -qq update
sudo apt-get -qq install -y --no-install-recommends gcc meson ninja-build pkg-config libjansson-dev \
    libpcre2-dev libcminpack-dev libyaml-dev libsmartcols-dev
meson setup "$RUNNER_TEMP/memplan" "$source" --prefix="$HOME/.local" --buildtype=release -Dtests=disabled \
    -Dexamples=false
meson install -C "$RUNNER_TEMP/memplan"
echo "$HOME/.local/bin" >>"$GITHUB_PATH"
