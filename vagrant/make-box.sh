#!/usr/bin/env bash
# Packs the virtual machine that build-vm.sh has made as a box for Vagrant: `make vm-box`.
#
#   make-box.sh FOLDER [libvirt|virtualbox...]
#
# FOLDER then has libvirt.box and virtualbox.box, or the one that is asked for, which MRC_BOX=built uses (Vagrantfile).
# A box is an archive of the disk in the provider's format, what the provider must know of the machine, and the ssh key.
# Boxes are for x86-64, for which the disk has a boot loader. Needs no root, but bsdtar and qemu-img.
set -euo pipefail

folder=${1:?usage: make-box.sh FOLDER [libvirt|virtualbox...]}
shift
[ $# -gt 0 ] || set -- libvirt virtualbox

fail() { echo "$*" >&2; exit 1; }

libvirt() {
  local gigabytes=$(((bytes + (1 << 30) - 1) >> 30))
  ln "$folder/disk.qcow2" "$scratch/box.img" 2>/dev/null || cp "$folder/disk.qcow2" "$scratch/box.img"
  echo "{\"provider\": \"libvirt\", \"format\": \"qcow2\", \"virtual_size\": $gigabytes}" >"$scratch/metadata.json"
}

virtualbox() {
  qemu-img convert -O vmdk -o subformat=streamOptimized "$folder/disk.qcow2" "$scratch/disk.vmdk"
  echo '{"provider": "virtualbox"}' >"$scratch/metadata.json"
  describe_machine >"$scratch/box.ovf"
}

# Open Virtualization Format 1.0 (DMTF DSP0243): one disk at a SATA controller and one network card. Resource types are
# CIM's: 3 processors, 4 memory, 10 network, 17 disk, 20 storage controller.
describe_machine() {
  cat <<OVF
<?xml version="1.0"?>
<Envelope ovf:version="1.0" xml:lang="en-US" xmlns="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
  xmlns:vssd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_VirtualSystemSettingData">
  <References><File ovf:id="file1" ovf:href="disk.vmdk" ovf:size="$(stat -c %s "$scratch/disk.vmdk")"/></References>
  <DiskSection>
    <Info>Disks</Info>
    <Disk ovf:capacity="$bytes" ovf:diskId="disk1" ovf:fileRef="file1"
      ovf:format="http://www.vmware.com/interfaces/specifications/vmdk.html#streamOptimized"/>
  </DiskSection>
  <NetworkSection>
    <Info>Networks</Info>
    <Network ovf:name="NAT"><Description>Network address translation</Description></Network>
  </NetworkSection>
  <VirtualSystem ovf:id="mrc-testbed">
    <Info>A virtual machine with the MRC testbed</Info>
    <OperatingSystemSection ovf:id="96"><Info>System</Info><Description>Debian_64</Description></OperatingSystemSection>
    <VirtualHardwareSection>
      <Info>Hardware</Info>
      <System>
        <vssd:ElementName>Virtual Hardware Family</vssd:ElementName>
        <vssd:InstanceID>0</vssd:InstanceID>
        <vssd:VirtualSystemIdentifier>mrc-testbed</vssd:VirtualSystemIdentifier>
        <vssd:VirtualSystemType>virtualbox-2.2</vssd:VirtualSystemType>
      </System>
      <Item>
        <rasd:Caption>2 processors</rasd:Caption>
        <rasd:ElementName>2 processors</rasd:ElementName>
        <rasd:InstanceID>1</rasd:InstanceID>
        <rasd:ResourceType>3</rasd:ResourceType>
        <rasd:VirtualQuantity>2</rasd:VirtualQuantity>
      </Item>
      <Item>
        <rasd:AllocationUnits>byte * 2^20</rasd:AllocationUnits>
        <rasd:Caption>4096 MB of memory</rasd:Caption>
        <rasd:ElementName>4096 MB of memory</rasd:ElementName>
        <rasd:InstanceID>2</rasd:InstanceID>
        <rasd:ResourceType>4</rasd:ResourceType>
        <rasd:VirtualQuantity>4096</rasd:VirtualQuantity>
      </Item>
      <Item>
        <rasd:Address>0</rasd:Address>
        <rasd:Caption>sata0</rasd:Caption>
        <rasd:ElementName>sata0</rasd:ElementName>
        <rasd:InstanceID>3</rasd:InstanceID>
        <rasd:ResourceSubType>AHCI</rasd:ResourceSubType>
        <rasd:ResourceType>20</rasd:ResourceType>
      </Item>
      <Item>
        <rasd:AddressOnParent>0</rasd:AddressOnParent>
        <rasd:Caption>disk1</rasd:Caption>
        <rasd:ElementName>disk1</rasd:ElementName>
        <rasd:HostResource>/disk/disk1</rasd:HostResource>
        <rasd:InstanceID>4</rasd:InstanceID>
        <rasd:Parent>3</rasd:Parent>
        <rasd:ResourceType>17</rasd:ResourceType>
      </Item>
      <Item>
        <rasd:AutomaticAllocation>true</rasd:AutomaticAllocation>
        <rasd:Caption>Network card</rasd:Caption>
        <rasd:Connection>NAT</rasd:Connection>
        <rasd:ElementName>Network card</rasd:ElementName>
        <rasd:InstanceID>5</rasd:InstanceID>
        <rasd:ResourceSubType>E1000</rasd:ResourceSubType>
        <rasd:ResourceType>10</rasd:ResourceType>
      </Item>
    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>
OVF
}

pack() {
  local provider=$1
  "$provider"
  install -m 600 "$folder/ssh_key" "$scratch/ssh_key"
  cat >"$scratch/Vagrantfile" <<'RUBY'
Vagrant.configure("2") do |config|
  config.vm.base_mac = "080027A1B2C3" # VirtualBox wants to know one; it gives each machine its own
  config.ssh.private_key_path = File.join(__dir__, "ssh_key")
end
RUBY
  # Vagrant unpacks whatever bsdtar knows; the disks are compressed already.
  (cd "$scratch" && bsdtar -cf "../$provider.box.new" --uid 0 --gid 0 -- *)
  mv -f "$folder/$provider.box.new" "$folder/$provider.box"
  echo "$folder/$provider.box: $(du -h "$folder/$provider.box" | cut -f1); MRC_BOX=built vagrant up --provider $provider boots it"
}

for provider in "$@"; do
  case $provider in libvirt | virtualbox) ;; *) fail "Boxes are for libvirt and virtualbox, not $provider." ;; esac
