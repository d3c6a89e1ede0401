#!/usr/bin/env bash
# Runs integration tests in the virtual machine that build-vm.sh has made: `make vm-test`.
#
#   test-vm.sh FOLDER RESULTS [pytest options and files...]
#
# Boots it with nothing kept, copies this checkout into it, runs the tests as root (default: those with soft-RoCE, those
# whose switches the kernel is, and those that bring fabrics up and break them) and brings back a JUnit file, pytest's
# output, the kernel's messages and what machine it was. A machine that hangs with KVM, as it may where this machine is
# virtual itself, is booted once more without. Then everything takes many times as long: each test may take half an
# hour, and verdicts on timing are off because nothing in these tests has one. The exit status is pytest's.
set -euo pipefail

[ $# -ge 2 ] || { echo "usage: test-vm.sh FOLDER RESULTS [pytest options and files...]" >&2; exit 2; }
folder=$(cd "$1" 2>/dev/null && pwd) || { echo "There is no folder $1: build the machine with 'sudo make vm'." >&2; exit 1; }
results=$2
shift 2
here=$(cd "$(dirname "$0")" && pwd)
# What only a kernel of its own shows, and what stands for the rest of the testbed: agents, fabrics, faults, a prompt.
[ $# -gt 0 ] || set -- tests/integration/test_{soft_roce,kernel_switch,agent,fabric,controller,prompt}.py
export MRC_VM_SSH_PORT=${MRC_VM_SSH_PORT:-2222}
boot_seconds=${MRC_VM_BOOT_SECONDS:-900}
kvm_seconds=${MRC_VM_KVM_SECONDS:-120} # until a machine that KVM runs counts as hanging; it boots in 20
test_seconds=${MRC_VM_TEST_SECONDS:-1800}
ready_seconds=${MRC_READY_SECONDS:-900} # for a fabric's processes to get ready
project=/home/vagrant/mrc-testbed

in_vm() {
  ssh -q -i "$folder/ssh_key" -p "$MRC_VM_SSH_PORT" -o BatchMode=yes -o ConnectTimeout=10 -o LogLevel=ERROR \
    -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null vagrant@127.0.0.1 "$@"
}

# Boots it, and waits until it answers, for so many seconds; fails if it does not.
boot() {
  local began=$SECONDS seconds=$1
  "$here/run-vm.sh" "$folder" --snapshot </dev/null >"$results/console.log" 2>&1 &
  vm=$!
  until in_vm true </dev/null 2>/dev/null; do
    kill -0 "$vm" 2>/dev/null || { tail -3 "$results/console.log" >&2; exit 1; }
    [ $((SECONDS - began)) -lt "$seconds" ] || { echo "It did not boot within $seconds s." >&2; return 1; }
    sleep 1
  done
  echo "== boot: $((SECONDS - began)) s"
}

# shellcheck disable=SC2317,SC2329 # the trap calls it
shut_down() {
  [ -n "${vm:-}" ] || return 0
  kill "$vm" 2>/dev/null || true # -snapshot: there is nothing to lose
  wait "$vm" 2>/dev/null || true
  vm=""
}

mkdir -p "$results"
trap shut_down EXIT
if [ -w /dev/kvm ] && [ "${MRC_VM_KVM:-yes}" != no ] && ! boot "$kvm_seconds"; then
  echo "Once more, without KVM, which is slow." >&2
  shut_down
  export MRC_VM_KVM=no
fi
[ -n "${vm:-}" ] || boot "$boot_seconds" || exit 1
(cd "$here/.." && git ls-files -z | tar --null -T - -c) | in_vm "tar -x -C $project"
# The machine has compiled the sources that it was built with; with others, tests would run on plain Python.
in_vm "cd $project && .venv/bin/python -m scripts.compile_transport" </dev/null || true
in_vm "uname -r; systemd-detect-virt; sudo $project/.venv/bin/mrc doctor" </dev/null >"$results/machine.txt" || true
began=$SECONDS status=0
printf -v words ' %q' "$@"
in_vm "cd $project && sudo MRC_READY_SECONDS=$ready_seconds .venv/bin/python -m pytest -m root --timeout $test_seconds --junitxml /tmp/junit.xml $words" \
  </dev/null 2>&1 | tee "$results/pytest.log" || status=${PIPESTATUS[0]}
echo "== tests: $((SECONDS - began)) s"
in_vm cat /tmp/junit.xml </dev/null >"$results/junit.xml" || true
in_vm sudo dmesg </dev/null >"$results/dmesg.txt" || true
exit "$status"
