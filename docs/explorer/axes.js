// From numbers to places: an axis of a figure on so many pixels, and its ticks.

import { general } from "./numbers.js";

const log = { log2: Math.log2, log10: Math.log10 };

// place(number) in pixels from the axis' first end.
export function placer(axis, pixels) {
  const by = log[axis.scale] ?? ((x) => x);
  const first = by(axis.first);
  const span = by(axis.last) - first || 1;
  return (x) => ((by(x) - first) / span) * pixels;
}

function decades(low, high, most, base, text) {
  const from = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const to = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  const step = Math.max(1, Math.ceil((to - from + 1) / most));
  const ticks = [];
  for (let power = from; power <= to; power += step) ticks.push({ at: base ** power, text: text(power) });
  return ticks;
}

// 1, 2 and 5 times a power of ten.
function even(low, high, most) {
  const rough = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((times) => times * power >= rough * 0.999) ?? 10);
  const ticks = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + 1e-9 * step; ++i) {
    ticks.push({ at: i * step, text: general(Number((i * step).toPrecision(12)), 7) });
  }
  return ticks;
}

const superscript = (power) => [...String(power)].map((c) => (c === "-" ? "⁻" : "⁰¹²³⁴⁵⁶⁷⁸⁹"[c])).join("");

export function ticksOf(axis, most) {
  if (axis.ticks.length > 0) return axis.ticks;
  const low = Math.min(axis.first, axis.last);
  const high = Math.max(axis.first, axis.last);
  if (axis.scale === "linear") return even(low, high, most);
  if (axis.scale === "log2") return decades(low, high, most, 2, (power) => general(2 ** power, 7));
  const plain = (power) => (power >= 0 && power < 4 ? String(10 ** power) : "10" + superscript(power));
  return decades(low, high, most, 10, plain);
}
