#!/usr/bin/env bash
# Installs with apt-get what the tests start and what is not there yet; none of it is left running. With `images`, also
# what builds and runs container images; with `etcd`, also what an API server of Kubernetes keeps its objects in.
set -euo pipefail

missing=()
ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || command -v postgres >/dev/null || missing+=(postgresql)
command -v promtool >/dev/null || missing+=(prometheus)
command -v amtool >/dev/null || missing+=(prometheus-alertmanager)
command -v openssl >/dev/null || missing+=(openssl)
command -v chromium >/dev/null || missing+=(chromium fonts-liberation)
if [ "${1:-}" = etcd ]; then
  command -v etcd >/dev/null || missing+=(etcd-server)
fi
if [ "${1:-}" = images ]; then
  for tool in podman buildah runc mmdebstrap; do
    command -v "$tool" >/dev/null || missing+=("$tool")
  done
  # what `podman run --init` starts
  [ -e /usr/libexec/podman/catatonit ] || [ -e /usr/bin/catatonit ] || missing+=(catatonit)
fi
[ ${#missing[@]} -eq 0 ] && exit 0

command -v apt-get >/dev/null || {
  echo "the tests need ${missing[*]} on PATH, and there is no apt-get to install them" >&2
  exit 1
}
sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
echo "installing ${missing[*]} (apt-get) …"
# packages would start their servers otherwise; an administrator's own policy stays as it is
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  printf '#!/bin/sh\nexit 101\n' | "${sudo[@]}" tee "$policy" >/dev/null
  "${sudo[@]}" chmod +x "$policy"
  trap '"${sudo[@]}" rm -f "$policy"' EXIT
fi
"${sudo[@]}" apt-get update --quiet=2
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install --yes --quiet=2 --no-install-recommends "${missing[@]}"
