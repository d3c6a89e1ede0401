#!/usr/bin/env bash
# Runs a command in a root file system as process 1 of its own mount and process namespaces, with an empty environment.
#
#   in-root.sh FOLDER [--net] COMMAND...
#
# The root becomes a mount point, as mnexec needs. With --net it has a network namespace too, without any network.
set -euo pipefail

root=${1:?usage: in-root.sh FOLDER [--net] COMMAND...}
shift
namespaces=(--mount --propagation private --pid --fork --kill-child)
[ "${1:-}" != --net ] || { namespaces+=(--net); shift; }
# shellcheck disable=SC2016
exec unshare "${namespaces[@]}" sh -euc '
  root=$1; shift
  mount --bind "$root" "$root"
  mount --rbind /dev "$root/dev"
  mount -t proc proc "$root/proc"
  mount -t sysfs sysfs "$root/sys"
  mount -t tmpfs tmpfs "$root/run"
  mount -t tmpfs tmpfs "$root/tmp"
  mkdir -p "$root/mnt"
  cd "$root"
  pivot_root . mnt
  umount -l /mnt
  ip link set lo up 2>/dev/null || true
  exec env -i HOME=/root TERM=dumb LANG=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
' sh "$root" "$@"
