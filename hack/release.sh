#!/usr/bin/env bash
# Writes the files that a release publishes into a directory: for each platform an archive of the manager and one of the
# kubectl plugin, the modules of each manager (SPDX), install.yaml, the chart, and checksums.txt. `make release` builds the
# image, install.yaml, and the chart first. Equal sources, built in the same directory, give equal archives of programs.
# Usage: hack/release.sh DIRECTORY VERSION IMAGE_DIRECTORY PLATFORMS PLUGIN_PLATFORMS
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
out=$1 version=$2 images=$3 platforms=$4 plugin_platforms=$5
date=$(git log -1 --format=%ct)

rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# pack NAME FILE writes the archive NAME.tar.gz with the file and the license.
pack() {
  cp LICENSE "$work/"
  tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w,go-w --mtime="@$date" \
    --directory="$work" LICENSE "$2" | gzip --no-name --best > "$out/$1.tar.gz"
  rm "$work/$2"
}

for platform in ${platforms//,/ }; do
  cp "$images/manager-${platform/\//-}" "$work/manager"
  pack "manager_${version}_${platform/\//_}" manager
  cp "$images/manager-${platform/\//-}.spdx.json" "$out/manager_${version}_${platform/\//_}.spdx.json"
done

for platform in ${plugin_platforms//,/ }; do
  program=kubectl-berth
  if [[ $platform == windows/* ]]; then program+=.exe; fi
  GOOS=${platform%/*} GOARCH=${platform#*/} hack/progress.sh "Compiling the kubectl plugin for $platform" \
    go build -ldflags "-s -w -X main.release=$version" -o "$work/$program" ./cmd/kubectl-berth
  pack "kubectl-berth_${version}_${platform/\//_}" "$program"
done

cp dist/install.yaml "$out/"
cp "dist/berth-${version#v}.tgz" "$out/"
(cd "$out" && sha256sum -- * > "$work/checksums.txt" && mv "$work/checksums.txt" .)
ls -l "$out"
