// Numbers and times as people read them.

const scaled = (value, step, units) => {
  let index = 0;
  while (value >= step && index < units.length - 1) {
    value /= step;
    index++;
  }
  const digits = value >= 100 || value === Math.round(value) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[index]}`;
};

export const showRate = (bps) => scaled(bps, 1000, ["b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"]);
export const showSize = (bytes) => scaled(bytes, 1024, ["B", "KiB", "MiB", "GiB"]);
export const showCount = (count) => (count >= 10000 ? `${(count / 1000).toFixed(0)}k` : String(Math.round(count)));
export const showEv = (ev) => `0x${ev.toString(16).padStart(4, "0")}`;
export const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// A length of time, given in ms.
export function showDuration(ms) {
  const [by, unit] = ms === 0 || ms >= 1000 ? [0.001, "s"] : ms >= 1 ? [1, "ms"] : ms >= 0.001 ? [1000, "µs"] : [1e6, "ns"];
  return `${Number((ms * by).toPrecision(3))} ${unit}`;
}

// Times since the beginning of a run that takes so many ms, all in one unit and with as many digits as it needs.
export function elapsedTimes(endMs) {
  const [by, unit] = endMs >= 1000 ? [0.001, "s"] : endMs >= 10 ? [1, "ms"] : [1000, "µs"];
  const digits = Math.max(0, Math.min(3, 4 - Math.floor(Math.log10(Math.max(1, endMs * by)))));
  return (ms) => `${(ms * by).toFixed(digits)} ${unit}`;
}

export function showClock(ms) {
  const at = new Date(ms);
  const two = (n) => String(n).padStart(2, "0");
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}.${String(at.getMilliseconds()).padStart(3, "0")}`;
}
