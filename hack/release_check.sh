#!/usr/bin/env bash
# Checks the files that `make release` wrote: that they are all there with the right checksums, that the programs for this
# machine report the version, and that the manifests and the chart install the image of the release.
# Usage: hack/release_check.sh DIRECTORY VERSION
set -euo pipefail
out=$1 version=$2
fail() { echo "Error: $*" >&2; exit 1; }

cd "$out"
sha256sum --check --quiet checksums.txt || fail "a checksum is wrong"
for file in *; do
  if [[ $file != checksums.txt ]]; then grep --quiet --fixed-strings "  $file" checksums.txt || fail "checksums.txt lacks $file"; fi
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
platform=$(go env GOOS)_$(go env GOARCH)
for program in manager kubectl-berth; do
  tar --extract --gzip --file="${program}_${version}_$platform.tar.gz" --directory="$work"
  says=$("$work/$program" --version)
  [[ " $says " == *" $version "* ]] || fail "$program reports the version: $says"
done
archives=0
while read -r name sum; do
  [[ $(sha256sum "$name" | cut -d' ' -f1) == "$sum" ]] || fail "krew.yaml has another checksum of $name"
  archives=$((archives + 1))
done < <(sed -n -e 's,^ *uri: .*/,,p' -e 's,^ *sha256: ,,p' krew.yaml | paste - -)
[[ $archives == $(find . -name 'kubectl-berth_*.tar.gz' | wc -l) ]] || fail "krew.yaml lists $archives archives"
grep --quiet "image: ghcr.io/berth-dev/berth:$version\$" install.yaml || fail "install.yaml does not install the image of $version"
tar --extract --gzip --to-stdout --file="berth-${version#v}.tgz" berth/Chart.yaml | grep --quiet "^appVersion: .*${version#v}" ||
  fail "the chart is not of $version"
echo "The files of $version are complete"
