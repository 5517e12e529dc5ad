// The choice of an encoding, and a control for each number of its spec.

import { choice, scaledSteps, slider, wholeSteps } from "./controls.js";
import { make } from "./figure.js";

const sites = [["input", "added to the input"], ["query/key", "turns queries and keys"], ["score", "added to the score"],
  ["score, value", "added to the score and the value"], ["value", "turns values, and their sum back"], ["none", "no encoding"]];
// The sliders of the picture say these.
const sizes = new Set(["head_dim", "heads", "dim", "length"]);

export function encodingList(select, catalog, sayings, none) {
  const group = (label, options) => make("optgroup", { label }, ...options);
  const option = (value, text) => make("option", { value }, text);
  const groups = sites.map(([site, label]) => group(label,
    catalog.encodings.filter((one) => one.site === site).map((one) => option(one.name, `${one.name}: ${one.title}`))));
  const own = sayings.length > 0 ? [group("your model", sayings.map((one) => option(one.text, `${one.text}: ${one.name}`)))] : [];
  select.replaceChildren(...(none ? [option("", "nothing beside it")] : []), ...own, ...groups.filter((one) => one.children.length > 0));
}

function memberControl(member, value, change) {
  const known = { label: member.name.replace(/_/g, " "), text: member.text, change };
  if (member.kind === "word" && member.words.length > 1) return choice({ ...known, choices: member.words, value });
  if (member.kind === "truth") {
    return choice({ ...known, choices: ["yes", "no"], value: value === true || value === "true" ? "yes" : "no",
      change: (said) => change(said === "yes") });
  }
  const number = Number(value);
  if (!["whole", "number"].includes(member.kind) || value === null || !Number.isFinite(number)) return null;
  const usual = Number(member.value ?? 0);
  const steps = member.kind === "whole" ? wholeSteps(Math.min(usual, 1), Math.max(16, 8 * usual)) : scaledSteps(usual);
  return slider({ ...known, steps, value: number, whole: member.kind === "whole" });
}

// Controls for what an encoding's spec says; change(member, value, before) when one moves.
export function memberControls(saying, said, change) {
  const rows = [];
  for (const member of saying.members) {
    if (sizes.has(member.name)) continue;
    let now = said.keys[member.name] ?? member.value;
    const row = memberControl(member, now, (value) => {
      const before = now;
      now = value;
      change(member, value, before);
    });
    if (row) rows.push(row);
  }
  const most = 5;
  if (rows.length <= most + 1) return rows;
  return [...rows.slice(0, most), make("details", {}, make("summary", {}, `${rows.length - most} more`), ...rows.slice(most))];
}