done
[ -f "$folder/disk.qcow2" ] || fail "There is no virtual machine in $folder: build it with 'sudo make vm'."
for tool in bsdtar qemu-img; do
  command -v "$tool" >/dev/null || fail "$tool is missing: vagrant/install-vm-tools installs it."
done
exec 9>"$folder/lock"
flock -n 9 || fail "Another process builds or runs the virtual machine in $folder."
bytes=$(qemu-img info "$folder/disk.qcow2" | sed -n 's/^virtual size:.*(\([0-9]*\) bytes)$/\1/p')
[ -n "$bytes" ] || fail "$folder/disk.qcow2 is not a disk that qemu-img can read: build it again with 'sudo make vm'."
scratch=$(mktemp -d "$folder/packing-XXXXXX")
trap 'rm -rf --one-file-system "$scratch"; rm -f "$folder"/*.box.new' EXIT
# The code of a boot loader is what is before a partition table, which alone ends the sector as a loader does.
qemu-img dd -f qcow2 -O raw "if=$folder/disk.qcow2" "of=$scratch/sector" bs=440 count=1 >/dev/null
[ "$(head -c 440 "$scratch/sector" | tr -d '\0' | wc -c)" -gt 0 ] \
  || fail "The disk in $folder has no boot loader: boxes are made of machines for x86-64, built with 'sudo make vm'."
for provider in "$@"; do
  rm -rf --one-file-system "${scratch:?}"/*
  pack "$provider"
done
