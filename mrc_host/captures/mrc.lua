-- Wireshark dissector for MRC, the Multipath Reliable Connection (docs/captures.md says how to load it).
--
-- It takes UDP ports 4791 and 4971 from Wireshark's RoCE dissector, dissects packets with 110 in the top three bits of
-- the first byte, and returns the others to it. It is also registered as a heuristic dissector, which sees packets
-- first: the source port of an MRC packet is part of its entropy value and may be any number, and Wireshark would take
-- source port 53 for DNS. Each header is a table of its fields and their positions. § cites docs/protocol.md.
--
-- Written for the Lua 5.2 to 5.4 of Wireshark 3.6 and newer, whose library `bit` all versions share.

local fresh, mrc = pcall(Proto, "mrc", "Multipath Reliable Connection")
if not fresh then return end -- already loaded, from the plugins folder

-- ---- preferences -------------------------------------------------------------------------------------------------

mrc.prefs.ports = Pref.range("UDP ports", "4791,4971", "UDP destination ports of MRC", 65535)
mrc.prefs.verify_icrc = Pref.bool("Verify the ICRC", true, "Compute the invariant CRC of every packet (slow)")
mrc.prefs.ev_order = Pref.enum("UDP source port carries", 0, "Which half of the entropy value is in the source port",
  {{1, "the low half", 0}, {2, "the high half", 1}}, false)
mrc.prefs.se_first = Pref.bool("SE is bit 7 of BTH byte 1", false, "Otherwise M is bit 7 and SE is bit 6")
mrc.prefs.eeth_shift = Pref.enum("Operation of endpoint responses", 2, "Bits of the first two bytes of the EETH",
  {{1, "bits 3:2", 2}, {2, "bits 5:4", 4}}, false)
mrc.prefs.usid_plan = Pref.bool("uSIDs and EVs follow the testbed's plan", true,
  "Show kind, plane and number of a uSID, plane and uplink of an entropy value")
local ROLES = { -- §1.10
  {"dscp_trimmable", "trimmable", 4}, {"dscp_no_trim", "not trimmable", 0}, {"dscp_retransmit", "retransmitted", 8},
  {"dscp_trimmed", "trimmed", 12}, {"dscp_lasthop", "trimmed at the last hop", 16}, {"dscp_control", "control", 46},
}
for _, one in ipairs(ROLES) do mrc.prefs[one[1]] = Pref.uint("DSCP: " .. one[2], one[3]) end

-- ---- names -------------------------------------------------------------------------------------------------------

local OPCODES = {
  [0xC6] = "WRITE First", [0xC7] = "WRITE Middle", [0xC8] = "WRITE Last", [0xC9] = "WRITE Last with Immediate",
  [0xCA] = "WRITE Only", [0xCB] = "WRITE Only with Immediate", [0xD1] = "Transport ACK", [0xD8] = "Endpoint Request",
  [0xD9] = "Endpoint Response", [0xDC] = "Reliability SACK", [0xDD] = "Reliability NACK", [0xDE] = "Reliability Probe",
}
local REASONS = {
  [0x01] = "TRIMMED", [0x02] = "TRIMMED_LASTHOP", [0x06] = "NO_BITMAP", [0x07] = "NO_PKT_BUFFER",
  [0x0A] = "NO_RESOURCE", [0x0B] = "PSN_OOR_WINDOW", [0x19] = "UNEXP_EVENT",
}
local MARKS = { [0] = "NONE", [1] = "SKIP_ONCE", [2] = "ALWAYS_SKIP" }
local OPERATIONS = { [0] = "PORT_STATUS_UPDATE", [1] = "EV_PROBE", [2] = "PATH_PROBE" }
local UNITS = { [0] = "128 ns", [1] = "implementation defined (ours: 1 us)" }
local STATUS = { [0] = "Bad", [1] = "Good", [2] = "Unverified" }
local KINDS = { [1] = "T0", [2] = "T1", [3] = "NIC" }
local SYNDROMES = { [0] = "ACK", [1] = "RNR NAK", [3] = "NAK" }

-- ---- fields and headers ------------------------------------------------------------------------------------------

