// Sliders, lists and ticks, each with a label that a screen reader says.

import { make } from "./figure.js";

let count = 0;

// Whole numbers from least to most: all of them, or steps that grow where they are many.
export function wholeSteps(least, most, even = false) {
  const steps = [];
  const gap = even ? 2 : 1;
  for (let x = least; x <= most; x = Math.max(x + gap, gap * Math.round((x * 1.03) / gap))) steps.push(x);
  if (steps.at(-1) !== most) steps.push(most);
  return steps;
}

// From a hundredth of a number to a hundred times it.
export function scaledSteps(usual) {
  if (usual === 0) return Array.from({ length: 81 }, (_, i) => Number(((i - 40) / 40).toPrecision(4)));
  const steps = Array.from({ length: 161 }, (_, i) => Number((usual * 10 ** ((i - 80) / 40)).toPrecision(3)));
  steps[80] = usual;
  return steps;
}

const nearest = (steps, value) => steps.reduce((best, x, i) => (Math.abs(x - value) < Math.abs(steps[best] - value) ? i : best), 0);

// A slider over `steps` with a field for any other number. set(value) moves both without telling anyone.
export function slider({ label, text, steps, value, whole, change }) {
  const id = `control${++count}`;
  const range = make("input", { type: "range", id, min: 0, max: steps.length - 1, step: 1 });
  const field = make("input", { type: "number", "aria-label": `${label}, as a number`, step: whole ? 1 : "any" });
  const say = (x) => {
    range.value = nearest(steps, x);
    range.setAttribute("aria-valuetext", String(x));
  };
  const set = (x) => {
    say(x ?? steps[0]);
    field.value = x === null || x === undefined ? "" : String(x);
  };
  set(value);
  range.addEventListener("input", () => {
    const x = steps[Number(range.value)];
    range.setAttribute("aria-valuetext", String(x));
    field.value = String(x);
    change(x);
  });
  field.addEventListener("change", () => {
    const x = field.value === "" ? null : Number(field.value);
    if (x !== null) say(x);
    change(x);
  });
  const row = make("div", { class: "control" }, make("label", { for: id, title: text }, label), range, field);
  row.set = set;
  return row;
}

export function choice({ label, text, choices, value, change }) {
  const id = `control${++count}`;
  const select = make("select", { id }, ...choices.map((one) => make("option", { value: one }, one)));
  select.value = value;
  select.addEventListener("change", () => change(select.value));
  const row = make("div", { class: "control" }, make("label", { for: id, title: text }, label), select);
  row.set = (x) => { select.value = x; };
  return row;
}
