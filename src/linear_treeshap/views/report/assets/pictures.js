/* Pictures: the plotting library draws dots and axes; tooltips and clicks are the page's own.

   So a name or a value is never handed to the library, but for the ticks of texts, as PlainText. */

const { Plotting } = Bokeh;
Bokeh.logger.set_level("warn");
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";

/** An empty figure in the page's colours; the page's own tooltip and clicks are added by `show`. */
function figure(height, attributes) {
  const made = Plotting.figure({
    height,
    sizing_mode: "stretch_width",
    tools: "",
    toolbar_location: null,
    min_border: 0,
    outline_line_color: null,
    background_fill_color: null,
    border_fill_color: null,
    lod_threshold: null,
    ...attributes,
  });
  for (const axis of made.axes) {
    Object.assign(axis, {
      axis_line_color: null,
      major_tick_line_color: null,
      minor_tick_line_color: null,
      formatter: new Bokeh.BasicTickFormatter({ power_limit_high: 9 }), // 50000, not 5.000e+4
      major_label_text_color: css("--soft"),
      major_label_text_font_size: "12px",
      major_label_text_font: FONT,
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
  for (const [name, act] of [
    ["mousemove", tip],
    ["tap", tap],
    ["mouseleave", hideTip],
  ]) {
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
  lines.push(
    element(
      "div",
      {},
      `value ${signed(value(feature, row))}, ${TOTAL} ${number(outputsOf(state.output)[row])}`,
    ),
  );
  found.place.style.cursor = "pointer";
  const place = found.place.getBoundingClientRect();
  const box = $("tip");
  box.replaceChildren(...lines);
  box.hidden = false;
  const left = place.left + event.sx + window.scrollX;
  const widest = document.documentElement.clientWidth + window.scrollX - box.offsetWidth - 8;
  box.style.left = `${Math.max(8, Math.min(left + 14, widest))}px`;
  const above = place.top + event.sy - box.offsetHeight - 14;
  box.style.top = `${(above > 8 ? above : place.top + event.sy + 18) + window.scrollY}px`;
}

function hideTip() {
  $("tip").hidden = true;
  for (const id of drawn.keys()) $(id).style.cursor = "";
}

function tap(event, find) {
  const found = find(event);
  if (found === null) return hideTip();
  select(found.row);
  tip(event, find);
}

/** The dot nearest to an event, within a finger's width; null if there is none. */
function nearest(event, start, count, x, y, made) {
  const across = made.inner_width / (made.x_range.end - made.x_range.start);
  const upwards = made.inner_height / (made.y_range.end - made.y_range.start);
  let best = 14 ** 2;
  let found = null;
  for (let k = start; k < start + count; k++) {
    const distance = ((x[k] - event.x) * across) ** 2 + ((y[k] - event.y) * upwards) ** 2;
    if (distance < best) {
      best = distance;
      found = k;
    }
  }
  return found;
}

const zeroLine = (dimension) =>
  new Bokeh.Span({ location: 0, dimension, line_color: css("--soft"), line_width: 1 });