local unpack = table.unpack or unpack -- luacheck: ignore
local HEX, DEC = base.HEX, base.DEC
local F, all_fields = {}, {}
local function field(kind, name, label, ...)
    -- a suffix after @ distinguishes two possible positions of the same field
  F[name] = ProtoField[kind]("mrc." .. name:gsub("@.*", ""), label, ...)
  all_fields[#all_fields + 1] = F[name]
end

field("uint32", "ev", "Entropy value", HEX)
field("uint32", "ev.plane", "Plane", DEC)
field("uint32", "ev.uplink", "Uplink", DEC)
field("string", "role", "Traffic class")
field("bool", "trimmed", "Trimmed")
field("uint32", "srv6.block", "Locator block", HEX)
field("uint16", "srv6.usid", "uSID", HEX)
field("bytes", "payload", "Payload")
field("uint32", "payload.length", "Payload length", DEC)
field("bytes", "padding", "Padding")
field("int16", "seth.ack_psn_offset", "Distance to the PSN that caused this", DEC)
field("uint24", "seth.psn", "PSN that caused this", DEC)
field("uint16", "seth.probe_id", "Probe id", HEX)
field("string", "seth.received", "PSNs in the bitmap")
field("uint32", "icrc", "ICRC", HEX)
field("uint8", "icrc.status", "ICRC status", DEC, STATUS)
field("uint32", "icrc.expected", "Expected ICRC", HEX)
field("uint8", "bth.se@7", "Solicited event", DEC, nil, 0x80)
field("uint8", "bth.m@6", "M", DEC, nil, 0x40)
field("uint16", "eeth.operation@4", "Operation", DEC, OPERATIONS, 0x0030)

local SIZES = { uint8 = 1, uint16 = 2, int16 = 2, uint24 = 3, uint32 = 4, uint64 = 8 }

-- A header: {title, length, {field, offset, length}...}, from rows {name, kind, offset, label, display, names, mask}.
-- For kind "bytes", `display` is the length.
local function header(title, prefix, length, rows)
  local layout = {title = title, length = length}
  for _, row in ipairs(rows) do
    local name, kind, offset, label, display, names, mask = unpack(row, 1, 7)
    field(kind, prefix .. name, label, kind ~= "bytes" and (display or DEC) or base.NONE, names, mask)
    layout[#layout + 1] = {prefix .. name, offset, SIZES[kind] or display}
  end
  return layout
end

local TYPE = {"type", "uint16", 0, "Type", DEC, nil, 0xF000}
local NEXT = {"nh", "uint16", 0, "Next header", DEC, nil, 0x0F80}
local SPDCID = {"spdcid", "uint16", 8, "Source context id", HEX}
local DPDCID = {"dpdcid", "uint16", 10, "Destination context id", HEX}
local CC_TYPE = {"cc_type", "uint8", 16, "Congestion control type", DEC, nil, 0xF0}
local CC_FLAGS = {"cc_flags", "uint8", 16, "Congestion control flags", HEX, nil, 0x0F}
local STAMP = {"timestamp", "uint16", 12, "Transmit timestamp"}
local UNIT = {"unit", "uint16", 14, "Unit", DEC, UNITS, 0x8000}
local FTYPE = {"ftype", "uint16", 14, "Type", DEC, nil, 0x000F}

local BTH = header("BTH", "bth.", 12, { -- §1.5
  {"opcode", "uint8", 0, "Opcode", HEX, OPCODES}, {"m", "uint8", 1, "M", DEC, nil, 0x80},
  {"se", "uint8", 1, "Solicited event", DEC, nil, 0x40}, {"pad", "uint8", 1, "Pad count", DEC, nil, 0x30},
  {"tver", "uint8", 1, "Transport version", DEC, nil, 0x0F}, {"pkey", "uint16", 2, "Partition key", HEX},
  {"reserved", "uint8", 4, "Reserved", HEX}, {"dest_qp", "uint24", 5, "Destination QP", HEX},
  {"ack_req", "uint8", 8, "Acknowledge request", DEC, nil, 0x80},
  {"r", "uint8", 8, "R", DEC, nil, 0x40}, {"rtx", "uint8", 8, "Retransmission", DEC, nil, 0x20},
  {"ts", "uint8", 8, "TSETH present", DEC, nil, 0x10}, {"reserved2", "uint8", 8, "Reserved", HEX, nil, 0x0F},
  {"psn", "uint24", 9, "PSN"},
})
local METH = header("METH", "meth.", 4, {{"rqmsn", "uint16", 0, "RQMSN"}, {"msn", "uint16", 2, "MSN"}}) -- §1.6
local TSETH = header("TSETH", "tseth.", 4, {
  {"timestamp", "uint16", 0, "Transmit timestamp"}, {"unit", "uint16", 2, "Unit", DEC, UNITS, 0x8000},
  {"reserved", "uint16", 2, "Reserved", HEX, nil, 0x7FF0}, {"type", "uint16", 2, "Type", DEC, nil, 0x000F},
})
local RETH = header("RETH", "reth.", 16, {
  {"address", "uint64", 0, "Virtual address", HEX}, {"rkey", "uint32", 8, "Remote key", HEX},
  {"length", "uint32", 12, "Message length"},
})
local IMMDT = header("Immediate data", "immdt.", 4, {{"data", "uint32", 0, "Immediate data", HEX}})
local AETH = header("AETH", "aeth.", 4, {{"syndrome", "uint8", 0, "Syndrome", HEX}, {"msn", "uint24", 1, "MSN"}})
local SETH = header("SETH", "seth.", 28, { -- §1.7
  TYPE, NEXT, {"m", "uint16", 0, "Path mark", DEC, MARKS, 0x0060},
  {"reserved", "uint16", 0, "Reserved", HEX, nil, 0x001C},
  {"pr", "uint16", 0, "Answer to a probe", DEC, nil, 0x0002},
  {"reserved2", "uint16", 0, "Reserved", HEX, nil, 0x0001},
  {"ev", "uint32", 4, "Entropy value of the packet that caused this", HEX}, SPDCID, DPDCID,
  {"reserved3", "uint8", 12, "Reserved", HEX}, {"cack_psn", "uint24", 13, "Cumulative PSN"},
  CC_TYPE, CC_FLAGS, {"mpr", "uint8", 17, "MPR (units of 128 PSNs)"},
  {"sack_offset", "int16", 18, "Bitmap offset"}, {"bitmap", "uint64", 20, "Bitmap", HEX},
})
local CCSTATE = header("CC_STATE", "ccstate.", 8, {
  {"timestamp", "uint16", 0, "Echoed transmit timestamp"},
  {"reserved", "uint16", 2, "Reserved", DEC, nil, 0x8000},
  {"ooo_count", "uint16", 2, "Out-of-order count", DEC, nil, 0x7FFF},
  {"restore_cwnd", "uint8", 4, "Restore cwnd", DEC, nil, 0x80},
  {"rcv_cwnd_pen", "uint8", 4, "Receiver's window penalty", DEC, nil, 0x7F},
  {"rcvd_bytes", "uint24", 5, "Bytes received (units of 256)"},
})
local NETH = header("NETH", "neth.", 20, { -- §1.8
  TYPE, NEXT, {"reserved", "uint16", 0, "Reserved", HEX, nil, 0x007F},
  {"reason", "uint8", 2, "Reason", HEX, REASONS}, {"vendor", "uint8", 3, "Vendor", HEX},
  {"ev", "uint32", 4, "Entropy value of the refused packet", HEX}, SPDCID, DPDCID,
  {"reserved2", "uint8", 12, "Reserved", HEX}, {"nack_psn", "uint24", 13, "Refused PSN"},
  CC_TYPE, CC_FLAGS, {"reserved3", "uint8", 17, "Reserved", HEX},
  {"timestamp", "uint16", 18, "Echoed transmit timestamp"},
})
local PETH = header("PETH", "peth.", 16, { -- §1.9
  TYPE, NEXT, {"reserved", "uint24", 0, "Reserved", HEX, nil, 0x007FFF},
  {"vendor", "uint8", 3, "Vendor", HEX}, {"probe_id", "uint16", 4, "Probe id", HEX},
  {"reserved2", "uint16", 6, "Reserved", HEX}, SPDCID, DPDCID, STAMP, UNIT,
  {"reserved3", "uint16", 14, "Reserved", HEX, nil, 0x7FF0}, FTYPE,
})
local ERTH = header("ERTH", "erth.", 16, {
  TYPE, NEXT, {"reserved", "uint16", 0, "Reserved", HEX, nil, 0x007C},
  {"operation", "uint16", 0, "Operation", DEC, OPERATIONS, 0x0003},
  {"reserved2", "uint8", 2, "Reserved", HEX}, {"vendor", "uint8", 3, "Vendor", HEX},
  {"port_mask", "uint32", 4, "Usable ports", HEX}, {"reserved3", "uint32", 8, "Reserved", HEX},
  STAMP, UNIT, {"reserved4", "uint16", 14, "Reserved", HEX, nil, 0x7FF0}, FTYPE,
})
local EETH = header("EETH", "eeth.", 36, {
  TYPE, NEXT, {"operation", "uint16", 0, "Operation", DEC, OPERATIONS, 0x000C},
  {"reserved3", "bytes", 2, "Reserved", 26}, {"timestamp", "uint16", 28, "Echoed transmit timestamp"},
  {"reserved4", "uint16", 30, "Reserved", HEX}, {"service_time", "uint32", 32, "Service time (ns)"},
})

mrc.fields = all_fields

local group, severity = expert.group, expert.severity
local X = {
  length = ProtoExpert.new("mrc.bad_length", "Length does not fit the opcode", group.MALFORMED, severity.ERROR),
  opcode = ProtoExpert.new("mrc.bad_opcode", "Unknown MRC opcode", group.UNDECODED, severity.WARN),
  icrc = ProtoExpert.new("mrc.bad_icrc", "ICRC is wrong", group.CHECKSUM, severity.ERROR),
  trimmed = ProtoExpert.new("mrc.was_trimmed", "A switch cut the payload off", group.SEQUENCE, severity.NOTE),
  roce = ProtoExpert.new("mrc.bad_roce", "RoCE packet is malformed", group.MALFORMED, severity.ERROR),
  cut = ProtoExpert.new("mrc.cut", "The capture holds only part of this packet", group.PROTOCOL, severity.NOTE),
  rtx = ProtoExpert.new("mrc.retransmission", "Retransmission", group.SEQUENCE, severity.NOTE),
  nack = ProtoExpert.new("mrc.nacked", "Packet refused", group.SEQUENCE, severity.NOTE),
}
mrc.experts = {X.length, X.opcode, X.icrc, X.trimmed, X.roce, X.cut, X.rtx, X.nack}

-- ---- ICRC: RoCEv2's rule on the inner packet (§10) ---------------------------------------------------------------

local band, bxor, rshift = bit.band, bit.bxor, bit.rshift
local crc_table = {}
for i = 0, 255 do
  local crc = i
  for _ = 1, 8 do crc = bxor(rshift(crc, 1), band(crc, 1) == 1 and 0xEDB88320 or 0) end
  crc_table[i] = crc
end

local function crc32(text)
  local crc, byte, lookup = 0xFFFFFFFF, string.byte, crc_table
  for i = 1, #text do
    crc = bxor(rshift(crc, 8), lookup[band(bxor(crc, byte(text, i)), 0xFF)])
  end
  return bxor(crc, 0xFFFFFFFF) % 0x100000000
end

-- Bytes of a range. Its own method raw counts from the start of the packet in older versions (seen in 3.4).
local function octets(range, at, length) return range(at, length):bytes():raw() end

-- Fields that may change on the way count as ones: class, hop limit, flow label, checksums, byte 4 of the BTH.
local function icrc(layers, tvb, length)
  local ip, udp = layers.inner.range, layers.udp
  local header
  if layers.inner.v6 then
    header = "\x6f\xff\xff\xff" .. octets(ip, 4, 3) .. "\xff" .. octets(ip, 8, 32)
  else
    local size = band(ip(0, 1):uint(), 0x0F) * 4
    if size < 20 or size > ip:len() then return nil end
    header = octets(ip, 0, 1) .. "\xff" .. octets(ip, 2, 6) .. "\xff" .. octets(ip, 9, 1) .. "\xff\xff"
      .. octets(ip, 12, size - 12)
  end
  local transport = tvb:raw(0, 4) .. "\xff" .. tvb:raw(5, length - 5)
  return crc32(string.rep("\xff", 8) .. header .. octets(udp, 0, 6) .. "\xff\xff" .. transport)
end

-- ---- lower layers ------------------------------------------------------------------------------------------------

local ip6_field, ip4_field, udp_field = Field.new("ipv6"), Field.new("ip"), Field.new("udp")

-- IP headers of this packet by position, innermost last, and its UDP header; nil where Wireshark shows none
local function lower_layers()
  local headers, udp = {}, nil
  local function add(info, least, v6)
    if info.range and info.range:len() >= least then headers[#headers + 1] = {v6 = v6, range = info.range} end
  end
  for _, info in ipairs({ip6_field()}) do add(info, 40, true) end
  for _, info in ipairs({ip4_field()}) do add(info, 20, false) end
  for _, info in ipairs({udp_field()}) do
    if info.range and info.range:len() >= 8 then udp = info.range end
  end
  table.sort(headers, function(a, b) return a.range:offset() < b.range:offset() end)
  if #headers == 0 or udp == nil then return nil end
  return {inner = headers[#headers], outer = headers[#headers - 1], udp = udp}
end

local function dscp(header)
  if header.v6 then return band(rshift(header.range(0, 2):uint(), 6), 0x3F) end
  return rshift(header.range(1, 1):uint(), 2)
end

local function role(value)
  for _, one in ipairs(ROLES) do if mrc.prefs[one[1]] == value then return one[2] end end
  return "unknown"
end

local function add_entropy(tree, layers)
  local port, label = layers.udp(0, 2):uint(), 0
  if layers.inner.v6 then label = layers.inner.range(2, 2):uint() end
  local ev = mrc.prefs.ev_order == 1 and port * 65536 + label or label * 65536 + port
  local item = tree:add(F["ev"], ev):set_generated()
  if mrc.prefs.usid_plan then
    item:add(F["ev.plane"], band(rshift(ev, 10), 7)):set_generated()
    item:add(F["ev.uplink"], band(ev, 0x3FF)):set_generated()
  end
  return ev
end

local function add_usids(tree, outer)
  local address = outer.range(24, 16)
  local list = tree:add(address, "uSID list:")
  list:add(F["srv6.block"], address(0, 4))
  local names = {}
  for at = 4, 14, 2 do
    local usid = address(at, 2):uint()
    if usid == 0 then break end
    local item = list:add(F["srv6.usid"], address(at, 2))
    local name = string.format("%04x", usid)
    if mrc.prefs.usid_plan then
      local kind = KINDS[rshift(usid, 13)] or "?"
      name = string.format("%s@p%d #%d", kind, band(rshift(usid, 10), 7), band(usid, 0x3FF))
      item:append_text(" (" .. name .. ")")
    end
    names[#names + 1] = name
  end
  list:append_text(" " .. table.concat(names, ", "))
end

-- ---- the transport -----------------------------------------------------------------------------------------------

local function resolve(name)
  if name == "bth.se" and mrc.prefs.se_first then return F["bth.se@7"] end
  if name == "bth.m" and mrc.prefs.se_first then return F["bth.m@6"] end
  if name == "eeth.operation" and mrc.prefs.eeth_shift == 4 then return F["eeth.operation@4"] end
  return F[name]
end

-- Walks over the bytes between the start of the BTH and the ICRC. `take` returns a header's bytes, or nil if they are
-- not all there.
local Cursor = {}
Cursor.__index = Cursor

function Cursor:take(header)
  local length = header.length
  if self.at + length > self.stop then
    self.short = true
    return nil
  end
  local range = self.tvb(self.at, length)
  local subtree = self.tree:add(range, header.title)
  for _, one in ipairs(header) do subtree:add(resolve(one[1]), range(one[2], one[3])) end
  self.at = self.at + length
  return range, subtree
end

local function psn_list(cack, offset, bitmap)
  local runs, first = {}, nil
  for i = 0, 64 do
    local set = i < 64 and band(bitmap(7 - math.floor(i / 8), 1):uint(), 2 ^ (i % 8)) ~= 0
    if set and not first then
      first = i
    elseif first and not set then
      local from, to = (cack + offset + first) % 0x1000000, (cack + offset + i - 1) % 0x1000000
      runs[#runs + 1] = from == to and tostring(from) or from .. "-" .. to
      first = nil
    end
  end
  return table.concat(runs, " ")
end

local control = {}

control[0xDC] = {SETH, function(cursor, range, subtree)
  local flags, cack = range(0, 2):uint(), range(13, 3):uint()
  local mark = MARKS[band(rshift(flags, 5), 3)] or "reserved mark"
  if band(flags, 2) ~= 0 then
    subtree:add(F["seth.probe_id"], range(2, 2))
  else
    subtree:add(F["seth.ack_psn_offset"], range(2, 2))
    subtree:add(F["seth.psn"], range(2, 2), (cack + range(2, 2):int()) % 0x1000000):set_generated()
  end
  local received = psn_list(cack, range(18, 2):int(), range(20, 8))
  subtree:add(F["seth.received"], range(20, 8), received):set_generated()
  cursor:take(CCSTATE)
  return string.format(" CACK=%d Mark=%s%s", cack, mark, received ~= "" and " Received=" .. received or "")
end}
control[0xDD] = {NETH, function(_, range, subtree)
  local reason = REASONS[range(2, 1):uint()] or string.format("reason 0x%02x", range(2, 1):uint())
  subtree:add_proto_expert_info(X.nack, "Packet refused: " .. reason)
  return " " .. reason
end}
control[0xDE] = {PETH, function(_, range) return string.format(" Probe=0x%04x", range(4, 2):uint()) end}
control[0xD8] = {ERTH, function(_, range)
  local operation = band(range(0, 2):uint(), 3)
  local text = " " .. (OPERATIONS[operation] or "unknown operation")
  return operation == 0 and string.format("%s Ports=0x%x", text, range(4, 4):uint()) or text
end}
control[0xD9] = {EETH, function(_, range)
  return " " .. (OPERATIONS[band(rshift(range(0, 2):uint(), mrc.prefs.eeth_shift), 3)] or "unknown operation")
end}
control[0xD1] = {AETH, function(_, range, subtree)
  local kind = SYNDROMES[band(rshift(range(0, 1):uint(), 5), 3)] or "reserved"
  subtree:append_text(": " .. kind)
  return string.format(" %s MSN=%d", kind, range(1, 3):uint())
end}

local function dissect_data(cursor, opcode, bth)
  local info = ""
  local meth = cursor:take(METH)
  if meth then info = string.format(" MSN=%d", meth(2, 2):uint()) end
  if meth and band(bth(8, 1):uint(), 0x10) ~= 0 then cursor:take(TSETH) end
  local reth = not cursor.short and cursor:take(RETH)
  if reth and (opcode == 0xC9 or opcode == 0xCB) then cursor:take(IMMDT) end
  if cursor.short or cursor.trimmed then return info end

  local length = cursor.stop - cursor.at
  local pad = band(rshift(bth(1, 1):uint(), 4), 3)
  local payload = length - pad
  if cursor.cut then return info end
  local announced = reth(12, 4):uint()
  local only = opcode == 0xCA or opcode == 0xCB
  if payload <= 0 or payload > announced or (only and payload ~= announced) then cursor.bad = true end
  if payload > 0 then
    cursor.tree:add(F["payload"], cursor.tvb(cursor.at, payload))
    cursor.tree:add(F["payload.length"], payload):set_generated()
    if pad > 0 then cursor.tree:add(F["padding"], cursor.tvb(cursor.at + payload, pad)) end
    info = string.format("%s Len=%d", info, payload)
  end
  cursor.at = cursor.stop
  return info
end

local function add_icrc(tree, tvb, layers)
  local at = tvb:len() - 4
  local range = tvb(at, 4)
  local item = tree:add_le(F["icrc"], range)
  local expected = mrc.prefs.verify_icrc and layers and icrc(layers, tvb, at) or nil
  local status = expected == nil and 2 or expected == range:le_uint() and 1 or 0
  item:add(F["icrc.status"], range, status):set_generated()
  if status == 0 then
    item:add(F["icrc.expected"], range, expected):set_generated()
    item:add_proto_expert_info(X.icrc)
  end
end

local function dissect(tvb, pinfo, root, layers)
  pinfo.cols.protocol = "MRC"
  local tree = root:add(mrc, tvb())
  local class = layers and dscp(layers.outer or layers.inner)
  local trimmed = class ~= nil and (class == mrc.prefs.dscp_trimmed or class == mrc.prefs.dscp_lasthop)
  local cut = tvb:len() < tvb:reported_len()
  local has_icrc = not trimmed and not cut and tvb:len() >= 16
  local stop = trimmed and tvb:len() or math.min(tvb:len(), tvb:reported_len() - 4)
  local cursor = setmetatable({tvb = tvb, tree = tree, at = 0, stop = stop, trimmed = trimmed, cut = cut}, Cursor)
  local info = "MRC"

  if layers then
    add_entropy(tree, layers)
    if layers.outer and layers.outer.v6 then add_usids(tree, layers.outer) end
    tree:add(F["role"], role(class)):set_generated()
  end
  if trimmed then
    tree:add(F["trimmed"], true):set_generated()
    tree:add_proto_expert_info(X.trimmed)
  end
  local bth, bth_tree = cursor:take(BTH)
  if bth then
    local opcode = bth(0, 1):uint()
    info = string.format("%s QP=0x%06x PSN=%d", OPCODES[opcode] or "Unknown", bth(5, 3):uint(), bth(9, 3):uint())
    if band(bth(8, 1):uint(), 0x20) ~= 0 then
      info = info .. " [RTX]"
      bth_tree:add_proto_expert_info(X.rtx)
    end
    if trimmed then info = info .. " [trimmed]" end
    if control[opcode] then
      local layout, describe = unpack(control[opcode])
      local range, subtree = cursor:take(layout)
      if range then info = info .. describe(cursor, range, subtree) end
      cursor.bad = not cut and not (cursor.short and trimmed) and cursor.at ~= cursor.stop
    elseif OPCODES[opcode] then
      info = info .. dissect_data(cursor, opcode, bth)
    else
      bth_tree:add_proto_expert_info(X.opcode)
    end
  end
  if has_icrc then add_icrc(tree, tvb, layers) end
  if cut then
    tree:add_proto_expert_info(X.cut)
  elseif cursor.bad or (cursor.short and not trimmed) then
    tree:add_proto_expert_info(X.length)
    info = info .. " [bad length]"
  end
  pinfo.cols.info = info
end

-- ---- entry points ------------------------------------------------------------------------------------------------

local udp_table = DissectorTable.get("udp.port")
local roce, bound, ports = udp_table:get_dissector(4791), nil, {}

local function is_mrc(tvb) return tvb:len() > 0 and rshift(tvb(0, 1):uint(), 5) == 6 end

-- A packet truncated by the capture is treated as if it ended there. Reading past the captured bytes would throw an
-- exception that pcall does not catch; each one leaves Lua's stack deeper, and some 100 of them stop the script.
local function dissect_roce(tvb, pinfo, root)
  if not roce or tvb:len() == 0 then return end
  local cut = tvb:len() < tvb:reported_len()
  if cut then tvb = tvb(0, tvb:len()):tvb() end
  local sound = pcall(roce.call, roce, tvb, pinfo, root)
  if cut then
    root:add_proto_expert_info(X.cut)
  elseif not sound then
    root:add_proto_expert_info(X.roce)
  end
end

function mrc.dissector(tvb, pinfo, root)
  if is_mrc(tvb) then
    dissect(tvb, pinfo, root, lower_layers())
  else
    dissect_roce(tvb, pinfo, root)
  end
  return tvb:len()
end

-- Packets to our ports, whatever their source port; to other ports only when the ICRC proves that it is MRC.
local function heuristic(tvb, pinfo, root)
  if ports[pinfo.dst_port] then
    if not is_mrc(tvb) and not (roce and pinfo.dst_port == 4791) then return false end
    mrc.dissector(tvb, pinfo, root)
    return true
  end
  if tvb:len() < 20 or tvb:len() ~= tvb:reported_len() or not OPCODES[tvb(0, 1):uint()] then return false end
  if tvb(2, 2):uint() ~= 0xFFFF then return false end
  local layers = lower_layers()
  if not layers or icrc(layers, tvb, tvb:len() - 4) ~= tvb(tvb:len() - 4, 4):le_uint() then return false end
  dissect(tvb, pinfo, root, layers)
  return true
end

local function bind()
  if bound then
    udp_table:remove(bound, mrc)
    if roce and ports[4791] then udp_table:add(4791, roce) end
  end
  bound, ports = mrc.prefs.ports, {}
  for first, last in bound:gmatch("(%d+)%-?(%d*)") do
    for port = tonumber(first), tonumber(last) or tonumber(first) do ports[port] = true end
  end
  if bound ~= "" then udp_table:add(bound, mrc) end
end

function mrc.prefs_changed() if mrc.prefs.ports ~= bound then bind() end end

bind()
mrc:register_heuristic("udp", heuristic)

-- Two settings of Wireshark's own UDP that MRC needs, for this run only unless you save the preferences: an entropy
-- value's source port must not choose the dissector, and MRC's UDP checksum over IPv6 is zero (§1.2).
if set_preference then
  pcall(set_preference, "udp.try_heuristic_first", true)
  pcall(set_preference, "udp.ignore_ipv6_zero_checksum", true)
end
