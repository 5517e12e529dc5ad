// The kinds of pictures, in the order of a first visit: what each is called here, and how far its sliders go. What a view
// lacks here is left as the library has it.

const length = { label: "length", text: "tokens", least: 2, most: 512, usual: 64 };
const dim = { label: "dim", text: "dimensions of a head", least: 2, most: 256, usual: 64, even: true };
const heads = { label: "heads", text: "heads", least: 1, most: 32, usual: 8 };
const head = { label: "head", text: "which head is drawn", least: 0, most: 31, usual: null };
const seed = { label: "seed", text: "draws what would be learned", least: 1, most: 99, usual: 1 };
const causal = { label: "causal", text: "keys after the query are hidden", choices: ["as it is meant", "yes", "no"] };

export const views = {
  heatmap: {
    title: "Heat map", asks: "What does it make of every position?",
    options: { length, dim, heads, head, causal, seed,
      what: { label: "what", text: "what is drawn", choices: ["by its site", "rows", "scores", "logits", "pattern"] } },
  },
  similarity: {
    title: "Similarity", asks: "How alike are two positions?",
    options: { length: { ...length, usual: 128 }, dim, heads: { ...heads, usual: 4 }, head, causal, seed },
  },
  decay: {
    title: "Decay", asks: "What do two tokens score as their distance grows?",
    options: { length: { ...length, most: 4096, usual: 256 }, dim, heads: { ...heads, usual: 4 }, head, seed,
      distance: { label: "distance", text: "between the two tokens", least: 0, most: 4095, usual: 16, here: true } },
  },
  hands: {
    title: "Hands", asks: "How far does each pair turn?",
    options: { position: { label: "position", text: "of the first hand", least: 0, most: 1024, usual: 0, here: true },
      offset: { label: "offset", text: "a second row of dials, so many tokens later", least: 0, most: 256, usual: null },
      dim: { ...dim, usual: 8 }, seed },
  },
  wavelengths: {
    title: "Wavelengths", asks: "How many tokens does a turn take?",
    options: { length: { ...length, least: 16, most: 65536, usual: 8192 }, dim: { ...dim, usual: 128 } },
  },
  curves: {
    title: "Curves", asks: "What does one dimension do over positions?",
    options: { length: { ...length, usual: 128 }, dim: { ...dim, usual: 64 }, seed },
  },
  walk: {
    title: "Walk", asks: "Where does the vector (1, 1) go?",
    options: { length: { ...length, usual: 64 }, dim: { ...dim, usual: 64 }, seed },
  },
  offset: {
    title: "Offset map", asks: "Which matrix leads k tokens on?",
    options: { offset: { label: "offset", text: "k of the matrix", least: 0, most: 64, usual: 3 }, dim: { ...dim, most: 64, usual: 16 },
      length: { ...length, usual: 128 }, seed },
  },
  buckets: {
    title: "Buckets", asks: "Which row of a table does a distance pick?",
    options: { length: { ...length, usual: 128 }, seed, causal },
  },
  correlations: {
    title: "Correlations", asks: "How do words and positions mix in a score?", single: true,
    options: { length: { ...length, most: 256, usual: 48 }, dim, seed },
  },
};

// What each view shows best, for who comes without an encoding of their own.
export const first = { heatmap: "sinusoidal", buckets: "t5", wavelengths: "rope", hands: "rope", offset: "rope", walk: "rope" };
