// Numbers of 192 bits, of which tools/explorer/wide.cc has the other half: JavaScript's whole numbers of any size do what
// Boost.Multiprecision does elsewhere, in no space. A number is m · 2^e. Each result of + - * / and the root is rounded to
// nearest, and to even where two are as near.

const wideBits = 192;
const behind = 320n; // bits behind the point of what a series sums
const unit = 1n << behind;

const sizeOf = (m) => (m < 0n ? -m : m);
const word = new DataView(new ArrayBuffer(8));

// The exponent of the nearest double says it, or one more. Of numbers that a double can be near to.
function bitsOf(m) {
  word.setFloat64(0, Number(m));
  const n = (word.getUint16(0) >> 4) - 1022;
  return m >> BigInt(n - 1) ? n : n - 1;
}

// m · 2^e with so many bits.
function roundedTo(most, m, e) {
  if (m === 0n) return { m, e: 0 };
  const whole = sizeOf(m), cut = bitsOf(whole) - most;
  if (cut <= 0) return { m: m << BigInt(-cut), e: e + cut };
  let kept = whole >> BigInt(cut);
  const middle = 1n << BigInt(cut - 1), rest = whole - (kept << BigInt(cut));
  if (rest > middle || (rest === middle && kept & 1n)) kept += 1n;
  const all = { m: m < 0n ? -kept : kept, e: e + cut };
  return kept >> BigInt(most) ? roundedTo(most, all.m, all.e) : all;
}
const wide = (m, e) => roundedTo(wideBits, m, e);

// A bit below the last that counts: whether anything was cut off.
const withRest = (m, rest) => (m << 1n) | (rest === 0n ? 0n : 1n);

function sum(a, b) {
  if (a.m === 0n) return b;
  if (b.m === 0n) return a;
  if (a.e < b.e) return sum(b, a);
  if (a.e - b.e > 2 * wideBits) return a;
  return wide((a.m << BigInt(a.e - b.e)) + b.m, b.e);
}
const opposite = (a) => ({ m: -a.m, e: a.e });

function quotient(a, b) {
  const up = wideBits + 2, n = sizeOf(a.m) << BigInt(up), d = sizeOf(b.m);
  const q = withRest(n / d, n % d);
  return wide(a.m < 0n === b.m < 0n ? q : -q, a.e - b.e - up - 1);
}

