#!/usr/bin/env bash
# Prepares a fresh Debian 12 or 13 or Ubuntu 22.04/24.04/26.04 for the testbed. Run as root. What is there already is not
# downloaded again.
#
#   provision.sh PROJECT_FOLDER
#
# The project's own make targets install what it needs. BMv2 and p4c come from their publisher's repository if that has
# packages for this distribution; otherwise a message says so, and the testbed runs without them.
set -euo pipefail

# The p4lang packages on the openSUSE build service: %s becomes Debian_12 or xUbuntu_22.04. Their key is Release.key in
# the same folder. "none": no BMv2 and p4c.
P4_REPOSITORY=${P4_REPOSITORY:-https://download.opensuse.org/repositories/home:/p4lang/%s}
P4_PACKAGES=(p4lang-bmv2 p4lang-p4c)

project=${1:?usage: provision.sh PROJECT_FOLDER}
keyring=/usr/share/keyrings/p4lang.gpg
sources=/etc/apt/sources.list.d/p4lang.list
export DEBIAN_FRONTEND=noninteractive

missing_packages() {
  local package
  for package in "$@"; do
    dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii' || echo "$package"
  done
}

without_bmv2() {
  rm -f "$keyring" "$sources"
  echo "BMv2 and p4c are not installed ($1): the embedded switch runs the same compiled P4 program."
}

install_bmv2() {
  [ "$P4_REPOSITORY" != none ] || { without_bmv2 "as asked"; return; }
  local distribution address key
  # shellcheck source=/dev/null
  distribution=$(. /etc/os-release && case $ID in ubuntu) echo "xUbuntu_$VERSION_ID" ;; *) echo "Debian_$VERSION_ID" ;; esac)
  # shellcheck disable=SC2059
  address=$(printf "$P4_REPOSITORY" "$distribution")
  key=$(mktemp)
  if ! curl -fsSL --retry 2 --max-time 60 "$address/Release.key" -o "$key"; then
    without_bmv2 "$address has no packages for $distribution, or cannot be reached"
  elif ! gpg --dearmor --yes -o "$keyring" "$key"; then
    without_bmv2 "the key at $address is invalid"
  else
    echo "deb [signed-by=$keyring] $address/ /" >"$sources"
    if apt-get update -qq && apt-get install -y -qq --no-install-recommends "${P4_PACKAGES[@]}" >/dev/null; then
      echo "BMv2 and p4c are installed: mrc demo --switch bmv2, make p4."
    else
      without_bmv2 "${P4_PACKAGES[*]} cannot be installed from $address on $(dpkg --print-architecture)"
      apt-get update -qq
    fi
  fi
  rm -f "$key"
}

[ "$(id -u)" = 0 ] || { echo "provision.sh needs root: run it with sudo." >&2; exit 1; }
[ -f "$project/Makefile" ] || { echo "$project is not the project's folder: it has no Makefile." >&2; exit 1; }

# The last three are for programs that use RDMA in hosts (docs/applications.md), such as ib_write_bw.
missing=$(missing_packages make git curl gpg ca-certificates tcpdump libibverbs-dev perftest ibverbs-utils)
if [ -n "$missing" ]; then
  apt-get update -qq
  # shellcheck disable=SC2086
  apt-get install -y -qq --no-install-recommends $missing >/dev/null
fi
[ -z "$(missing_packages "${P4_PACKAGES[@]}")" ] || install_bmv2

owner=$(stat -c %u:%g "$project")
SUDO_UID=${owner%:*} SUDO_GID=${owner#*:} make -C "$project" install
"$project/.venv/bin/mrc" doctor
