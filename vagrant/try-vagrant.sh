#!/usr/bin/env bash
# Runs `vagrant up` with libvirt on a machine where no libvirt runs, and that needs to have neither KVM nor systemd.
#
#   try-vagrant.sh FOLDER [COMMAND in the machine]
#
# libvirt, its networks, Vagrant and the machine are in network, mount and process namespaces of their own, so that nothing
# of this machine's libvirt is touched and nothing outlives the script; the machine reaches no network. Its box is
# libvirt.box in .cache/vm (make vm-box). FOLDER (10 GB) has their files, and is emptied. Needs root and what Debian has:
# apt-get install --no-install-recommends vagrant vagrant-libvirt libvirt-daemon-system libvirt-clients dnsmasq-base rsync
set -euo pipefail

usage="usage: try-vagrant.sh FOLDER [COMMAND in the machine]"
command=${2:-'uname -r; cd mrc-testbed && sudo .venv/bin/mrc doctor'}
here=$(cd "$(dirname "$0")" && pwd)

fail() { echo "$*" >&2; exit 1; }

part() {
  local name=$1 began=$SECONDS
  shift
  "$@"
  echo "== $name: $((SECONDS - began)) s"
}

# Images on the disk, not in memory; what daemons keep in /run is this namespace's. Without machined, udev and virtlogd.
start_libvirt() {
  mkdir -p "$folder"/{lib,etc,cache}
  chmod 755 "$folder" "$folder"/*
  cp -a /etc/libvirt/. "$folder/etc"
  cat >>"$folder/etc/qemu.conf" <<'CONFIG'
security_driver = "none"
cgroup_controllers = []
stdio_handler = "file"
user = "root"
group = "root"
CONFIG
  mount --bind "$folder/etc" /etc/libvirt
  mount --bind "$folder/lib" /var/lib/libvirt
  mount --bind "$folder/cache" /var/cache/libvirt
  mount -t tmpfs tmpfs /run
  ip link set lo up
  libvirtd >"$folder/libvirtd.log" 2>&1 &
  local attempt
  for attempt in $(seq 60); do
    ! virsh -q -c qemu:///system list >/dev/null 2>&1 || return 0
    sleep 0.5
  done
  tail -3 "$folder/libvirtd.log" >&2
  fail "libvirtd did not start within $((attempt / 2)) s."
}

# Of a line of progress, only how it ends.
up() { vagrant up --provider libvirt --no-color | sed -u 's/.*\r//'; }

inside() {
  export VAGRANT_HOME=$folder/home VAGRANT_DOTFILE_PATH=$folder/machine VAGRANT_CHECKPOINT_DISABLE=1 MRC_BOX=built
  cd "$here"
  part "libvirt" start_libvirt
  part "vagrant up" up
  part "$command" vagrant ssh --no-color -c "$command"
  part "vagrant destroy" vagrant destroy --force --no-color
}

if [ "${1:-}" = --inside ]; then
  folder=$2 command=$3
  inside
  exit
fi
[ $# -ge 1 ] || fail "$usage"
[ "$(id -u)" = 0 ] || fail "libvirt takes root: run this with sudo."
for tool in vagrant libvirtd virsh dnsmasq rsync; do
  [ -n "$(PATH=$PATH:/usr/sbin command -v "$tool")" ] || fail "$tool is missing: apt-get install what the head of $0 lists."
done
[ -f "$here/../.cache/vm/libvirt.box" ] || fail "There is no box in .cache/vm: make it with 'sudo make vm' and 'make vm-box'."
mkdir -p "$1"
folder=$(cd "$1" && pwd)
[ -z "$(ls -A "$folder")" ] || [ -e "$folder/of-try-vagrant" ] || fail "$folder has files of something else: name an empty folder."
rm -rf --one-file-system "${folder:?}"/*
touch "$folder/of-try-vagrant"
exec unshare --net --mount --propagation private --pid --fork --kill-child --mount-proc "$0" --inside "$folder" "$command"
