// Numbers as C++ writes and reads them: the half of tools/explorer/numbers.cc that JavaScript does better.

// Digits and the power of ten of the first one: 0.00123 → ["123", -3].
function digitsOf(exponential) {
  const [mantissa, power] = exponential.split("e");
  return [mantissa.replace(".", ""), Number(power)];
}

function scientific(digits, power) {
  const size = Math.abs(power);
  const fraction = digits.length > 1 ? "." + digits.slice(1) : "";
  return `${digits[0]}${fraction}e${power < 0 ? "-" : "+"}${size < 10 ? "0" : ""}${size}`;
}

function plain(digits, power) {
  if (power < 0) return "0." + "0".repeat(-power - 1) + digits;
  if (digits.length <= power + 1) return digits + "0".repeat(power + 1 - digits.length);
  return digits.slice(0, power + 1) + "." + digits.slice(power + 1);
}

const sign = (x) => (x < 0 || Object.is(x, -0) ? "-" : "");

function special(x) {
  if (Number.isNaN(x)) return "nan";
  return Number.isFinite(x) ? null : sign(x) + "inf";
}

// std::to_chars(x): the shortest form that reads back, with an exponent where that is shorter.
export function shortest(x) {
  if (special(x)) return special(x);
  if (x === 0) return sign(x) + "0";
  const [digits, power] = digitsOf(Math.abs(x).toExponential());
  const short = scientific(digits, power);
  const whole = power >= digits.length; // zeros would follow the digits: the exact number stands there
  const long = whole ? BigInt(Math.abs(x)).toString() : plain(digits, power);
  return sign(x) + (long.length <= short.length ? long : short);
}

// Rounded to so many digits, halves to even: toExponential() rounds them up.
function rounded(x, count) {
  const [exact, power] = digitsOf(x.toExponential(100));
  const half = exact[count] === "5" && !/[1-9]/.test(exact.slice(count + 1));
  if (count === 0) return exact[0] >= "5" && !half ? ["1", power + 1] : ["0", 0];
  const even = (exact.charCodeAt(count - 1) - 48) % 2 === 0;
  return half && even ? [exact.slice(0, count), power] : digitsOf(x.toExponential(count - 1));
}

// printf's %.*g
export function general(x, precision) {
  if (special(x)) return special(x);
  if (x === 0) return sign(x) + "0";
  const count = Math.max(precision, 1);
  const [all, power] = rounded(Math.abs(x), count);
  const digits = all.replace(/0+$/, "");
  return sign(x) + (power < -4 || power >= count ? scientific(digits, power) : plain(digits, power));
}

// printf's %.*f
export function fixed(x, precision) {
  if (special(x)) return special(x);
  const size = Math.abs(x);
  const [, power] = size === 0 ? ["", 0] : digitsOf(size.toExponential(100));
  const count = power + 1 + precision;
  if (size === 0 || count < 0 || count > 100) return sign(x) + size.toFixed(precision);
  const [digits, at] = rounded(size, count);
  const text = plain(digits, at);
  const point = text.indexOf(".");
  const missing = precision - (point < 0 ? 0 : text.length - point - 1);
  return sign(x) + (missing > 0 ? text + (point < 0 ? "." : "") + "0".repeat(missing) : text);
}
