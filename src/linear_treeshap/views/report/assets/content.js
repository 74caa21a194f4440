/* What the page knows: the JSON block, decoded when it is first looked at, and numbers as text. */

// -- content ---------------------------------------------------------------------------------------------

const content = JSON.parse(document.getElementById("content").textContent);
const nFeatures = content.features.length;
const nRows = content.n_rows;
const hasData = content.columns !== null;

/** What base value and values add up to: the output, by its unit, or else a number without a name. */
const TOTAL = content.adds_up ? (content.unit ?? "output") : "base + values";
const capital = (text) => text[0].toUpperCase() + text.slice(1);

function decode(base64, Kind) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new Kind(bytes.buffer);
}

/** A function whose answers are kept: nothing is decoded before it is looked at, nor twice. */
function once(make) {
  const kept = new Map();
  return (key) => {
    if (!kept.has(key)) kept.set(key, make(key));
    return kept.get(key);
  };
}

const KINDS = { f4: Float32Array, f8: Float64Array, i4: Int32Array };
const valuesOf = once((output) => decode(content.values[output], Float32Array));
const outputsOf = once((output) => decode(content.outputs[output], Float64Array));
const basesOf = once((output) => decode(content.bases[output], Float64Array)); // one, or one per row
const columnOf = once((feature) => {
  const column = content.columns[feature];
  const data = decode(column.data, KINDS[column.kind]);
  return { labels: column.labels || null, data, isGrouped: data.some((x) => isLarge(x)) };
});
const pictured = decode(content.pictured, Int32Array);

const value = (feature, row) => valuesOf(state.output)[feature * nRows + row];
const baseOf = (row) => {
  const bases = basesOf(state.output);
  return bases[bases.length > 1 ? row : 0];
};
const largestOf = (numbers) => numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
const labelOf = (row) => (content.labels === null ? String(row) : content.labels[row]);
const importanceOf = (feature) => content.importance[state.output][feature];
const orderOf = once((output) => {
  const importance = content.importance[output];
  return Array.from(importance.keys()).sort((a, b) => importance[b] - importance[a] || a - b);
});

/** What a row has in a feature, as text. */
function datum(feature, row) {
  const { labels, data, isGrouped } = columnOf(feature);
  if (labels !== null) return data[row] < 0 ? "missing" : labels[data[row]];
  return Number.isNaN(data[row]) ? "missing" : number(data[row], 5, isGrouped);
}

// -- numbers ---------------------------------------------------------------------------------------------

/** Thousands are set apart from here on: 2024 may be a year. Numbers of a column do it all, or none. */
const isLarge = (x) => Math.abs(x) >= 1e4;

function number(x, digits = 4, isGrouped = isLarge(x)) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  const text =
    size !== 0 && (size < 1e-4 || size >= 1e15)
      ? x.toExponential(digits - 1)
      : new Intl.NumberFormat("en", {
          maximumSignificantDigits: size >= 10 ** digits ? 15 : digits,
          maximumFractionDigits: 20,
          useGrouping: isGrouped ? "always" : false,
        }).format(size >= 10 ** digits ? Math.round(x) : x);
  return text.replace("-", "−");
}

/** Numbers that stand below each other: as many decimals as some digits of the largest need. */
function alike(largest, digits = 4) {
  const decimals = digits - 1 - Math.floor(Math.log10(largest || 1));
  if (decimals < 0 || decimals > 8 || !Number.isFinite(largest))
    return (x) => number(x, digits, isLarge(largest));
  const format = new Intl.NumberFormat("en", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
    useGrouping: false,
    signDisplay: "negative",
  });
  return (x) => format.format(x).replace("-", "−");
}
const signed = (x, format = number) => (x > 0 ? "+" : "") + format(x);
const direction = (x) => (x < 0 ? "down" : "up");
const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;
