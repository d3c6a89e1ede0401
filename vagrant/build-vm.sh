#!/usr/bin/env bash
# Builds a virtual machine with everything in it from Debian packages alone, for those without Vagrant: `make vm`.
#
#   build-vm.sh FOLDER
#
# mmdebstrap makes Debian 12 with its ordinary kernel (the cloud kernel has no soft-RoCE), provision.sh and the installer
# do in it what they do in Vagrant's machine, and mke2fs makes a file system of it without mounting one. FOLDER then has
# disk.qcow2, with a boot loader on x86-64 for those who boot it as a disk (make-box.sh), and kernel, initrd and the ssh
# key with which run-vm.sh boots it. Nothing is replaced before all is there. Needs root and what install-vm-tools
# installs. MRC_VM_SUITE and MRC_VM_MIRROR choose another Debian; MRC_VM_SIZE is the disk's.
set -euo pipefail

folder=${1:?usage: build-vm.sh FOLDER}
suite=${MRC_VM_SUITE:-bookworm} mirror=${MRC_VM_MIRROR:-http://deb.debian.org/debian} size=${MRC_VM_SIZE:-12G}
source=$(cd "$(dirname "$0")/.." && pwd)
project=/home/vagrant/mrc-testbed
architecture=$(dpkg --print-architecture)
# Vagrant copies folders with rsync; the tests with soft-RoCE take the last three.
packages=(linux-image-"$architecture" systemd-sysv systemd-resolved udev dbus openssh-server sudo kmod iproute2
  ca-certificates rsync rdma-core ibverbs-providers python3-pyverbs)
label=mrc-testbed
partition=2048 # first sector of the only partition; the boot loader is before it
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
  echo "LABEL=$label / ext4 noatime 0 1" >"$root/etc/fstab"
  printf '[Match]\nName=en* eth*\n[Network]\nDHCP=yes\n' >"$root/etc/systemd/network/wired.network"
  inside systemctl --quiet enable systemd-networkd systemd-resolved
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
  rm -f "$root/etc/resolv.conf"
  cp /etc/resolv.conf "$root/etc/resolv.conf"
  cp "$here_trusted" "$root/etc/ssl/trusted-here.crt"
  printf '[global]\ncert = /etc/ssl/trusted-here.crt\n' >"$root/etc/pip.conf"
  inside env P4_REPOSITORY="${P4_REPOSITORY:-}" "$project/vagrant/provision.sh" "$project"
  inside env SUDO_UID=1000 SUDO_GID=1000 "$project/scripts/install" dev
  # A simulation compiles the switch, for which a virtual machine without KVM would take minutes, into root's cache.
  inside "$project/.venv/bin/mrc" run "$project/examples/incast.yaml" --results /tmp/compiled >/dev/null
  rm -f "$root/etc/pip.conf" "$root/etc/ssl/trusted-here.crt"
  ln -sf /run/systemd/resolve/resolv.conf "$root/etc/resolv.conf"
  inside apt-get clean
  rm -rf "$root"/var/lib/apt/lists/* "$root/root/.cache/pip"
}

make_disk() {
  cp -L "$root/vmlinuz" "$scratch/kernel"
  cp -L "$root/initrd.img" "$scratch/initrd"
  truncate -s "$size" "$scratch/disk.raw"
  echo "$partition,,L,*" | sfdisk -q "$scratch/disk.raw"
  local bytes
  bytes=$(stat -c %s "$scratch/disk.raw")
  mke2fs -q -t ext4 -L "$label" -d "$root" -E offset=$((partition * 512)) "$scratch/disk.raw" $((bytes / 1024 - partition / 2))k
  [ "$architecture" != amd64 ] || install_boot_loader
  qemu-img convert -c -O qcow2 "$scratch/disk.raw" "$scratch/disk.qcow2"
}

# What grub-install writes before the first partition, without a device: its first sector, whose last bytes are the
# partition table's, and its core, here with the only thing it has to do.
install_boot_loader() {
  cat >"$scratch/boot.cfg" <<CONFIG
search --no-floppy --set=root --label $label
linux /vmlinuz root=LABEL=$label ro console=tty0 console=ttyS0
initrd /initrd.img
boot
CONFIG
  grub-mkimage -O i386-pc -p /boot/grub -c "$scratch/boot.cfg" -o "$scratch/core.img" \
    biosdisk part_msdos ext2 search search_label linux
  [ "$(stat -c %s "$scratch/core.img")" -lt $(((partition - 1) * 512)) ] || fail "The boot loader does not fit before the partition."
  dd status=none conv=notrunc of="$scratch/disk.raw" if=/usr/lib/grub/i386-pc/boot.img bs=440 count=1
  dd status=none conv=notrunc of="$scratch/disk.raw" if="$scratch/core.img" bs=512 seek=1
}

inside() { "$source/vagrant/in-root.sh" "$root" "$@"; }

[ "$(id -u)" = 0 ] || fail "The virtual machine is built as root: run this with sudo."
tools=(mmdebstrap qemu-img mke2fs sfdisk ssh-keygen git)
[ "$architecture" != amd64 ] || tools+=(grub-mkimage)
for tool in "${tools[@]}"; do
  command -v "$tool" >/dev/null || fail "$tool is missing: vagrant/install-vm-tools installs it."
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
