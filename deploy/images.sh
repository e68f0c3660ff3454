#!/usr/bin/env bash
# Every image of Countersign, from binaries that are compiled here with this machine's Go (deploy/Dockerfile, target
# prebuilt): no image is pulled. `docker compose build` makes the same from an image of Go.
#
#   VERSION=v1.2.3 ARCH=arm64 deploy/images.sh
set -euo pipefail
cd "$(dirname "$0")/.."
docker=${DOCKER:-docker}
arch=${ARCH:-$(go env GOARCH)}
version=${VERSION:-devel}
revision=$(git -c safe.directory='*' rev-parse HEAD 2>/dev/null || echo unknown)
authorities=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}
images='ingress invalidator fanout evaluator reconciler countersign githubsim'
contexts=.cache/images/$arch

[ -r "$authorities" ] || { echo "$authorities is missing: install ca-certificates, or name another bundle with SSL_CERT_FILE" >&2; exit 1; }
mkdir -p "$contexts/bin"
# One compilation for all of them.
packages=()
for image in $images; do packages+=("./cmd/$image"); done
CGO_ENABLED=0 GOOS=linux GOARCH=$arch GOFLAGS=-buildvcs=false go build -trimpath \
  -ldflags "-s -w -X github.com/countersign/countersign/pkg/daemon.version=$version" -o "$contexts/bin/" "${packages[@]}"

for image in $images; do
  context=$contexts/$image
  rm -rf "$context" && mkdir -p "$context"
  ln "$contexts/bin/$image" "$context/service"
  cp "$authorities" "$context/ca-certificates.crt"
  # The architecture is written where the builder would take its own.
  "$docker" build --quiet --file deploy/Dockerfile --target prebuilt ${ARCH:+--platform "linux/$arch"} \
    --build-arg "SERVICE=$image" --build-arg "VERSION=$version" --build-arg "REVISION=$revision" \
    --tag "countersign/$image:$version" "$context" > /dev/null
  "$docker" image inspect --format "countersign/$image:$version {{.Architecture}} {{.Size}} bytes" "countersign/$image:$version"
done
