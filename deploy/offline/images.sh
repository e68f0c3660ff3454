#!/usr/bin/env bash
# Stand-ins for the images of Postgres, NATS and Prometheus where none can be pulled, under the names that compose.yaml asks
# for: Debian's packages on a root made by debootstrap, and nats-server built from its Go module. For this machine only: they
# are for trying and testing, and are not the official images. As root, on Debian, with docker, debootstrap and Go.
#
#   deploy/offline/images.sh [cache directory]
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${1:-.cache/offline}
docker=${DOCKER:-docker}
release=bookworm
mkdir -p "$cache"

# The name that compose.yaml uses where the variable is not set.
name() { sed -n "s/.*image: *\${$1:-\([^}]*\)}.*/\1/p" deploy/compose.yaml | head -n 1; }

# One root for Postgres and Prometheus. A run that was interrupted leaves no root.
if [ ! -d "$cache/root" ]; then
  rm -rf "$cache/root.new"
  debootstrap --variant=minbase "$release" "$cache/root.new"
  # Nothing of a package may start a server on this machine.
  printf '#!/bin/sh\nexit 101\n' > "$cache/root.new/usr/sbin/policy-rc.d"
  chmod +x "$cache/root.new/usr/sbin/policy-rc.d"
  cp /etc/resolv.conf "$cache/root.new/etc/resolv.conf"
  for from in /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d; do
    if [ -e "$from" ]; then cp -a "$from" "$cache/root.new/etc/apt/"; fi
  done
  DEBIAN_FRONTEND=noninteractive chroot "$cache/root.new" sh -ec '
    apt-get update -q
    apt-get install -q -y --no-install-recommends -o Dpkg::Options::=--force-unsafe-io postgresql-15 prometheus busybox-static
    apt-get clean
    rm -rf /var/lib/apt/lists/* /usr/share/doc/* /usr/share/man/* /var/lib/postgresql/* /var/cache/*'
  rm -f "$cache/root.new/etc/resolv.conf"
  mv "$cache/root.new" "$cache/root"
fi
base=countersign-offline/debian:$release
tar -C "$cache/root" -c . | "$docker" import - "$base" > /dev/null

# nats-server at the version that the tests use, and busybox for its health check.
context=$cache/nats
rm -rf "$context" && mkdir -p "$context"
CGO_ENABLED=0 GOFLAGS=-buildvcs=false go build -trimpath -ldflags '-s -w' -o "$context/nats-server" github.com/nats-io/nats-server/v2
cp "$cache/root/bin/busybox" "$context/busybox"

build() {
  local variable=$1 file=$2 context=$3 tag
  tag=$(name "$variable")
  [ -n "$tag" ] || { echo "deploy/compose.yaml names no image with $variable" >&2; return 1; }
  "$docker" build --quiet --file "deploy/offline/$file" --build-arg "BASE=$base" --label "io.countersign.stand-in=$release" --tag "$tag" "$context" > /dev/null
  "$docker" image inspect --format "$tag, a stand-in of {{.Size}} bytes" "$tag"
}
build POSTGRES_IMAGE postgres.Dockerfile deploy/offline
build NATS_IMAGE nats.Dockerfile "$context"
build PROMETHEUS_IMAGE prometheus.Dockerfile deploy/offline
