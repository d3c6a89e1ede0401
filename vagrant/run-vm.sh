#!/usr/bin/env bash
# Boots the virtual machine that build-vm.sh has made: `make vm-run`. The console is this terminal (Ctrl-a x ends it).
#
#   run-vm.sh FOLDER [--snapshot] [QEMU options...]
#
# With KVM where this machine has it, else, or with MRC_VM_KVM=no, with QEMU's own, slow translation. ssh is forwarded
# from port 2222 of this machine's loopback and the web page from 8080 (MRC_VM_SSH_PORT, MRC_VM_WEB_PORT). MRC_CPUS and
# MRC_MEMORY (MB) are as for Vagrant. With --snapshot nothing of what happens in it is kept.
set -euo pipefail

folder=${1:?usage: run-vm.sh FOLDER [--snapshot] [QEMU options...]}
shift
cpus=${MRC_CPUS:-2} memory=${MRC_MEMORY:-4096}
ssh_port=${MRC_VM_SSH_PORT:-2222} web_port=${MRC_VM_WEB_PORT:-8080}

fail() { echo "$*" >&2; exit 1; }

[ -f "$folder/disk.qcow2" ] || fail "There is no virtual machine in $folder: build it with 'sudo make vm'."
case $(uname -m) in
  # Without arch-capabilities, which a machine that is virtual itself may refuse to pass on.
  x86_64) qemu=qemu-system-x86_64 console=ttyS0 machine=q35 host_cpu="host,arch-capabilities=off" ;;
  aarch64) qemu=qemu-system-aarch64 console=ttyAMA0 machine=virt host_cpu="host" ;;
  *) fail "run-vm.sh knows x86-64 and arm64, not $(uname -m)." ;;
esac
command -v "$qemu" >/dev/null || fail "$qemu is missing: vagrant/install-vm-tools installs it."
exec 9>"$folder/lock"
flock -n 9 || fail "Another process builds or runs the virtual machine in $folder."

snapshot=()
[ "${1:-}" != --snapshot ] || { snapshot=(-snapshot); shift; }
if [ -w /dev/kvm ] && [ "${MRC_VM_KVM:-yes}" != no ]; then
  accelerator=(-accel kvm -cpu "$host_cpu")
else
  echo "Without KVM, which is not here, not yours to use, or not wanted, the virtual machine will be slow." >&2
  accelerator=(-accel "tcg,thread=multi" -cpu max)
fi
exec "$qemu" -machine "$machine" "${accelerator[@]}" -smp "$cpus" -m "$memory" -nographic -no-reboot \
  -kernel "$folder/kernel" -initrd "$folder/initrd" -append "root=LABEL=mrc-testbed rw console=$console quiet" \
  -drive "file=$folder/disk.qcow2,if=virtio,format=qcow2" "${snapshot[@]}" -device virtio-rng-pci \
  -nic "user,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:$ssh_port-:22,hostfwd=tcp:127.0.0.1:$web_port-:8080" "$@"
