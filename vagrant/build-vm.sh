#!/usr/bin/env bash
# Builds a virtual machine with everything in it from Debian packages alone, for those without Vagrant: `make vm`.
#
#   build-vm.sh FOLDER
#
# mmdebstrap makes Debian 12 with its ordinary kernel (the cloud kernel has no soft-RoCE), provision.sh and the installer
# do in it what they do in Vagrant's machine, and mke2fs makes a file system of it without mounting one. FOLDER then has
# disk.qcow2, and kernel, initrd and the ssh key with which run-vm.sh boots it. Nothing is replaced before all is there.
# Needs root, mmdebstrap and qemu-utils. MRC_VM_SUITE and MRC_VM_MIRROR choose another Debian; MRC_VM_SIZE is the disk's.
set -euo pipefail

folder=${1:?usage: build-vm.sh FOLDER}
suite=${MRC_VM_SUITE:-bookworm} mirror=${MRC_VM_MIRROR:-http://deb.debian.org/debian} size=${MRC_VM_SIZE:-12G}
source=$(cd "$(dirname "$0")/.." && pwd)
project=/home/vagrant/mrc-testbed
packages=(linux-image-"$(dpkg --print-architecture)" systemd-sysv udev dbus openssh-server sudo kmod iproute2 ca-certificates)
here_trusted=/etc/ssl/certs/ca-certificates.crt

fail() { echo "$*" >&2; exit 1; }

part() {
  local name=$1 began=$SECONDS
  shift
  "$@"
  echo "== $name: $((SECONDS - began)) s"
}

make_root() {
  mmdebstrap --quiet --mode=root --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" \
    --components=main "$suite" "$root" "$mirror" >"$scratch/mmdebstrap.log" 2>&1 \
    || { tail -3 "$scratch/mmdebstrap.log" >&2; fail "mmdebstrap could not make the root file system from $mirror"; }
}

# A user, a network card that asks for an address, and the disk; the console logs root in.
configure() {
  inside useradd --create-home --shell /bin/bash --groups sudo vagrant
  echo "vagrant ALL=(ALL) NOPASSWD: ALL" >"$root/etc/sudoers.d/vagrant"
  echo mrc-testbed >"$root/etc/hostname"
  echo "127.0.0.1 localhost mrc-testbed" >"$root/etc/hosts"
  echo "/dev/vda / ext4 noatime 0 1" >"$root/etc/fstab"
  printf '[Match]\nName=en* eth*\n[Network]\nDHCP=yes\n' >"$root/etc/systemd/network/wired.network"
  inside systemctl --quiet enable systemd-networkd
  mkdir -p "$root/etc/systemd/system/serial-getty@ttyS0.service.d"
  printf '[Service]\nExecStart=\nExecStart=-/sbin/agetty --autologin root --noclear %%I linux\n' \
    >"$root/etc/systemd/system/serial-getty@ttyS0.service.d/autologin.conf"
  ssh-keygen -q -t ed25519 -N "" -C mrc-testbed-vm -f "$scratch/ssh_key"
  install -d -m 700 "$root/home/vagrant/.ssh"
  install -m 600 "$scratch/ssh_key.pub" "$root/home/vagrant/.ssh/authorized_keys"
}

copy_project() {
  mkdir -p "$root$project"
  (cd "$source" && git ls-files -z | tar --null -T - -c) | tar -x -C "$root$project"
  inside chown -R vagrant:vagrant /home/vagrant
}

# This machine's resolver and certificates serve while packages are installed, and are not left in the image.
provision() {
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  cp "$here_trusted" "$root/etc/ssl/trusted-here.crt"
  printf '[global]\ncert = /etc/ssl/trusted-here.crt\n' >"$root/etc/pip.conf"
  inside env P4_REPOSITORY="${P4_REPOSITORY:-}" "$project/vagrant/provision.sh" "$project"
  inside env SUDO_UID=1000 SUDO_GID=1000 "$project/scripts/install" dev
  rm -f "$root/etc/pip.conf" "$root/etc/ssl/trusted-here.crt"
  echo "nameserver 10.0.2.3" >"$root/etc/resolv.conf" # QEMU's
  inside apt-get clean
  rm -rf "$root"/var/lib/apt/lists/* "$root/root/.cache/pip"
}

make_disk() {
  cp -L "$root/vmlinuz" "$scratch/kernel"
  cp -L "$root/initrd.img" "$scratch/initrd"
  truncate -s "$size" "$scratch/disk.raw"
  mke2fs -q -t ext4 -d "$root" "$scratch/disk.raw"
  qemu-img convert -c -O qcow2 "$scratch/disk.raw" "$scratch/disk.qcow2"
}

inside() { "$source/vagrant/in-root.sh" "$root" "$@"; }

[ "$(id -u)" = 0 ] || fail "The virtual machine is built as root: run this with sudo."
for tool in mmdebstrap qemu-img mke2fs ssh-keygen git; do
  command -v "$tool" >/dev/null || fail "$tool is missing: apt-get install mmdebstrap qemu-utils e2fsprogs openssh-client git"
done
mkdir -p "$folder"
exec 9>"$folder/lock"
flock -n 9 || fail "Another process builds or runs a virtual machine in $folder."
scratch=$(mktemp -d "$folder/building-XXXXXX")
root=$scratch/root
trap 'rm -rf --one-file-system "$scratch"' EXIT

part "root of $suite" make_root
part "user, network, ssh" configure
part "copy of the project" copy_project
part "provisioning" provision
part "disk" make_disk
rm -rf --one-file-system "$root" "$scratch/disk.raw"
chmod 600 "$scratch/ssh_key"
mv -f "$scratch"/{kernel,initrd,ssh_key,disk.qcow2} "$folder/"
[ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:-$SUDO_UID}" "$folder"
echo "$folder/disk.qcow2: $(du -h "$folder/disk.qcow2" | cut -f1); make vm-run boots it"
