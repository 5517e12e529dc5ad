// What a change did, in words: the sentence of the library's figure before and after, and how far the numbers moved.

import { general } from "./numbers.js";

const isNumber = (word) => /^[-+]?\d/.test(word);

// The words of a text, each with what stood there before if that was another number.
export function compared(before, now) {
  const [old, fresh] = [before.split(" "), now.split(" ")];
  const alike = old.length === fresh.length;
  return fresh.map((word, i) => ({ word, was: alike && word !== old[i] && isNumber(word) ? old[i].replace(/[.,;:]$/, "") : null }));
}

function* numbersOf(figure) {
  for (const panel of figure.panels) {
    if (panel.cells) yield panel.cells.values;
    for (const series of panel.series) yield series.y;
  }
}

// The largest difference between two figures' numbers; null where they cannot be compared.
export function largestChange(before, now) {
  const [old, fresh] = [[...numbersOf(before)], [...numbersOf(now)]];
  if (old.length !== fresh.length) return null;
  let most = 0;
  for (let i = 0; i < fresh.length; ++i) {
    if (old[i].length !== fresh[i].length) return null;
    for (let j = 0; j < fresh[i].length; ++j) {
      const moved = Math.abs(fresh[i][j] - old[i][j]);
      if (moved > most) most = moved;
    }
  }
  return most;
}

// Numbers of a figure that outlive the library's memory.
export function keptNumbers(figure) {
  return { ...figure, panels: figure.panels.map((panel) => ({ ...panel,
    cells: panel.cells && { ...panel.cells, values: panel.cells.values.slice() },
    series: panel.series.map((series) => ({ ...series, y: Array.from(series.y) })) })) };
}

// "base: 10000 → 500000. No number in the picture moved by more than 1.9."
export function sentence(change, before, now) {
  if (!change) return "";
  const from = change.from === undefined || change.from === null || change.from === "" ? "" : ` from ${change.from}`;
  const to = change.to === undefined || change.to === null || change.to === "" ? " to what is usual" : ` to ${change.to}`;
  const moved = before && largestChange(before, now);
  const numbers = moved === null || moved === undefined || before === null ? ""
    : moved === 0 ? " No number in the picture changed." : ` The number that changed most changed by ${general(moved, 3)}.`;
  return `You set ${change.what}${from}${to}.${numbers}`;
}