// The root's whole part, by Newton from above.
function wholeRoot(n) {
  let root = 1n << BigInt((bitsOf(n) + 1) >> 1);
  for (;;) {
    const next = (root + n / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}
function squareRoot(a) {
  if (a.m === 0n) return a;
  const up = wideBits + 2 + (a.e & 1), n = a.m << BigInt(up), root = wholeRoot(n);
  return wide(withRest(root, n - root * root), (a.e - up) / 2 - 1);
}

// Functions, in units of 2^-behind.

const shifted = (m, by) => (by >= 0 ? m << BigInt(by) : m >> BigInt(-by));
const inUnits = (a) => shifted(a.m, a.e + Number(behind));
const ofUnits = (x) => wide(x, -Number(behind));

// The sum of terms of which each gives the next, until they vanish.
function seriesOf(first, next) {
  let all = 0n, term = first;
  for (let n = 1n; term !== 0n; term = next(term, n), n += 1n) all += term;
  return all;
}
// 1/n ± 1/(3 n^3) + …: the arc whose tangent it is, circular where signs change, else hyperbolic.
function arcOf(n, sign) {
  let all = 0n, power = unit / n;
  for (let k = 1n; power !== 0n; k += 2n, power = (sign * power) / (n * n)) all += power / k;
  return all;
}
const ln2 = 18n * arcOf(26n, 1n) - 2n * arcOf(4801n, 1n) + 8n * arcOf(8749n, 1n);
const pi = 16n * arcOf(5n, -1n) - 4n * arcOf(239n, -1n);
const widePi = ofUnits(pi);

// e^x as m · 2^e; m lies near 1.
function powerOfE(x) {
  const k = x / ln2, halvings = 8n, r = (x - k * ln2) >> halvings;
  let m = seriesOf(unit, (term, n) => ((term * r) >> behind) / n);
  for (let i = 0n; i < halvings; ++i) m = (m * m) >> behind;
  return { m, e: Number(k) };
}

function logarithm(a) {
  if (a.m <= 0n) throw new RangeError("a logarithm must be taken of a positive number");
  const x = shifted(a.m, Number(behind) - wideBits); // ½ ≤ x < 1
  let y = inUnits(ofDouble(Math.log(toDouble({ m: a.m, e: -wideBits }, 53))));
  for (let i = 0; i < 2; ++i) { // 53 bits, 159, 477
    const { m, e } = powerOfE(y), power = shifted(m, e);
    y += ((2n * (x - power)) << behind) / (x + power);
  }
  return ofUnits(y + BigInt(a.e + wideBits) * ln2);
}

function sineOf(x) {
  const turn = 2n * pi, r = ((((x + pi) % turn) + turn) % turn) - pi, square = (r * r) >> behind;
  return ofUnits(seriesOf(r, (term, n) => -((term * square) >> behind) / (2n * n * (2n * n + 1n))));
}

// Doubles and floats.

function ofDouble(x) {
  if (x === 0) return { m: 0n, e: 0 };
  if (!Number.isFinite(x)) throw new RangeError(`a number must be finite, got ${x}`);
  word.setFloat64(0, x);
  const all = word.getBigUint64(0), power = Number((all >> 52n) & 2047n), digits = all & ((1n << 52n) - 1n);
  const m = power === 0 ? digits : digits | (1n << 52n);
  return wide(x < 0 ? -m : m, Math.max(power, 1) - 1075);
}
function toDouble(a, most) {
  const { m, e } = roundedTo(most, a.m, a.e), part = Math.trunc(e / 2); // 2^e alone may be no double
  return Number(m) * 2 ** part * 2 ** (e - part);
}

const floorOf = (a) => (a.e >= 0 ? a : wide(a.m >> BigInt(-a.e), 0));

const operations = {
  sum,
  difference: (a, b) => sum(a, opposite(b)),
  product: (a, b) => wide(a.m * b.m, a.e + b.e),
  quotient,
};
const functionsOfOne = {
  opposite,
  floor: floorOf,
  ceil: (a) => opposite(floorOf(opposite(a))),
  sqrt: squareRoot,
  exp: (a) => {
    const { m, e } = powerOfE(inUnits(a));
    return wide(m, e - Number(behind));
  },
  log: logarithm,
  sin: (a) => sineOf(inUnits(a)),
  cos: (a) => sineOf(inUnits(a) + pi / 2n),
};

// What the library imports. It knows a number by its place in a list, which forget() empties when nothing in the library
// holds a number any more. A number keeps what was made of it, and so do doubles and whole numbers: a slider's next picture
// asks for most of what the last one did.
export function wideNumbers() {
  let places, doubles, wholes, kept;
  const get = (at) => places[at];
  const put = (a) => places.push(a) - 1;
  const noted = (a) => (++kept, a);
  const begin = () => {
    [doubles, wholes, kept] = [new Map([[0, { m: 0n, e: 0 }], ["pi", { ...widePi }]]), new Map(), 0];
  };
  const forget = () => {
    if (kept > 50_000) begin();
    places = [doubles.get(0)];
  };
  const of = (known, x, make) => {
    if (!known.has(x)) known.set(x, noted(make(x)));
    return put(known.get(x));
  };
  begin();
  forget();
  const imports = {
    of_double: (x) => of(doubles, x, ofDouble),
    of_whole: (n) => of(wholes, n, () => wide(n, 0)),
    pi: () => put(doubles.get("pi")),
    to_double: (a) => (get(a).double ??= toDouble(get(a), 53)),
    to_float: (a) => Math.fround(toDouble(get(a), 24)),
    compare: (a, b) => {
      const { m } = operations.difference(get(a), get(b));
      return m < 0n ? -1 : Number(m > 0n);
    },
    // a^i · b^j ≥ c^k · d^l
    at_least: (a, i, b, j, c, k, d, l) => Number(a ** BigInt(i) * b ** BigInt(j) >= c ** BigInt(k) * d ** BigInt(l)),
  };
  for (const [name, f] of Object.entries(operations)) {
    imports[name] = (a, b) => of((get(a)[name] ??= new Map()), get(b), (other) => f(get(a), other));
  }
  for (const [name, f] of Object.entries(functionsOfOne)) imports[name] = (a) => put((get(a)[name] ??= noted(f(get(a)))));
  return { imports, forget };
}
