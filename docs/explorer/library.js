import { fixed, general, shortest } from "./numbers.js";
import { wideNumbers } from "./wide.js";

// The library in WebAssembly: a question in JSON, an answer in JSON. Lists of numbers are views of its memory, which hold
// until the next question.

const reader = new TextDecoder();
const writer = new TextEncoder();

// The library's bytes, which the page holds as gzip makes them small and base64 makes them text.
export async function unpacked(text) {
  const packed = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const whole = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(whole).arrayBuffer());
}

// An error that the library found, in its words.
export class LibraryError extends Error {}

export class Library {
  constructor(bytes) {
    this.module = new WebAssembly.Module(bytes);
    this.wide = wideNumbers();
    this.begin();
  }

  // An exception ends a call for good: what comes after it runs in a fresh instance.
  begin() {
    const put = (text, at) => writer.encodeInto(text, new Uint8Array(this.memory.buffer, at)).written;
    const page = {
      shortest: (x, to) => put(shortest(x), to),
      general: (x, digits, to) => put(general(x, digits), to),
      fixed: (x, digits, to) => put(fixed(x, digits), to),
      number: (at, size) => Number(reader.decode(new Uint8Array(this.memory.buffer, at, size))),
    };
    const refused = 52; // WASI's word for a system that cannot
    const system = new Proxy({}, { get: () => () => refused });
    const imports = { page, math: Math, wide: this.wide.imports, wasi_snapshot_preview1: system };
    this.library = new WebAssembly.Instance(this.module, imports).exports;
    this.memory = this.library.memory;
    this.library._initialize();
  }

  text(at) {
    const bytes = new Uint8Array(this.memory.buffer, at);
    return reader.decode(bytes.subarray(0, bytes.indexOf(0)));
  }

  ask(question) {
    const bytes = writer.encode(JSON.stringify(question));
    let answer;
    this.wide.forget();
    try {
      const room = this.library.room(bytes.length);
      new Uint8Array(this.memory.buffer, room, bytes.length).set(bytes);
      answer = JSON.parse(this.text(this.library.ask(room, bytes.length)));
    } catch (error) {
      const said = this.library.error();
      const words = said ? this.text(said) : `the library stopped: ${error.message}`;
      this.begin();
      throw new LibraryError(words);
    }
    return this.withNumbers(answer);
  }

  withNumbers(answer) {
    if (answer === null || typeof answer !== "object") return answer;
    if (Array.isArray(answer)) return answer.map((one) => this.withNumbers(one));
    if (typeof answer.at === "number" && typeof answer.count === "number") {
      return new Float64Array(this.memory.buffer, answer.at, answer.count);
    }
    for (const key of Object.keys(answer)) answer[key] = this.withNumbers(answer[key]);
    return answer;
  }
}
