#!/usr/bin/env bash
# Tests provision.sh on a minimal system without a virtual machine: a root file system made by debootstrap, in mount,
# process and network namespaces of its own. Needs root and debootstrap; keeps the folder for another run.
#
#   try-provision.sh FOLDER SUITE MIRROR [make targets...]
#   try-provision.sh /var/tmp/bookworm bookworm http://deb.debian.org/debian demo test
#
# Installing uses this machine's network and certificates. The make targets (default: unit, demo and test) run without
# any network. Prints how long each part took.
set -euo pipefail

[ $# -ge 3 ] || { sed -n '5,6s/^# *//p' "$0" >&2; exit 2; }
root=$1 suite=$2 mirror=$3
shift 3
[ $# -gt 0 ] || set -- unit demo test
source=$(cd "$(dirname "$0")/.." && pwd)
inside="$source/vagrant/in-root.sh"
project=/home/vagrant/mrc-testbed

part() {
  local name=$1 began=$SECONDS
  shift
  "$@"
  echo "== $name: $((SECONDS - began)) s"
}

make_root() {
  [ -e "$root/etc/os-release" ] || debootstrap --variant=minbase "$suite" "$root" "$mirror" >"$root.log" 2>&1 ||
    { tail -3 "$root.log" >&2; exit 1; }
  cp /etc/resolv.conf "$root/etc/"
  ! [[ $suite =~ ^(jammy|noble|resolute)$ ]] ||
    echo "deb $mirror $suite main universe" >"$root/etc/apt/sources.list"
  # This machine's certificates, in case it reaches package indexes through a proxy.
  mkdir -p "$root/usr/local/share/ca-certificates" "$root/etc/ssl/certs"
  cp /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/trusted-here.crt"
  printf '[global]\ncert = /etc/ssl/trusted-here.crt\n' >"$root/etc/pip.conf"
  local id="vagrant:x:1000:1000::/home/vagrant:/bin/bash"
  grep -q "^vagrant:" "$root/etc/passwd" || { echo "$id" >>"$root/etc/passwd"; echo "vagrant:x:1000:" >>"$root/etc/group"; }
  rm -rf "$root$project"
  mkdir -p "$root$project"
  (cd "$source" && git ls-files -z | tar --null -T - -c) | tar -x -C "$root$project"
  chown -R 1000:1000 "$root/home/vagrant"
}

part "root of $suite" make_root
part "provision.sh" "$inside" "$root" env P4_REPOSITORY="${P4_REPOSITORY:-none}" "$project/vagrant/provision.sh" "$project"
part "scripts/install dev" "$inside" "$root" "$project/scripts/install" dev
for target in "$@"; do
  part "make $target" "$inside" "$root" --net env CI="${CI:-}" make --no-print-directory -C "$project" "$target"
done
