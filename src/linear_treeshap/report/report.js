/* The page: content (JSON in #content) → pictures, a table, a waterfall; one selected row links them.

   Names and feature values are other people's text. They enter the page through textContent only, and
   pictures through PlainText, which the plotting library draws letter by letter. */
"use strict";
(() => {
  // -- content -----------------------------------------------------------------------------------------

  const content = JSON.parse(document.getElementById("content").textContent);
  const nFeatures = content.features.length;
  const nRows = content.n_rows;
  const hasData = content.columns !== null;
  /** What base value and values add up to: the output, by Shapley's index; a number without a name, by others. */
  const TOTAL = content.adds_up ? "output" : "base + values";
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
    return { labels: column.labels || null, data: decode(column.data, KINDS[column.kind]) };
  });
  const pictured = decode(content.pictured, Int32Array);

  const value = (feature, row) => valuesOf(state.output)[feature * nRows + row];
  const baseOf = (row) => { const bases = basesOf(state.output); return bases[bases.length > 1 ? row : 0]; };
  const labelOf = (row) => content.labels === null ? String(row) : content.labels[row];
  const importanceOf = (feature) => content.importance[state.output][feature];
  const orderOf = once((output) => {
    const importance = content.importance[output];
    return Array.from(importance.keys()).sort((a, b) => importance[b] - importance[a] || a - b);
  });

  /** What a row has in a feature, as text. */
  function datum(feature, row) {
    const { labels, data } = columnOf(feature);
    if (labels !== null) return data[row] < 0 ? "missing" : labels[data[row]];
    return Number.isNaN(data[row]) ? "missing" : number(data[row], 5);
  }

  // -- numbers -------------------------------------------------------------------------------------------

  function number(x, digits = 4) {
    if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "∞" : "−∞";
    const size = Math.abs(x);
    const text = size !== 0 && (size < 1e-4 || size >= 1e15)
      ? x.toExponential(digits - 1)
      : new Intl.NumberFormat("en", { maximumSignificantDigits: size >= 10 ** digits ? 15 : digits,
          maximumFractionDigits: 20, useGrouping: size >= 1e4 ? "always" : false }).format(
          size >= 10 ** digits ? Math.round(x) : x);
    return text.replace("-", "−");
  }
  /** Numbers that stand below each other: as many decimals as some digits of the largest need. */
  function alike(largest, digits = 4) {
    const decimals = digits - 1 - Math.floor(Math.log10(largest || 1));
    if (decimals < 0 || decimals > 8 || !Number.isFinite(largest)) return (x) => number(x, digits);
    const format = new Intl.NumberFormat("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals,
      useGrouping: false, signDisplay: "negative" });
    return (x) => format.format(x).replace("-", "−");
  }
  const signed = (x, format = number) => (x > 0 ? "+" : "") + format(x);
  const direction = (x) => (x < 0 ? "down" : "up");
  const plural = (n, noun) => `${n.toLocaleString("en")} ${noun}${n === 1 ? "" : "s"}`;

  // -- elements --------------------------------------------------------------------------------------------

  const $ = (id) => document.getElementById(id);

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, given] of Object.entries(attributes)) {
      if (name === "style") for (const [property, set] of Object.entries(given)) made.style.setProperty(property, set);
      else if (name.startsWith("on")) made.addEventListener(name.slice(2), given);
      else if (given !== null && given !== undefined && given !== false) made.setAttribute(name, given);
    }
    made.append(...children); // strings become text, never markup
    return made;
  }
  function options(select, pairs, chosen) {
    select.replaceChildren(...pairs.map(([key, text]) => element("option", { value: key }, text)));
    select.value = String(chosen);
  }

  // -- state: what is looked at ------------------------------------------------------------------------------

  const state = { output: 0, shown: 0, feature: 0, partner: "auto", row: 0, cells: "data", sort: null, query: "", page: 0 };
  const SHOWN = [10, 20, 50, 100];
  const PAGE = 15;
  const TABLE_FEATURES = 8;
  const WATERFALL = 10;
  const PARTNERS = 30; // features that are tried as partners of another
  const ROW_HEIGHT = 36; // of a feature, as in the style sheet

  // -- colours -----------------------------------------------------------------------------------------------

  const CATEGORIES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c7a00", "#7f58c9"];
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

  /** Blue to red in 65 steps, by the style sheet's colours. */
  function palette() {
    const stops = ["--down", "--middle", "--up"].map((name) => channels(css(name)));
    return Array.from({ length: 65 }, (_, i) => {
      const [from, to] = i < 32 ? [stops[0], stops[1]] : [stops[1], stops[2]];
      const share = i < 32 ? i / 32 : (i - 32) / 32;
      return "#" + from.map((c, k) => Math.round(c + (to[k] - c) * share).toString(16).padStart(2, "0")).join("");
    });
  }

  /** Ranks from 0 to 1 of the numbers of a column among the rows drawn: extremes do not take all the contrast. */
  const ranksOf = once((feature) => {
    const ranks = new Float64Array(nRows).fill(NaN);
    const { labels, data } = columnOf(feature);
    if (labels !== null) return ranks;
    const sorted = Float64Array.from(pictured, (row) => data[row]).filter((x) => !Number.isNaN(x)).sort();
    const last = sorted.length - 1;
    for (const row of pictured) {
      const x = data[row];
      if (Number.isNaN(x)) continue;
      const below = bisect(sorted, x, false);
      const above = bisect(sorted, x, true) - 1;
      ranks[row] = last > 0 && sorted[0] < sorted[last] ? (below + above) / 2 / last : 0.5;
    }
    return ranks;
  });
  function bisect(sorted, x, right) {
    let low = 0;
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] < x || (right && sorted[middle] === x)) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // -- pictures ----------------------------------------------------------------------------------------------

  const { Plotting } = Bokeh;
  Bokeh.logger.set_level("warn");
  const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";

  /** An empty figure in the page's colours; the page's own tooltip and clicks are added by `show`. */
  function figure(height, attributes) {
    const made = Plotting.figure({
      height, sizing_mode: "stretch_width", tools: "", toolbar_location: null, min_border: 0, outline_line_color: null,
      background_fill_color: null, border_fill_color: null, lod_threshold: null, ...attributes,
    });
    for (const axis of made.axes) {
      Object.assign(axis, {
        axis_line_color: null, major_tick_line_color: null, minor_tick_line_color: null, major_label_text_color: css("--soft"),
        major_label_text_font_size: "12px", major_label_text_font: FONT,
      });
    }
    for (const grid of made.grids) grid.grid_line_color = css("--line");
    return made;
  }

  const drawn = new Map(); // id of a place → the view that is there

  /** Put a figure in its place; `find(event)` tells which dot an event is at: {row, feature} or null. */
  async function show(id, made, find) {
    const place = $(id);
    const turn = (Number(place.dataset.turn) || 0) + 1;
    place.dataset.turn = String(turn);
    for (const [name, act] of [["mousemove", tip], ["tap", tap], ["mouseleave", hideTip]]) {
      made.on_event(name, (event) => act(event, find));
    }
    const fresh = element("div");
    const before = drawn.get(id);
    drawn.delete(id);
    if (before) before.remove();
    place.replaceChildren(fresh);
    const view = await Plotting.show(made, fresh);
    leaveOut(fresh);
    if (place.dataset.turn === String(turn)) drawn.set(id, view);
    else view.remove(); // another picture was asked for meanwhile
  }
  /** Keep the Tab key from stopping inside a picture: keys do nothing there, the table has it all. */
  function leaveOut(root) {
    for (const one of root.querySelectorAll("*")) {
      if (one.tabIndex >= 0) one.tabIndex = -1;
      if (one.shadowRoot) leaveOut(one.shadowRoot);
    }
  }

  function tip(event, find) {
    const found = find(event);
    if (found === null) return hideTip();
    const { row, feature } = found;
    const lines = [element("b", {}, `Row ${labelOf(row)}`)];
    const name = content.features[feature];
    lines.push(element("div", {}, hasData ? `${name} = ${datum(feature, row)}` : name));
    lines.push(element("div", {}, `value ${signed(value(feature, row))}, ${TOTAL} ${number(outputsOf(state.output)[row])}`));
    found.place.style.cursor = "pointer";
    const place = found.place.getBoundingClientRect();
    const box = $("tip");
    box.replaceChildren(...lines);
    box.hidden = false;
    const left = place.left + event.sx + window.scrollX;
    const widest = document.documentElement.clientWidth + window.scrollX - box.offsetWidth - 8;
    box.style.left = `${Math.max(8, Math.min(left + 14, widest))}px`;
    box.style.top = `${place.top + event.sy + window.scrollY - box.offsetHeight - 14}px`;
  }
  function hideTip() {
    $("tip").hidden = true;
    for (const id of drawn.keys()) $(id).style.cursor = "";
  }

  function tap(event, find) {
    const found = find(event);
    if (found === null) return;
    select(found.row);
    tip(event, find);
  }

  // -- what matters: bars and swarm ----------------------------------------------------------------------------

  const shownFeatures = () => orderOf(state.output).slice(0, state.shown);

  function drawFeatures() {
    const features = shownFeatures();
    const largest = importanceOf(features[0]) || 1;
    const format = alike(largest, 3);
    $("features").replaceChildren(...features.map((feature) => element("li", {},
      element("button", {
        type: "button", "aria-pressed": String(feature === state.feature), title: content.features[feature],
        onclick: () => { state.feature = feature; pressFeature(); drawDependence(); }, "data-member": feature,
      },
        element("b", {}, content.features[feature]),
        element("i", { style: { "--share": `${100 * importanceOf(feature) / largest}%` } }),
        element("span", {}, format(importanceOf(feature)))))));
  }
  function pressFeature() {
    for (const button of $("features").querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(Number(button.dataset.member) === state.feature));
    }
  }

  /** How far from its line each dot is drawn: dots of about the same value above and below each other. */
  function stack(values, width) {
    const taken = new Map();
    const offsets = new Float64Array(values.length);
    values.forEach((x, i) => {
      const bin = Math.round(x / width);
      const rank = taken.get(bin) || 0;
      taken.set(bin, rank + 1);
      offsets[i] = rank % 2 === 0 ? rank / 2 : -(rank + 1) / 2;
    });
    const fullest = Math.max(1, ...taken.values());
    const step = Math.min(0.09, 0.84 / fullest);
    return offsets.map((offset) => offset * step);
  }

  let swarm = null; // what is drawn: features, the range of values, and how far each dot is from its line

  function drawSwarm() {
    const features = shownFeatures();
    let low = 0;
    let high = 0;
    for (const feature of features) {
      for (const row of pictured) {
        const x = value(feature, row);
        if (x < low) low = x;
        if (x > high) high = x;
      }
    }
    const margin = (high - low || 1) * 0.03;
    const width = (high - low || 1) / 220;
    const n = features.length * pictured.length;
    const [x, y, color] = [new Float64Array(n), new Float64Array(n), new Float64Array(n).fill(NaN)];
    features.forEach((feature, place) => {
      const values = Array.from(pictured, (row) => value(feature, row));
      const offsets = stack(values, width);
      const ranks = hasData ? ranksOf(feature) : null;
      pictured.forEach((row, i) => {
        const k = place * pictured.length + i;
        x[k] = values[i];
        y[k] = place + offsets[i];
        if (ranks !== null) color[k] = ranks[row];
      });
    });
    const made = figure(features.length * ROW_HEIGHT + 24, {
      frame_height: features.length * ROW_HEIGHT, x_range: [low - margin, high + margin], y_range: [features.length - 0.5, -0.5],
    });
    made.xaxes[0].ticker.desired_num_ticks = $("swarm").clientWidth < 300 ? 3 : 7;
    made.yaxis.visible = false;
    made.ygrid.ticker = new Bokeh.FixedTicker({ ticks: features.map((_, place) => place) });
    made.ygrid.grid_line_color = css("--faint");
    made.add_layout(new Bokeh.Span({ location: 0, dimension: "height", line_color: css("--soft"), line_width: 1 }));
    const source = new Bokeh.ColumnDataSource({ data: { x, y, color } });
    const size = pictured.length > 500 ? 4.5 : 6;
    made.scatter({ field: "x" }, { field: "y" }, {
      source, size, line_color: null, fill_alpha: 0.75,
      fill_color: { field: "color", transform: new Bokeh.LinearColorMapper({ palette: palette(), low: 0, high: 1, nan_color: css("--missing") }) },
    });
    swarm = { features, y, low: low - margin, high: high + margin };
    markSwarm();
    const place = $("swarm");
    place.setAttribute("aria-label", `Values of ${plural(features.length, "feature")} for ${plural(pictured.length, "row")}; the table below has the numbers`);
    return show("swarm", made, (event) => {
      const line = Math.round(event.y);
      if (line < 0 || line >= features.length) return null;
      const found = nearest(event, line * pictured.length, pictured.length, x, y, made);
      return found === null ? null : { row: pictured[found % pictured.length], feature: features[line], place };
    });
  }

  /** The dot nearest to an event, within a finger's width; null if there is none. */
  function nearest(event, start, count, x, y, made) {
    const across = made.inner_width / (made.x_range.end - made.x_range.start);
    const upwards = made.inner_height / (made.y_range.end - made.y_range.start);
    let best = 14 ** 2;
    let found = null;
    for (let k = start; k < start + count; k++) {
      const distance = ((x[k] - event.x) * across) ** 2 + ((y[k] - event.y) * upwards) ** 2;
      if (distance < best) { best = distance; found = k; }
    }
    return found;
  }

  function markSwarm() {
    if (swarm === null) return;
    const at = pictured.indexOf(state.row);
    // Beside the picture, not in it: tens of thousands of dots need not be painted again for ten rings.
    $("rings").replaceChildren(...swarm.features.map((feature, place) => element("i", { style: {
      left: `${100 * (value(feature, state.row) - swarm.low) / (swarm.high - swarm.low)}%`,
      top: `${((at < 0 ? place : swarm.y[place * pictured.length + at]) + 0.5) * ROW_HEIGHT}px`,
    } })));
  }

  // -- one feature closely -----------------------------------------------------------------------------------

  /** The feature whose numbers best tell apart the values of rows that are alike in `feature`: mean |correlation|. */
  const likelyPartner = once((key) => {
    const [output, feature] = key.split(":").map(Number);
    const along = columnOf(feature);
    const rows = Array.from(pictured).filter((row) => along.labels !== null || Number.isFinite(along.data[row]))
      .sort((a, b) => along.data[a] - along.data[b]);
    const size = Math.max(10, Math.ceil(rows.length / 20));
    let best = { feature: null, score: 0.05 };
    for (const other of orderOf(output).slice(0, PARTNERS)) {
      if (other === feature || columnOf(other).labels !== null) continue;
      const ranks = ranksOf(other);
      let score = 0;
      for (let start = 0; start < rows.length; start += size) {
        const bin = rows.slice(start, start + size);
        score += bin.length * Math.abs(correlation(bin.map((row) => ranks[row]), bin.map((row) => valuesOf(output)[feature * nRows + row])));
      }
      if (score / rows.length > best.score) best = { feature: other, score: score / rows.length };
    }
    return best.feature;
  });
  function correlation(a, b) {
    let [n, sa, sb, saa, sbb, sab] = [0, 0, 0, 0, 0, 0];
    a.forEach((p, i) => {
      if (Number.isNaN(p)) return;
      const q = b[i];
      n += 1; sa += p; sb += q; saa += p * p; sbb += q * q; sab += p * q;
    });
    const spread = (saa - sa * sa / n) * (sbb - sb * sb / n);
    return n > 2 && spread > 1e-18 ? (sab - sa * sb / n) / Math.sqrt(spread) : 0;
  }

  /** Where rows lie along a feature: its numbers; beside them those without one; or a place per text. */
  function along(feature) {
    const { labels, data } = columnOf(feature);
    const x = new Float64Array(nRows);
    if (labels !== null) {
      for (let row = 0; row < nRows; row++) x[row] = data[row] + scatterOf(row) * 0.5;
      return { x, odd: 0, range: [Math.min(-0.6, ...pictured.map((row) => x[row])), labels.length - 0.4], labels };
    }
    let [low, high] = [Infinity, -Infinity];
    for (const row of pictured) if (Number.isFinite(data[row])) { low = Math.min(low, data[row]); high = Math.max(high, data[row]); }
    if (Number.isFinite(data[state.row])) { low = Math.min(low, data[state.row]); high = Math.max(high, data[state.row]); }
    if (low > high) [low, high] = [0, 0];
    const span = high - low || Math.abs(high) * 0.1 || 1;
    let [odd, left, right] = [0, low - span * 0.04, high + span * 0.04];
    for (let row = 0; row < nRows; row++) {
      x[row] = Number.isFinite(data[row]) ? data[row] : data[row] === Infinity ? high + span * 0.08 : low - span * 0.08;
    }
    for (const row of pictured) {
      if (Number.isFinite(data[row])) continue;
      odd += 1;
      if (data[row] === Infinity) right = high + span * 0.12;
      else left = low - span * 0.12;
    }
    return { x, odd, range: [left, right], labels: null };
  }
  /** Between −½ and ½, the same for a row each time. */
  const scatterOf = (row) => ((Math.imul(row + 1, 2654435761) >>> 0) / 2 ** 32) - 0.5;

  let dependence = null; // where rows lie, and the source of the selected row's ring

  function drawDependence() {
    $("feature").value = String(state.feature);
    if (!hasData) return undefined;
    const feature = state.feature;
    const partner = state.partner === "auto" ? likelyPartner(`${state.output}:${feature}`) : state.partner === "none" ? null : Number(state.partner);
    const { x, odd, range, labels } = along(feature);
    const xs = Float64Array.from(pictured, (row) => x[row]);
    const ys = Float64Array.from(pictured, (row) => value(feature, row));
    const made = figure(330, { x_range: range });
    made.xaxes[0].ticker.desired_num_ticks = $("dependence").clientWidth < 420 ? 4 : 6;
    made.y_range.range_padding = 0.08;
    if (labels !== null) nameTicks(made.xaxes[0], labels);
    made.xgrid.grid_line_color = null;
    made.add_layout(new Bokeh.Span({ location: 0, dimension: "width", line_color: css("--soft"), line_width: 1 }));
    const size = pictured.length > 500 ? 5.5 : 7;
    const dots = new Bokeh.ColumnDataSource({ data: { x: xs, y: ys, color: colourBy(partner) } });
    made.scatter({ field: "x" }, { field: "y" }, { source: dots, size, line_color: null, fill_alpha: 0.75, fill_color: { field: "color" } });
    const ring = new Bokeh.ColumnDataSource({ data: { x: [], y: [] } });
    made.scatter({ field: "x" }, { field: "y" }, { source: ring, size: size + 6, fill_color: null, line_color: css("--ink"), line_width: 2 });
    dependence = { feature, x, ring };
    markDependence();
    $("dependence-axis").textContent = content.features[feature];
    $("dependence-note").textContent = odd === 0 ? "" : `${plural(odd, "row")} without a finite number at the edge.`;
    const place = $("dependence");
    place.setAttribute("aria-label", `Values of ${content.features[feature]} against what each row has there`);
    return show("dependence", made, (event) => {
      const found = nearest(event, 0, xs.length, xs, ys, made);
      return found === null ? null : { row: pictured[found], feature, place };
    });
  }

  function nameTicks(axis, labels) {
    const every = Math.ceil(labels.length / 8);
    const ticks = labels.map((_, code) => code).filter((code) => code % every === 0);
    const cut = (text) => text.length > 14 ? `${text.slice(0, 13)}…` : text;
    axis.ticker = new Bokeh.FixedTicker({ ticks, minor_ticks: [] });
    // PlainText: a plain string would be read as TeX where it has dollar signs.
    axis.major_label_overrides = new Map(ticks.map((code) => [code, new Bokeh.PlainText({ text: cut(labels[code]) })]));
    if (labels.length > 4) axis.major_label_orientation = 0.5;
  }

  /** The colour of each dot by another feature, and the legend that says so. */
  function colourBy(partner) {
    const legend = $("dependence-scale");
    if (partner === null) {
      legend.replaceChildren();
      return Array.from(pictured, () => css("--down"));
    }
    const { labels, data } = columnOf(partner);
    const name = element("span", {}, content.features[partner]);
    if (labels === null) {
      legend.replaceChildren(element("span", {}, "low"), element("i"), element("span", {}, "high "), name);
      const [colours, missing, ranks] = [palette(), css("--missing"), ranksOf(partner)];
      return Array.from(pictured, (row) => Number.isNaN(ranks[row]) ? missing : colours[Math.round(ranks[row] * 64)]);
    }
    const counts = new Map();
    for (const row of pictured) if (data[row] >= 0) counts.set(data[row], (counts.get(data[row]) || 0) + 1);
    const most = [...counts.keys()].sort((a, b) => counts.get(b) - counts.get(a)).slice(0, CATEGORIES.length);
    legend.replaceChildren(name, ...most.map((code, i) => element("span", { "data-colour": "", style: { "--dot": CATEGORIES[i] } }, labels[code])));
    if (counts.size > most.length) legend.append(element("span", { "data-colour": "", style: { "--dot": css("--missing") } }, "others"));
    return Array.from(pictured, (row) => { const i = most.indexOf(data[row]); return i < 0 ? css("--missing") : CATEGORIES[i]; });
  }

  function markDependence() {
    if (dependence === null) return;
    dependence.ring.data = { x: [dependence.x[state.row]], y: [value(dependence.feature, state.row)] };
  }

  // -- one row -------------------------------------------------------------------------------------------------

  function drawRow() {
    const row = state.row;
    const base = baseOf(row);
    const output = outputsOf(state.output)[row];
    const order = Array.from({ length: nFeatures }, (_, feature) => feature)
      .sort((a, b) => Math.abs(value(b, row)) - Math.abs(value(a, row)) || a - b);
    const some = order.slice(0, nFeatures <= WATERFALL + 1 ? nFeatures : WATERFALL);
    const steps = some.map((feature) => ({ feature, by: value(feature, row) }));
    if (some.length < nFeatures) steps.push({ feature: null, by: output - base - steps.reduce((sum, step) => sum + step.by, 0) });
    let at = base;
    let [low, high] = [Math.min(base, output), Math.max(base, output)];
    for (const step of steps) {
      step.from = at;
      at += step.by;
      low = Math.min(low, at);
      high = Math.max(high, at);
    }
    const span = high - low || 1;
    const format = alike(Math.max(Math.abs(high), Math.abs(low), span));
    const place = (x) => `${2 + 96 * (x - low) / span}%`;
    const end = (name, x) => element("li", { class: "end" }, element("span", { class: "name" }, name),
      element("span", { class: "track" }, element("i", { class: "mark", style: { left: place(x) } })), element("span", { class: "number" }, format(x)));
    const bar = ({ feature, by, from }) => element("li", {}, stepName(feature, row, nFeatures - some.length),
      element("span", { class: "track" }, element("u", { style: { left: place(from) } }), element("i", { class: direction(by), style: { left: place(Math.min(from, from + by)), width: `${96 * Math.abs(by) / span}%` } })),
      element("span", { class: `number ${direction(by)}` }, signed(by, format)));
    $("waterfall").replaceChildren(end("base value", base), ...steps.map(bar), end(TOTAL, output));
    $("row-title").textContent = `Row ${labelOf(row)}`;
    $("row-lead").textContent = content.output_names.length > 1
      ? `From the base value to the ${TOTAL} “${content.output_names[state.output]}”, the largest step first.`
      : `From the base value to the ${TOTAL}, the largest step first.`;
    const total = output - base;
    $("sum").replaceChildren("base value ", element("b", {}, format(base)), total < 0 ? " − " : " + ", "values ",
      element("b", {}, format(Math.abs(total))), content.adds_up ? " = output " : " = ", element("b", {}, format(output)));
    $("previous").disabled = $("next").disabled = nRows === 1;
  }
  function stepName(feature, row, rest) {
    if (feature === null) return element("span", { class: "name" }, element("em", {}, plural(rest, "other feature")));
    const name = content.features[feature];
    if (!hasData) return element("span", { class: "name", title: name }, element("span", {}, name));
    const has = datum(feature, row);
    return element("span", { class: "name", title: `${name} = ${has}` }, element("span", {}, name), element("em", {}, `= ${has}`));
  }

  // -- all rows ----------------------------------------------------------------------------------------------

  const tableFeatures = () => orderOf(state.output).slice(0, TABLE_FEATURES);
  let listed = []; // rows that match the search, in the order asked for

  /** What a column is sorted by: numbers, or texts by their place in the alphabet. */
  function sortKey(column) {
    if (column === "row") return (row) => row;
    if (column === "output") return (row) => outputsOf(state.output)[row];
    return state.cells === "data" ? (row) => columnOf(column).data[row] : (row) => value(column, row);
  }

  function listRows() {
    const query = state.query.trim().toLowerCase();
    const texts = hasData ? content.features.map((_, feature) => feature).filter((feature) => content.columns[feature].labels) : [];
    const hits = new Map(texts.map((feature) => [feature, columnOf(feature).labels.map((label) => label.toLowerCase().includes(query))]));
    const matches = (row) => labelOf(row).toLowerCase().includes(query) || texts.some((feature) => hits.get(feature)[columnOf(feature).data[row]]);
    listed = Array.from({ length: nRows }, (_, row) => row).filter((row) => query === "" || matches(row));
    if (state.sort === null) return;
    const key = sortKey(state.sort.column);
    const sign = state.sort.descending ? -1 : 1;
    // Missing ones come last either way.
    listed.sort((a, b) => Number.isNaN(key(a)) - Number.isNaN(key(b)) || sign * (key(a) - key(b)) || a - b);
  }

  function drawTable() {
    const features = tableFeatures();
    const columns = [["row", "Row"], ["output", capital(TOTAL)], ...features.map((feature) => [feature, content.features[feature]])];
    const heading = ([column, text]) => {
      const sorted = state.sort !== null && state.sort.column === column;
      const arrow = sorted ? (state.sort.descending ? " ↓" : " ↑") : "";
      return element("th", { scope: "col", "aria-sort": sorted ? (state.sort.descending ? "descending" : "ascending") : null },
        element("button", { type: "button", title: `Sort by ${text}`, onclick: () => sortBy(column), "data-column": column }, text + arrow));
    };
    const focused = document.activeElement && document.activeElement.dataset.column;
    $("table").tHead.replaceChildren(element("tr", {}, ...columns.map(heading)));
    if (focused !== undefined) {
      for (const button of $("table").tHead.querySelectorAll("button")) if (button.dataset.column === focused) button.focus();
    }
    let largest = 0;
    for (const feature of features) for (const row of pictured) largest = Math.max(largest, Math.abs(value(feature, row)));
    const formats = { output: alike(spread(outputsOf(state.output))), value: alike(largest) };
    const rows = listed.slice(state.page * PAGE, (state.page + 1) * PAGE);
    const current = rows.includes(state.row) ? state.row : rows[0];
    $("table").tBodies[0].replaceChildren(...rows.map((row) => element("tr", {
      "data-row": row, tabindex: row === current ? 0 : -1, "aria-selected": String(row === state.row), onclick: () => select(row, { focus: true }),
    },
      element("td", {}, labelOf(row)), element("td", {}, formats.output(outputsOf(state.output)[row])),
      ...features.map((feature) => cell(feature, row, largest, formats.value)))));
    const pages = Math.max(1, Math.ceil(listed.length / PAGE));
    $("page-note").textContent = listed.length === 0 ? "No row matches." : `${plural(listed.length, "row")}, page ${state.page + 1} of ${pages}`;
    $("page-back").disabled = state.page === 0;
    $("page-on").disabled = state.page >= pages - 1;
  }
  const spread = (numbers) => numbers.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
  function cell(feature, row, largest, format) {
    const by = value(feature, row);
    const share = Math.round(55 * Math.min(1, Math.abs(by) / (largest || 1)));
    const text = state.cells === "data" ? datum(feature, row) : signed(by, format);
    return element("td", {
      style: { background: `color-mix(in srgb, var(--${direction(by)}) ${share}%, transparent)` },
      title: `${content.features[feature]}${hasData ? ` = ${datum(feature, row)}` : ""}: value ${signed(by)}`,
    }, text);
  }

  function sortBy(column) {
    const again = state.sort !== null && state.sort.column === column;
    state.sort = { column, descending: again ? !state.sort.descending : column !== "row" };
    state.page = 0;
    listRows();
    drawTable();
  }
  function turnTo(page) {
    const pages = Math.max(1, Math.ceil(listed.length / PAGE));
    state.page = Math.max(0, Math.min(pages - 1, page));
    drawTable();
  }

  // -- the selected row ----------------------------------------------------------------------------------------

  function select(row, { focus = false } = {}) {
    state.row = row;
    const place = listed.indexOf(row);
    if (place >= 0) state.page = Math.floor(place / PAGE);
    drawRow();
    drawTable();
    markSwarm();
    markDependence();
    $("spoken").textContent = `Row ${labelOf(row)}, ${TOTAL} ${number(outputsOf(state.output)[row])}`;
    if (focus) $("table").tBodies[0].querySelector(`[data-row="${row}"]`).focus();
  }
  /** The row some places further on in the table, or the end of it. */
  function step(by, focus) {
    if (listed.length === 0) return;
    const place = listed.indexOf(state.row);
    const next = place < 0 ? 0 : Math.max(0, Math.min(listed.length - 1, place + by));
    select(listed[next], { focus });
  }
  function onTableKey(event) {
    const by = { ArrowDown: 1, ArrowUp: -1, PageDown: PAGE, PageUp: -PAGE, Home: -Infinity, End: Infinity }[event.key];
    const row = event.target.closest("tr[data-row]");
    if (row === null) return;
    if (event.key === "Enter" || event.key === " ") select(Number(row.dataset.row), { focus: true });
    else if (by !== undefined) step(by, true);
    else return;
    event.preventDefault();
  }

  // -- the page ------------------------------------------------------------------------------------------------

  function drawTiles() {
    const outputs = Float64Array.from(outputsOf(state.output)).sort();
    const format = alike(spread(outputs));
    const at = (share) => format(outputs[Math.round(share * (outputs.length - 1))]);
    const bases = basesOf(state.output);
    const [first] = orderOf(state.output);
    const tiles = [
      ["Base value", bases.length > 1 ? "one per row" : format(bases[0]), "before any feature is known"],
      [content.adds_up ? "Outputs" : capital(TOTAL), nRows === 1 ? at(0) : `${at(0)} to ${at(1)}`, nRows === 1 ? "of the row" : `median ${at(0.5)}`],
      ["Most important", content.features[first], `moves outputs by ${number(importanceOf(first), 3)} on average`],
      ["Rows", content.n_rows_explained.toLocaleString("en"), nRows < content.n_rows_explained ? `${nRows.toLocaleString("en")} of them on this page` : "all on this page"],
    ];
    $("tiles").replaceChildren(...tiles.map(([name, shown, more]) => element("div", {}, element("dt", {}, name), element("dd", {}, element("b", {}, shown), element("small", {}, more)))));
  }

  function drawNotes() {
    const all = content.n_rows_explained;
    const outputs = content.output_names.length;
    $("size").textContent = [plural(all, "row"), plural(nFeatures, "feature"), ...(outputs > 1 ? [plural(outputs, "output")] : [])].join(" · ");
    $("swarm-note").textContent = pictured.length < all
      ? `Dots: ${pictured.length.toLocaleString("en")} of ${all.toLocaleString("en")} rows, chosen at random. Bars: all rows.`
      : "";
    $("swarm-scale").hidden = !hasData;
    if (hasData && content.columns.some((column) => column.labels)) $("swarm-scale").append(element("span", {}, "(grey: text, missing)"));
    const some = nRows < all ? `${nRows.toLocaleString("en")} of ${all.toLocaleString("en")} rows, chosen at random. ` : "";
    const which = nFeatures > TABLE_FEATURES ? `The ${TABLE_FEATURES} most important features; red` : "Red";
    $("rows-note").textContent = `${some}${which} cells move the output up, blue ones down.`;
    if (!content.adds_up) $("meaning").textContent = "Values of this index do not add up to the output of the model; what they add up to is shown instead.";
    $("facts").replaceChildren(...content.facts.map(([name, text]) => element("div", {}, element("dt", {}, name), element("dd", {}, text))));
  }

  function drawAll() {
    drawTiles();
    drawFeatures();
    listRows();
    drawRow();
    drawTable();
    return Promise.all([drawSwarm(), drawDependence()]);
  }

  function setUp() {
    const counts = [...SHOWN.filter((n) => n < nFeatures), nFeatures].filter((n) => n <= 200);
    state.shown = Math.min(nFeatures, 10);
    state.feature = orderOf(0)[0];
    state.cells = hasData ? "data" : "values";
    options($("output"), content.output_names.map((name, i) => [i, name]), 0);
    $("output-choice").hidden = content.output_names.length < 2;
    options($("shown"), counts.map((n) => [n, n === nFeatures ? `all ${n}` : String(n)]), state.shown);
    $("shown-choice").hidden = counts.length < 2;
    const names = content.features.map((name, feature) => [feature, name]);
    options($("feature"), names, state.feature);
    options($("partner"), [["auto", "likely interaction"], ["none", "one colour"], ...names], "auto");
    options($("cells"), [...(hasData ? [["data", "feature values"]] : []), ["values", "Shapley values"]], state.cells);
    if (!hasData) {
      $("dependence").textContent = "This explanation came without the values of features, so there is nothing to draw values against.";
      for (const id of ["feature", "partner"]) $(id).disabled = true;
    }

    const on = (id, event, act) => $(id).addEventListener(event, act);
    on("output", "change", () => { state.output = Number($("output").value); drawAll(); });
    on("shown", "change", () => { state.shown = Number($("shown").value); drawFeatures(); drawSwarm(); });
    on("feature", "change", () => { state.feature = Number($("feature").value); pressFeature(); drawDependence(); });
    on("partner", "change", () => { state.partner = $("partner").value; drawDependence(); });
    on("cells", "change", () => { state.cells = $("cells").value; listRows(); drawTable(); });
    on("search", "input", () => { state.query = $("search").value; state.page = 0; listRows(); drawTable(); });
    on("previous", "click", () => step(-1, false));
    on("next", "click", () => step(1, false));
    on("page-back", "click", () => turnTo(state.page - 1));
    on("page-on", "click", () => turnTo(state.page + 1));
    on("table", "keydown", onTableKey);
    on("theme", "click", () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));
  }

  function setTheme(theme) {
    document.documentElement.dataset.theme = theme;
    drawSwarm();
    drawDependence();
  }

  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  setUp();
  drawNotes();
  drawAll().then(() => { document.documentElement.dataset.ready = String(Math.round(performance.now())); });
})();
