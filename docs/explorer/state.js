// What is shown, and a link that says it: #view=heatmap&a=rope:base=500000&b=alibi&length=64

const listed = new Set(["positions", "dims"]);
const words = new Set(["what"]);

export const plainState = () => ({ view: "heatmap", a: { name: "sinusoidal", keys: {} }, b: null, options: {}, config: "" });

// "rope:base=500000,pairing=half", as the command takes it.
export function textOf(said) {
  const keys = Object.entries(said.keys).map(([key, value]) => `${key}=${value}`);
  return said.name + (keys.length > 0 ? ":" + keys.join(",") : "");
}

export function saidOf(text) {
  const at = text.startsWith("@") ? text.indexOf(":", text.indexOf("#") + 1) : text.indexOf(":");
  if (at < 0) return { name: text, keys: {} };
  const keys = {};
  for (const pair of text.slice(at + 1).split(",")) {
    const equals = pair.indexOf("=");
    if (equals > 0) keys[pair.slice(0, equals)] = pair.slice(equals + 1);
  }
  return { name: text.slice(0, at), keys };
}

export function fragmentOf(state) {
  const parts = [["view", state.view], ["a", textOf(state.a)]];
  if (state.b) parts.push(["b", textOf(state.b)]);
  for (const [key, value] of Object.entries(state.options)) parts.push([key, Array.isArray(value) ? value.join(",") : value]);
  if (state.config) parts.push(["config", state.config]);
  // What a fragment may hold stays readable.
  const written = (value) => encodeURIComponent(value).replace(/%3A/g, ":").replace(/%2C/g, ",").replace(/%40/g, "@").replace(/%3D/g, "=");
  return "#" + parts.map(([key, value]) => `${key}=${written(String(value))}`).join("&");
}

export function stateOf(fragment) {
  const state = plainState();
  for (const part of fragment.replace(/^#/, "").split("&")) {
    const equals = part.indexOf("=");
    if (equals < 0) continue;
    const key = part.slice(0, equals);
    const value = decodeURIComponent(part.slice(equals + 1));
    if (key === "view" || key === "config") state[key] = value;
    else if (key === "a" || key === "b") state[key] = saidOf(value);
    else if (key === "causal") state.options[key] = value === "true";
    else if (listed.has(key)) state.options[key] = value.split(",").map(Number);
    else state.options[key] = words.has(key) ? value : Number(value);
  }
  return state;
}

// The command that prints the same picture.
export function commandOf(state, options) {
  const quoted = (text) => (/^[\w:=.,@+-]+$/.test(text) ? text : `'${text.replace(/'/g, "'\\''")}'`);
  const flags = Object.entries(options).map(([key, value]) => {
    if (key === "causal") return value ? "--causal" : "--no-causal";
    return `--${key} ${quoted(Array.isArray(value) ? value.join(",") : String(value))}`;
  });
  const encodings = [state.a, state.b].filter((one) => one).map((one) => quoted(textOf(one).replace(/^@config\.json$/, "@config.json")));
  return ["bearing plot", state.view, ...encodings, ...flags].join(" ");
}
