// What a model's file says of positions, as text.

import { make } from "./figure.js";
import { general } from "./numbers.js";

const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, ",");

function ranges(layers) {
  const runs = [];
  for (const layer of layers) {
    const last = runs.at(-1);
    if (last && layer === last[1] + 1) last[1] = layer;
    else runs.push([layer, layer]);
  }
  return runs.map(([a, b]) => (a === b ? `${a}` : `${a}–${b}`)).join(", ");
}

function facts(rows) {
  return make("dl", {}, ...rows.filter(([, text]) => text !== "").flatMap(([name, text]) =>
    [make("div", {}, make("dt", {}, name), make("dd", {}, text))]));
}

function scalingText(scaling) {
  if (!scaling || scaling.type === "none") return "none";
  const parts = Object.entries(scaling).filter(([key, value]) => key !== "type" && !Array.isArray(value));
  return `${scaling.type}: ${parts.map(([key, value]) => `${key.replace(/_/g, " ")} ${value}`).join(", ")}`;
}

function ropeFacts(rope) {
  const spec = JSON.parse(rope.json);
  const bends = rope.runs.map((run) => `pairs ${run.first}–${run.last} ${run.change}`).join(", ");
  return [["dimensions", `${rope.rotary_dim} turn, in ${rope.pairs} pairs`], ["pairing", String(spec.pairing ?? "")],
    ["base", grouped(spec.base ?? "")], ["scaling", scalingText(spec.scaling)], ["where it bends", bends],
    ["attention factor", rope.attention_factor === 1 ? "" : general(rope.attention_factor, 6)],
    ["softmax factor", rope.softmax_factor === 1 ? "" : general(rope.softmax_factor, 6)]];
}

function windowText(group) {
  if (group.window === 0) return "";
  return group.windowAfter === 0 ? `, window ${grouped(group.window)}`
    : `, window of ${grouped(group.window - 1)} tokens before and ${grouped(group.windowAfter)} after`;
}

function groupOf(group) {
  const title = `${group.part ? group.part + " " : ""}layer${group.layers.length === 1 ? "" : "s"} ${ranges(group.layers)}: ${group.encoding}`;
  const attention = group.type.replace(/_/g, " ") + windowText(group);
  return make("section", {}, make("h3", {}, title), facts([["attention", attention], ...(group.rope ? ropeFacts(group.rope) : [])]));
}

export function modelReport(model) {
  const warnings = [...model.warnings.map((one) => (one.pointer ? one.pointer + ": " : "") + one.text),
    ...new Set(model.groups.flatMap((group) => group.rope?.warnings ?? []))];
  const tokens = (n) => (n > 0 ? grouped(n) + " tokens" : "not stated");
  return [facts([["model", `${model.model_type || "type not stated"}, ${model.layers} layer${model.layers === 1 ? "" : "s"}`],
    ["heads", model.heads > 0 ? `${model.heads} query, ${model.kv_heads} key/value, ${model.head_dim} dimensions` : "not stated"],
    ["trained length", tokens(model.trained)], ["context length", tokens(model.context)],
    ["on the input", model.inputs.map((one) => one.encoding).join(", ")]]),
  ...model.groups.map(groupOf),
  ...(warnings.length > 0 ? [make("h3", {}, "Worth knowing"), make("ul", {}, ...warnings.map((text) => make("li", {}, text)))] : [])];
}
