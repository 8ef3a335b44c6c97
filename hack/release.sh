#!/usr/bin/env bash
# Writes the files that a release publishes into a directory: for each platform an archive of the manager and one of the
# kubectl plugin, the plugin's manifest for krew, the modules of each manager (SPDX), install.yaml, the chart, and checksums.txt. `make release` builds the
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

# pack NAME FILE... writes the archive NAME.tar.gz with the files and the license.
pack() {
  cp LICENSE "$work/"
  tar --create --sort=name --owner=0 --group=0 --numeric-owner --mode=a+rX,u+w,go-w --mtime="@$date" \
    --directory="$work" LICENSE "${@:2}" | gzip --no-name --best > "$out/$1.tar.gz"
  (cd "$work" && rm "${@:2}")
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
  cp cmd/kubectl-berth/kubectl_complete-berth "$work/"
  pack "kubectl-berth_${version}_${platform/\//_}" "$program" kubectl_complete-berth
done

# The manifest for krew, the plugin manager of kubectl.
{
  cat <<MANIFEST
apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: berth
spec:
  version: $version
  homepage: https://github.com/berth-dev/berth
  shortDescription: Explain, predict, and test placement policies
  description: |
    Explains why workloads are placed as they are, shows what a change of a policy or a
    cluster would move or deny before you make it, and tests policies without a cluster.
  platforms:
MANIFEST
  for platform in ${plugin_platforms//,/ }; do
    archive=kubectl-berth_${version}_${platform/\//_}.tar.gz
    program=kubectl-berth
    if [[ $platform == windows/* ]]; then program+=.exe; fi
    cat <<MANIFEST
  - selector:
      matchLabels: {os: ${platform%/*}, arch: ${platform#*/}}
    uri: https://github.com/berth-dev/berth/releases/download/$version/$archive
    sha256: $(sha256sum "$out/$archive" | cut -d' ' -f1)
    bin: $program
MANIFEST
  done
} > "$out/krew.yaml"

cp dist/install.yaml "$out/"
cp "dist/berth-${version#v}.tgz" "$out/"
(cd "$out" && sha256sum -- * > "$work/checksums.txt" && mv "$work/checksums.txt" .)
ls -l "$out"
